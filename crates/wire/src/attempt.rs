//! Attempts.

use bytes::Bytes;
use mailrail_types::{
    Attempt, AttemptResult, CancelReason, DeadReason, DeliveryId, EndpointId, ErrorCode, EventId, Outcome,
    RetryReason, SubscriptionId, TenantId, Timestamp,
};
use prost::Message;

use crate::Error;
use crate::error::{id16, status};
use crate::proto::attempt as pb;
use crate::unknown::{MAILRAIL_ATTEMPT_V1_ATTEMPT, encode_with, unknown_fields};

/// The record of an attempt.
#[must_use]
pub fn encode_attempt(attempt: &Attempt) -> Bytes {
    let (outcome, reason, due) = match attempt.outcome {
        Outcome::Delivered => ("delivered", "", None),
        Outcome::Retry { due, reason } => ("retry", reason.code(), Some(due)),
        Outcome::Dead(reason) => ("dead", reason.code(), None),
        Outcome::Cancelled(reason) => ("cancelled", reason.code(), None),
    };
    let message = pb::Attempt {
        delivery: attempt.delivery.as_bytes().to_vec(),
        event: attempt.event.as_bytes().to_vec(),
        tenant: attempt.tenant.as_str().to_owned(),
        endpoint: attempt.endpoint.as_str().to_owned(),
        subscription: attempt.subscription.as_str().to_owned(),
        number: attempt.number,
        started_at_ms: attempt.started_at.millis(),
        duration_ms: attempt.duration_ms,
        status: attempt.result.status.map(u32::from),
        error: attempt.result.error.map(|e| e.code().to_owned()).unwrap_or_default(),
        excerpt: attempt.result.excerpt.clone(),
        outcome: outcome.to_owned(),
        reason: reason.to_owned(),
        due_ms: due.map(Timestamp::millis),
    };
    encode_with(&message, &attempt.unknown)
}

/// Reads the record of an attempt.
///
/// # Errors
/// [`Error`] when it is not such a record.
pub fn decode_attempt(record: &Bytes) -> Result<Attempt, Error> {
    let unknown = unknown_fields(record, MAILRAIL_ATTEMPT_V1_ATTEMPT)?;
    let m = pb::Attempt::decode(record.clone())?;
    let outcome = outcome(&m)?;
    Ok(Attempt {
        delivery: DeliveryId::from_bytes(id16("delivery", &m.delivery)?),
        event: EventId::from_bytes(id16("event", &m.event)?),
        tenant: TenantId::new(&m.tenant).map_err(|e| Error::field("tenant", e))?,
        endpoint: EndpointId::new(&m.endpoint).map_err(|e| Error::field("endpoint", e))?,
        subscription: SubscriptionId::new(&m.subscription).map_err(|e| Error::field("subscription", e))?,
        number: m.number,
        started_at: Timestamp(m.started_at_ms),
        duration_ms: m.duration_ms,
        result: AttemptResult {
            status: status("status", m.status)?,
            error: match m.error.as_str() {
                "" => None,
                code => {
                    Some(ErrorCode::from_code(code).ok_or_else(|| Error::field("error", "an unknown code"))?)
                }
            },
            excerpt: m.excerpt,
        },
        outcome,
        unknown,
    })
}

fn outcome(m: &pb::Attempt) -> Result<Outcome, Error> {
    let unknown = || Error::field("reason", format!("an unknown code '{}'", m.reason));
    match m.outcome.as_str() {
        "delivered" => Ok(Outcome::Delivered),
        "retry" => Ok(Outcome::Retry {
            due: Timestamp(m.due_ms.ok_or_else(|| Error::field("due_ms", "missing"))?),
            reason: RetryReason::from_code(&m.reason).ok_or_else(unknown)?,
        }),
        "dead" => Ok(Outcome::Dead(DeadReason::from_code(&m.reason).ok_or_else(unknown)?)),
        "cancelled" => Ok(Outcome::Cancelled(CancelReason::from_code(&m.reason).ok_or_else(unknown)?)),
        other => Err(Error::field("outcome", format!("an unknown code '{other}'"))),
    }
}
