//! Which headers of a webhook go on to the cells.

use bytes::Bytes;
use mailrail_types::Provider;

use crate::preset::preset;

/// Most headers that are kept, repeated ones counted: more than any provider sends of its list.
pub const KEPT_HEADERS_MAX: usize = 32;

/// Most bytes of names and values that are kept: half of what the front door takes, and small beside a body.
pub const KEPT_BYTES_MAX: usize = 8 * 1024;

/// The headers on the provider's list, in their order, values untouched. What is not on the list does not go on; nor does
/// what comes after the limits. Names are compared whatever their case and kept in lower case.
#[must_use]
pub fn kept_headers<'h>(
    provider: Provider,
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
) -> Vec<(String, Bytes)> {
    let list = preset(provider).kept_headers;
    let mut room = KEPT_BYTES_MAX;
    headers
        .into_iter()
        .filter_map(|(name, value)| {
            let known = list.iter().find(|known| known.eq_ignore_ascii_case(name))?;
            Some(((*known).to_owned(), Bytes::copy_from_slice(value)))
        })
        .take(KEPT_HEADERS_MAX)
        .take_while(|(name, value)| {
            let left = room.checked_sub(name.len() + value.len());
            room = left.unwrap_or(0);
            left.is_some()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s34_the_list_is_kept_in_order_and_byte_for_byte() {
        let given: &[(&str, &[u8])] = &[
            ("Authorization", b"Bearer canary"),
            ("X-GitHub-Event", b"push"),
            ("cookie", b"canary"),
            ("x-forwarded-for", b"10.0.0.1"),
            ("content-type", b"application/json"),
            ("x-hub-signature-256", b"sha256=00"),
            ("x-github-event", b" \xff"),
            ("x-gitlab-event", b"of another provider"),
            ("connection", b"close"),
        ];
        let kept = kept_headers(Provider::GitHub, given.iter().copied());
        let shown: Vec<(&str, &[u8])> = kept.iter().map(|(n, v)| (n.as_str(), v.as_ref())).collect();
        let expected: &[(&str, &[u8])] = &[
            ("x-github-event", b"push"),
            ("x-hub-signature-256", b"sha256=00"),
            ("x-github-event", b" \xff"),
        ];
        assert_eq!(shown, expected);
        assert!(kept_headers(Provider::GitLab, [("x-gitlab-token", &b"canary"[..])]).is_empty());
    }

    #[test]
    fn number_and_bytes_are_bounded() {
        let many = std::iter::repeat_n(("user-agent", &b"x"[..]), 100);
        assert_eq!(kept_headers(Provider::Generic, many).len(), KEPT_HEADERS_MAX);
        let long = vec![b'x'; 3_000];
        let kept = kept_headers(Provider::Generic, std::iter::repeat_n(("user-agent", &long[..]), 5));
        assert_eq!(kept.len(), 2, "whole headers only");
        let after = [("user-agent", &long[..]), ("x-event-id", &[b'x'; 9_000][..]), ("x-event-type", b"a")];
        assert_eq!(kept_headers(Provider::Generic, after).len(), 1, "it ends where the room does");
    }
}
