//! A tenant or an endpoint that is named and not set up: nothing found is then no answer to what was meant.

use mailrail_egress::operator::ApiClient;

use super::segment::segment;
use crate::say::say;

/// Status of what does not exist.
const NOT_FOUND: u16 = 404;

/// Warns when the tenant, or its endpoint, is not set up. What is left of one that was deleted is found all the same, so this is no refusal;
/// to put letters back for one is refused by the API.
pub(super) async fn warn(api: &ApiClient, tenant: Option<&str>, endpoint: Option<&str>) {
    if let Some((code, text)) = unknown(api, tenant, endpoint).await {
        say(&format!("warning[{code}]: {text}"));
    }
}

/// The code and the text of what is not set up; none when all is, or the API does not say.
pub(super) async fn unknown(
    api: &ApiClient,
    tenant: Option<&str>,
    endpoint: Option<&str>,
) -> Option<(&'static str, String)> {
    let tenant = tenant?;
    let path = format!("/v1/tenants/{}", segment(tenant));
    if is_missing(api, &path).await {
        let text = format!("there is no tenant '{tenant}': check its spelling, or it was deleted");
        return Some(("unknown_tenant", text));
    }
    let endpoint = endpoint?;
    is_missing(api, &format!("{path}/endpoints/{}", segment(endpoint))).await.then(|| {
        let text =
            format!("tenant '{tenant}' has no endpoint '{endpoint}': check its spelling, or it was deleted");
        ("unknown_endpoint", text)
    })
}

async fn is_missing(api: &ApiClient, path: &str) -> bool {
    api.get(path).await.is_err_and(|error| error.status == Some(NOT_FOUND))
}
