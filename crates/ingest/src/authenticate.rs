//! Who sends: the bearer key names the tenant, and nothing else does.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use mailrail_store::{Directory, TenantView};

use crate::problem::{Problem, Refusal};

/// The sender's tenant, from `Authorization: Bearer <key>`. Every failure gives the same answer, so that it tells nothing
/// about which keys exist.
pub(crate) fn authenticate(directory: &Directory, headers: &HeaderMap) -> Result<Arc<TenantView>, Refusal> {
    bearer(headers)
        .and_then(|token| directory.authenticate(token))
        .and_then(|key| directory.tenant(&key.tenant))
        .ok_or_else(|| {
            Refusal::new(
                Problem::Unauthorized,
                "send 'Authorization: Bearer <key>' with an API key of your tenant",
            )
        })
}

/// The token, when there is exactly one credential and it is a bearer token.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else {
        return None;
    };
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().expect("header value"));
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn only_one_bearer_credential_is_read() {
        assert_eq!(token(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(token(&["bEaReR  abc "]).as_deref(), Some("abc"));
        for refused in
            [&[][..], &["abc"], &["Bearer"], &["Bearer "], &["Basic abc"], &["Bearer a", "Bearer b"]]
        {
            assert_eq!(token(refused), None, "{refused:?}");
        }
    }
}
