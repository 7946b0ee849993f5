//! Dead letters.

use bytes::Bytes;
use mailrail_types::{DeadLetter, DeadReason, Timestamp};
use prost::Message;

use crate::proto::deadletter as pb;
use crate::unknown::{MAILRAIL_DEADLETTER_V1_DEADLETTER, encode_with, unknown_fields};
use crate::{Error, decode_attempt, decode_delivery, encode_attempt, encode_delivery};

/// The record of a dead letter. Of more than [`DeadLetter::ATTEMPTS_MAX`] attempts the last ones are kept.
#[must_use]
pub fn encode_dead_letter(letter: &DeadLetter) -> Bytes {
    let first = letter.attempts.len().saturating_sub(DeadLetter::ATTEMPTS_MAX);
    let message = pb::DeadLetter {
        delivery: encode_delivery(&letter.delivery),
        reason: letter.reason.code().to_owned(),
        died_at_ms: letter.died_at.millis(),
        attempts: letter.attempts[first..].iter().map(|a| encode_attempt(a).to_vec()).collect(),
    };
    encode_with(&message, &letter.unknown)
}

/// Reads the record of a dead letter.
///
/// # Errors
/// [`Error`] when it is not such a record.
pub fn decode_dead_letter(record: &Bytes) -> Result<DeadLetter, Error> {
    let unknown = unknown_fields(record, MAILRAIL_DEADLETTER_V1_DEADLETTER)?;
    let m = pb::DeadLetter::decode(record.clone())?;
    Ok(DeadLetter {
        delivery: decode_delivery(&m.delivery)?,
        reason: DeadReason::from_code(&m.reason).ok_or_else(|| Error::field("reason", "an unknown code"))?,
        died_at: Timestamp(m.died_at_ms),
        attempts: m.attempts.into_iter().map(|a| decode_attempt(&a.into())).collect::<Result<_, _>>()?,
        unknown,
    })
}
