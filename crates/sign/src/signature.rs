//! Signing an attempt, and checking a signature as a receiver does.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac as _;
use subtle::{Choice, ConstantTimeEq as _};
use thiserror::Error;

use crate::SigningKey;

/// Header with the id of the delivery: the same on every attempt, so that receivers can drop duplicates.
pub const ID_HEADER: &str = "webhook-id";

/// Header with the time of the attempt in whole seconds since the Unix epoch.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";

/// Header with the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// How far an attempt's time may be from the receiver's, in both directions: what the reference libraries allow.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_mins(5);

/// Most signatures that are looked at in one header: a rotation has two; a longer list only costs time.
const SIGNATURES_MAX: usize = 16;

/// The only scheme here: HMAC-SHA256.
const SCHEME: &str = "v1,";

/// Why a signature was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The time of the attempt is too far from now: a replayed request, or a wrong clock.
    #[error(
        "the webhook timestamp is more than {tolerance_secs} s from now: check the clock, or reject the replay"
    )]
    Timestamp {
        /// The tolerance that was given.
        tolerance_secs: u64,
    },
    /// None of the signatures was made with one of the keys over these bytes.
    #[error("no signature matches: verify the bytes as they came, with the endpoint's present secret")]
    Signature,
}

/// The value of [`SIGNATURE_HEADER`]: one `v1,<base64>` per key, separated by spaces.
///
/// Signs `webhook_id`, `timestamp_secs` and `body` as they are; `body` need not be text. Every key signs, so that a
/// receiver verifies with the old secret or the new one while a rotation overlaps. `webhook_id` must not hold a `.`,
/// which separates the parts, nor come from outside: delivery ids do neither. No keys: an empty text.
#[must_use]
pub fn sign(keys: &[SigningKey], webhook_id: &str, timestamp_secs: i64, body: &[u8]) -> String {
    let mut value = String::with_capacity(keys.len() * (SCHEME.len() + 45));
    for key in keys {
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str(&signature(key, webhook_id, timestamp_secs, body));
    }
    value
}

fn signature(key: &SigningKey, webhook_id: &str, timestamp_secs: i64, body: &[u8]) -> String {
    let mut mac = key.mac();
    mac.update(webhook_id.as_bytes());
    mac.update(b".");
    mac.update(timestamp_secs.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let mut text = SCHEME.to_owned();
    STANDARD.encode_string(mac.finalize().into_bytes(), &mut text);
    text
}

/// Checks the value of a signature header as a receiver does.
///
/// Accepts when any of the first 16 signatures was made with any of the keys, and `timestamp_secs` is at most
/// `tolerance` away from `now_secs`. Takes the same time wherever a signature differs. Whole signatures are compared:
/// the beginning of one never matches (RUSTSEC-2024-0010).
///
/// # Errors
/// [`VerifyError::Timestamp`] or [`VerifyError::Signature`]; the latter also when there are no keys.
pub fn verify(
    keys: &[SigningKey],
    webhook_id: &str,
    timestamp_secs: i64,
    body: &[u8],
    signatures: &str,
    now_secs: i64,
    tolerance: Duration,
) -> Result<(), VerifyError> {
    if timestamp_secs.abs_diff(now_secs) > tolerance.as_secs() {
        return Err(VerifyError::Timestamp { tolerance_secs: tolerance.as_secs() });
    }
    let mut matched = Choice::from(0);
    for key in keys {
        let expected = signature(key, webhook_id, timestamp_secs, body);
        for given in signatures.split(' ').take(SIGNATURES_MAX) {
            matched |= expected.as_bytes().ct_eq(given.as_bytes());
        }
    }
    if bool::from(matched) { Ok(()) } else { Err(VerifyError::Signature) }
}
