//! Which delivery of a provider a webhook is: the same id when it is sent again.

use mailrail_types::Provider;

use crate::bucket_key::bucket_key;
use crate::preset::{Place, preset};

/// Longest id in bytes: as long as a CloudEvents `id` may be at the front door. A longer one is not used; to cut it could
/// make one of two.
pub const DELIVERY_ID_MAX_BYTES: usize = 256;

/// The provider's id of this delivery: not empty, visible ASCII, short enough. `None`: the caller makes one, and the
/// webhook is a new event when it is sent again. `header` gives the value of a header by its name in lower case.
#[must_use]
pub fn delivery_id<'h>(
    provider: Provider,
    header: impl Fn(&str) -> Option<&'h [u8]>,
    body: &[u8],
) -> Option<String> {
    let id = match preset(provider).delivery_id.as_ref()? {
        Place::Header(name) => std::str::from_utf8(header(name)?).ok()?.to_owned(),
        Place::Body(path) => bucket_key(body, None, path)?,
    };
    let usable = (1..=DELIVERY_ID_MAX_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    usable.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_where_the_provider_writes_them() {
        let all = |name: &str| Some(name.to_owned());
        let of = |provider, body: &str| {
            let header = |name: &str| match name {
                "x-github-delivery" => Some(&b"gh-1"[..]),
                "x-gitlab-event-uuid" => Some(&b"shared"[..]),
                "idempotency-key" => Some(&b"gl-1"[..]),
                "x-atlassian-webhook-identifier" => Some(&b"ji-1"[..]),
                _ => None,
            };
            delivery_id(provider, header, body.as_bytes())
        };
        assert_eq!(of(Provider::GitHub, ""), all("gh-1"));
        assert_eq!(of(Provider::GitLab, ""), all("gl-1"));
        assert_eq!(of(Provider::Jira, ""), all("ji-1"));
        assert_eq!(of(Provider::AzureDevOps, r#"{"id":"az-1"}"#), all("az-1"));
        assert_eq!(of(Provider::AzureDevOps, "{"), None);
        assert_eq!(of(Provider::Generic, r#"{"id":"x"}"#), None);
    }

    #[test]
    fn an_id_that_cannot_be_one_is_none() {
        let of = |value: &'static [u8]| delivery_id(Provider::GitHub, |_| Some(value), b"");
        assert_eq!(of(&[b'a'; 256]).map(|id| id.len()), Some(256));
        for bad in [&b""[..], b" ", b"a b", b"a\tb", b"\xff", "é".as_bytes(), &[b'a'; 257]] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
        assert_eq!(delivery_id(Provider::GitHub, |_| None, b""), None);
    }
}
