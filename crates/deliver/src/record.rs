//! Attempt → attempts topic; and the dead letter before it, when there is one. Nothing ends in silence.

use bytes::Bytes;
use mailrail_log::{LogError, NewRecord, StoredRecord, append_insistently, quarantine_record};
use mailrail_types::{Attempt, Outcome};

use crate::bury::bury;
use crate::contents::Held;
use crate::service::Shared;

/// Writes what became of a delivery; returns once the log has it. Dropped because the partition leaves, the delivery is not done,
/// and its next owner does it again.
///
/// # Errors
/// When the log cannot take it at all.
pub(crate) async fn record(shared: &Shared, partition: u32, held: &Held) -> Result<(), LogError> {
    let Some(attempt) = held.attempts.last() else { return Ok(()) };
    if let Outcome::Dead(reason) = attempt.outcome {
        bury(shared, partition, held, reason).await?;
    }
    append_attempts(shared, partition, vec![attempt_record(held, attempt)]).await
}

/// Sets a record aside that cannot be understood.
///
/// # Errors
/// When the log cannot take it at all.
pub(crate) async fn quarantine(
    shared: &Shared,
    partition: u32,
    record: &StoredRecord,
    problem: &str,
) -> Result<(), LogError> {
    shared.metrics.quarantined.inc();
    let set_aside = quarantine_record(&shared.config.deliveries_topic, partition, record, problem);
    append(shared, &shared.config.quarantine_topic, partition, set_aside).await
}

/// Appends until the log has it.
///
/// # Errors
/// When the log cannot take it at all.
pub(crate) async fn append(
    shared: &Shared,
    topic: &str,
    partition: u32,
    record: NewRecord,
) -> Result<(), LogError> {
    append_insistently(&*shared.log, topic, partition, vec![record]).await
}

/// The record of a delivery's last attempt.
pub(crate) fn last_attempt_record(held: &Held) -> Option<NewRecord> {
    held.attempts.last().map(|attempt| attempt_record(held, attempt))
}

/// Appends records of attempts until the log has them.
///
/// # Errors
/// When the log cannot take them at all.
pub(crate) async fn append_attempts(
    shared: &Shared,
    partition: u32,
    records: Vec<NewRecord>,
) -> Result<(), LogError> {
    append_insistently(&*shared.log, &shared.config.attempts_topic, partition, records).await
}

fn attempt_record(held: &Held, attempt: &Attempt) -> NewRecord {
    NewRecord {
        key: Bytes::copy_from_slice(held.mailbox.as_str().as_bytes()),
        value: mailrail_wire::encode_attempt(attempt),
        headers: Vec::new(),
    }
}
