//! Whether a request is signed as Standard Webhooks says, told by an implementation that is not ours.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::Sha256;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};
use standardwebhooks::{Webhook, WebhookError};

use crate::Error;

/// Verifies requests that were signed with one secret.
pub(crate) struct Verifier {
    webhook: Webhook,
    /// The same key, for bodies that the crate refuses.
    key: Vec<u8>,
}

impl Verifier {
    /// Takes a secret in its `whsec_…` form.
    pub(crate) fn new(endpoint: &str, secret: &str) -> Result<Self, Error> {
        let bad = || Error::Secret { endpoint: endpoint.to_owned() };
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap_or(secret)).map_err(|_| bad())?;
        Ok(Self { webhook: Webhook::new(secret).map_err(|_| bad())?, key })
    }

    /// Whether the headers sign exactly these bytes, now.
    pub(crate) fn accepts(&self, headers: &HeaderMap, body: &Bytes) -> bool {
        match self.webhook.verify(body, headers) {
            Ok(()) => true,
            // The crate signs text only. It looks at headers and timestamp first, so all that is left to check of a
            // body that is not UTF-8 is the code over its bytes.
            Err(WebhookError::InvalidPayload) => self.signs_bytes(headers, body),
            Err(_) => false,
        }
    }

    fn signs_bytes(&self, headers: &HeaderMap, body: &Bytes) -> bool {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let (Some(id), Some(timestamp), Some(signatures)) =
            (text(HEADER_WEBHOOK_ID), text(HEADER_WEBHOOK_TIMESTAMP), text(HEADER_WEBHOOK_SIGNATURE))
        else {
            return false;
        };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return false };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        signatures
            .split(' ')
            .filter_map(|part| part.strip_prefix("v1,"))
            .filter_map(|code| STANDARD.decode(code).ok())
            .any(|code| mac.clone().verify_slice(&code).is_ok())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    pub(crate) const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    /// Headers of a correctly signed request; the code is made here by hand, by the text of the specification.
    pub(crate) fn signed(secret: &str, id: &str, body: &[u8]) -> HeaderMap {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("prefix")).expect("base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
        mac.update(format!("{id}.{now}.").as_bytes());
        mac.update(body);
        let code = STANDARD.encode(mac.finalize().into_bytes());
        let mut headers = HeaderMap::new();
        headers.insert(HEADER_WEBHOOK_ID, id.parse().expect("header"));
        headers.insert(HEADER_WEBHOOK_TIMESTAMP, now.into());
        headers.insert(HEADER_WEBHOOK_SIGNATURE, format!("v1,{code}").parse().expect("header"));
        headers
    }

    #[test]
    fn text_and_other_bytes_are_verified_and_changes_are_noticed() {
        let verifier = Verifier::new("shop", SECRET).expect("secret");
        for body in [b"{\"a\": 1}".as_slice(), b"", b"\xff\xfe{\"a\":\xc3}"] {
            let headers = signed(SECRET, "dlv_1", body);
            assert!(verifier.accepts(&headers, &Bytes::copy_from_slice(body)), "{body:?}");

            let mut changed = body.to_vec();
            changed.push(b' ');
            assert!(!verifier.accepts(&headers, &changed.into()), "{body:?} with a space");

            let mut other_id = headers.clone();
            other_id.insert(HEADER_WEBHOOK_ID, "dlv_2".parse().expect("header"));
            assert!(!verifier.accepts(&other_id, &Bytes::copy_from_slice(body)), "{body:?} under another id");

            for name in [HEADER_WEBHOOK_ID, HEADER_WEBHOOK_TIMESTAMP, HEADER_WEBHOOK_SIGNATURE] {
                let mut missing = headers.clone();
                missing.remove(name);
                assert!(
                    !verifier.accepts(&missing, &Bytes::copy_from_slice(body)),
                    "{body:?} without {name}"
                );
            }
        }
    }

    #[test]
    fn stale_requests_and_other_secrets_are_refused_for_any_bytes() {
        let other = "whsec_AAAAsBQIhrscChlQIMV+b5sSYspob7oD";
        let verifier = Verifier::new("shop", SECRET).expect("secret");
        for body in [b"{}".as_slice(), b"\xff"] {
            assert!(!verifier.accepts(&signed(other, "dlv_1", body), &Bytes::copy_from_slice(body)));
            let mut stale = signed(SECRET, "dlv_1", body);
            stale.insert(HEADER_WEBHOOK_TIMESTAMP, 1_000_000.into());
            assert!(!verifier.accepts(&stale, &Bytes::copy_from_slice(body)));
        }
    }

    #[test]
    fn one_good_signature_of_several_is_enough() {
        let verifier = Verifier::new("shop", SECRET).expect("secret");
        for body in [b"{}".as_slice(), b"\xff"] {
            let mut headers = signed(SECRET, "dlv_1", body);
            let good = headers[HEADER_WEBHOOK_SIGNATURE].to_str().expect("text").to_owned();
            let several = format!("v1,AAAA v1a,xyz {good}");
            headers.insert(HEADER_WEBHOOK_SIGNATURE, several.parse().expect("header"));
            assert!(verifier.accepts(&headers, &Bytes::copy_from_slice(body)));
        }
    }
}
