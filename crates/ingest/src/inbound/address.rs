//! The URL of a webhook: which integration it is for, and what goes on to the cells.
//!
//! `/v1/inbound/{provider}/{integration}`, followed by whatever the third party adds. A third party cannot send our API
//! keys, so the URL is all that tells whose integration it is: `{tenant}:{integration}` always does, `{integration}` alone
//! as long as no other tenant has one of the same provider and id. Where tenants do not trust each other, give out the
//! former: somebody else's new integration may not make it ambiguous.

use http::Uri;
use mailrail_types::{IntegrationId, Provider, TenantId};
use percent_encoding::percent_decode_str;

use crate::service::INBOUND_PATH;

/// Where a webhook came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) provider: Provider,
    /// `None`: the URL leaves it to the integration.
    pub(crate) tenant: Option<TenantId>,
    pub(crate) integration: IntegrationId,
    /// What follows, as it came: path and query.
    pub(crate) rest: String,
}

/// Reads a URL. `None` when it cannot name an integration, or when its rest could lead out of a cell's own path: that is
/// appended to the cell's URL, so a third party must not be able to climb (`..`, also in disguise).
pub(crate) fn read(uri: &Uri) -> Option<Address> {
    let path = uri.path().strip_prefix(INBOUND_PATH)?.strip_prefix('/')?;
    let (provider, path) = path.split_once('/')?;
    let (named, rest) = path.find('/').map_or((path, ""), |at| path.split_at(at));
    if climbs(rest) {
        return None;
    }
    let named = percent_decode_str(named).decode_utf8().ok()?;
    let (tenant, integration) = match named.split_once(':') {
        Some((tenant, integration)) => (Some(TenantId::new(tenant).ok()?), integration),
        None => (None, &*named),
    };
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    if query.contains('\\') {
        return None;
    }
    Some(Address {
        provider: Provider::from_name(provider)?,
        tenant,
        integration: IntegrationId::new(integration).ok()?,
        rest: format!("{rest}{query}"),
    })
}

/// Whether a URL parser, or a server behind it, would shorten this path: dot segments in any spelling, also beside an encoded
/// slash or before a path parameter (`..;x`), or a backslash, which parsers take for a slash.
fn climbs(path: &str) -> bool {
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    path.contains('\\')
        || decoded.split(|b| b"/\\;".contains(b)).any(|segment| matches!(segment, b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(uri: &str) -> Option<(Provider, Option<String>, String, String)> {
        let address = read(&uri.parse().expect("a URI"))?;
        let tenant = address.tenant.map(|t| t.to_string());
        Some((address.provider, tenant, address.integration.to_string(), address.rest))
    }

    #[test]
    fn whose_it_is_and_what_follows() {
        let gh = |tenant: Option<&str>, rest: &str| {
            Some((Provider::GitHub, tenant.map(str::to_owned), "main".to_owned(), rest.to_owned()))
        };
        assert_eq!(address("/v1/inbound/github/main"), gh(None, ""));
        assert_eq!(address("/v1/inbound/github/main/"), gh(None, "/"));
        assert_eq!(address("/v1/inbound/github/main?a=1&b"), gh(None, "?a=1&b"));
        assert_eq!(
            address("/v1/inbound/github/acme:main/a%2Fb//c?x=/../y"),
            gh(Some("acme"), "/a%2Fb//c?x=/../y")
        );
        assert_eq!(address("/v1/inbound/github/acme%3Amain"), gh(Some("acme"), ""));
        assert_eq!(address("http://host/v1/inbound/github/main"), gh(None, ""));
        assert_eq!(address("/v1/inbound/github/main?"), gh(None, "?"));
    }

    #[test]
    fn what_names_no_integration() {
        for uri in [
            "/v1/inbound",
            "/v1/inbound/",
            "/v1/inbound/github",
            "/v1/inbound/github/",
            "/v1/inbound/GitHub/main",
            "/v1/inbound/nobody/main",
            "/v1/inbound/github/Main",
            "/v1/inbound/github/:main",
            "/v1/inbound/github/acme:",
            "/v1/inbound/github/a:b:c",
            "/v1/inbound/github/%ff",
            "/v1/inbound/github/a%2Fb",
            "/v1/inboundgithub/main",
        ] {
            assert_eq!(address(uri), None, "{uri}");
        }
    }

    #[test]
    fn nothing_leads_out_of_a_cells_path() {
        for rest in [
            "/..",
            "/../x",
            "/a/../b",
            "/.",
            "/./a",
            "/%2e%2E/x",
            "/.%2e",
            "/%2e/a",
            "/a\\..\\b",
            "\\x",
            "/%2E%2e%2f..%2fx",
            "/a%5c..%5cb",
            "/;a/..;/b",
            "/..;x",
            "/a%2F%2e%2e",
        ] {
            assert_eq!(address(&format!("/v1/inbound/github/main{rest}")), None, "{rest}");
        }
        for rest in ["/...", "/a..b", "/..a", "/%252e%252e/x"] {
            assert!(address(&format!("/v1/inbound/github/main{rest}")).is_some(), "{rest}");
        }
    }
}
