//! Checking that a third party's webhook was sent by the one who knows the integration's secret.
//!
//! | provider | header | proof |
//! |---|---|---|
//! | github | `X-Hub-Signature-256` | `sha256=` and hex of HMAC-SHA256 over the body |
//! | gitlab | `webhook-signature` | Standard Webhooks, with a signing token (`whsec_…`) |
//! | gitlab | `X-Gitlab-Token` | the secret itself; used when there is no `webhook-signature` |
//! | jira | `X-Hub-Signature` | as github |
//! | azure_devops | `Authorization: Basic` | the secret is the password; the user name is not looked at |
//! | generic | `webhook-signature` | Standard Webhooks, with a secret `whsec_…` |
//! | generic | `X-Signature-256` | as github; used when there is no `webhook-signature` |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mailrail_types::{Provider, Secret, Timestamp};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    ID_HEADER, SIGNATURE_HEADER, SigningKey, TIMESTAMP_HEADER, TOLERANCE_DEFAULT, VerifyError, verify,
};

const GITHUB_HEADER: &str = "x-hub-signature-256";
const GITLAB_HEADER: &str = "x-gitlab-token";
const JIRA_HEADER: &str = "x-hub-signature";
const BASIC_HEADER: &str = "authorization";
const GENERIC_HEADER: &str = "x-signature-256";

/// Longest proof that is looked at: a signature has 71 bytes, and a secret is not much longer.
const PROOF_MAX_BYTES: usize = 4096;

/// Why a webhook is not taken for the provider's. The texts hold nothing of what was sent, nor of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InboundError {
    /// The header that carries the proof is not there, or not of its form.
    #[error("header '{0}' is missing or malformed: set the integration's secret at the provider")]
    Missing(&'static str),
    /// The proof was not made with one of the integration's secrets over these bytes.
    #[error("header '{0}' does not match: set the same secret at the provider as at the integration")]
    Mismatch(&'static str),
    /// It was made too long ago, or with a wrong clock.
    #[error(transparent)]
    Timestamp(VerifyError),
}

/// Checks a webhook of `provider` with any of `secrets`: two of them let a rotation overlap. No secrets: nothing is
/// checked. An empty secret proves nothing and matches nothing.
///
/// `header` gives the value of a header by its name in lower case, and nothing when the header is there twice. `body` is
/// what came, byte for byte. Takes the same time wherever a proof differs, and whichever secret matches.
///
/// # Errors
/// [`InboundError`]
pub fn verify_inbound<'h>(
    provider: Provider,
    secrets: &[Secret],
    header: impl Fn(&str) -> Option<&'h [u8]>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), InboundError> {
    if secrets.is_empty() {
        return Ok(());
    }
    let standard = |otherwise: &dyn Fn() -> Result<(), InboundError>| match header(SIGNATURE_HEADER) {
        Some(signatures) => standard_webhook(secrets, &header, signatures, body, now),
        None => otherwise(),
    };
    let proof = |name| header(name).filter(|value| value.len() <= PROOF_MAX_BYTES);
    match provider {
        Provider::GitHub => hex_hmac(secrets, GITHUB_HEADER, proof(GITHUB_HEADER), body),
        Provider::GitLab => standard(&|| token(secrets, GITLAB_HEADER, proof(GITLAB_HEADER))),
        Provider::Jira => hex_hmac(secrets, JIRA_HEADER, proof(JIRA_HEADER), body),
        Provider::AzureDevOps => basic(secrets, proof(BASIC_HEADER)),
        // A provider that is newer than this crate proves itself as a generic one.
        _ => standard(&|| hex_hmac(secrets, GENERIC_HEADER, proof(GENERIC_HEADER), body)),
    }
}

/// `sha256=` and 64 hex digits. Another method is not accepted: SHA-1 is what GitHub sends beside it.
fn hex_hmac(
    secrets: &[Secret],
    name: &'static str,
    value: Option<&[u8]>,
    body: &[u8],
) -> Result<(), InboundError> {
    let given = value
        .and_then(|value| value.strip_prefix(b"sha256="))
        .and_then(|hex| HEXLOWER_PERMISSIVE.decode(hex).ok())
        .filter(|given| given.len() == Sha256::output_size())
        .ok_or(InboundError::Missing(name))?;
    any(secrets, name, |secret| match Hmac::<Sha256>::new_from_slice(secret) {
        Ok(mac) => mac.chain_update(body).finalize().into_bytes().as_slice().ct_eq(&given),
        Err(_) => Choice::from(0),
    })
}

/// The secret itself.
fn token(secrets: &[Secret], name: &'static str, value: Option<&[u8]>) -> Result<(), InboundError> {
    let given = value.ok_or(InboundError::Missing(name))?;
    any(secrets, name, |secret| equal(secret, given))
}

/// `Basic` and base64 of `user:password`.
fn basic(secrets: &[Secret], value: Option<&[u8]>) -> Result<(), InboundError> {
    let missing = InboundError::Missing(BASIC_HEADER);
    let (scheme, rest) = value.and_then(|value| value.split_at_checked(6)).ok_or(missing)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return Err(missing);
    }
    let credentials = Zeroizing::new(STANDARD.decode(rest.trim_ascii()).map_err(|_| missing)?);
    let colon = credentials.iter().position(|b| *b == b':').ok_or(missing)?;
    any(secrets, BASIC_HEADER, |secret| equal(secret, &credentials[colon + 1..]))
}

/// Standard Webhooks, as a receiver checks it. Secrets of another form take no part.
fn standard_webhook<'h>(
    secrets: &[Secret],
    header: &impl Fn(&str) -> Option<&'h [u8]>,
    signatures: &[u8],
    body: &[u8],
    now: Timestamp,
) -> Result<(), InboundError> {
    let text = |name| header(name).and_then(|value| std::str::from_utf8(value).ok());
    // A '.' in the id would let the end of the id pass for the time and the time for the body.
    let id = text(ID_HEADER).filter(|id| !id.contains('.')).ok_or(InboundError::Missing(ID_HEADER))?;
    let timestamp =
        text(TIMESTAMP_HEADER).and_then(|t| t.parse().ok()).ok_or(InboundError::Missing(TIMESTAMP_HEADER))?;
    let signatures = std::str::from_utf8(signatures).map_err(|_| InboundError::Missing(SIGNATURE_HEADER))?;
    let keys: Vec<SigningKey> = secrets.iter().filter_map(|s| SigningKey::parse(s).ok()).collect();
    verify(&keys, id, timestamp, body, signatures, now.secs(), TOLERANCE_DEFAULT).map_err(|error| match error
    {
        VerifyError::Timestamp { .. } => InboundError::Timestamp(error),
        VerifyError::Signature => InboundError::Mismatch(SIGNATURE_HEADER),
    })
}

/// Whether one of the secrets fits; all of them are tried.
fn any(secrets: &[Secret], name: &'static str, fits: impl Fn(&[u8]) -> Choice) -> Result<(), InboundError> {
    let usable = secrets.iter().map(|s| s.expose().as_bytes()).filter(|s| !s.is_empty());
    let fitted = usable.fold(Choice::from(0), |found, secret| found | fits(secret));
    if bool::from(fitted) { Ok(()) } else { Err(InboundError::Mismatch(name)) }
}

/// Compares digests, so that not even the length of the secret shows in the time.
fn equal(secret: &[u8], given: &[u8]) -> Choice {
    Sha256::digest(secret).as_slice().ct_eq(Sha256::digest(given).as_slice())
}

#[cfg(test)]
mod tests;
