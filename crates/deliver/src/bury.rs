//! What is given up → dead-letters topic.

use bytes::Bytes;
use mailrail_log::{LogError, NewRecord};
use mailrail_types::{DeadLetter, DeadReason, Delivery};

use crate::contents::Held;
use crate::record::append;
use crate::service::Shared;

/// Writes the dead letter: the delivery with its payload, why, and its last attempts. A letter that is larger than the log
/// takes goes without the attempts; they are in the attempts topic.
///
/// # Errors
/// When the log cannot take it at all.
pub(crate) async fn bury(
    shared: &Shared,
    partition: u32,
    held: &Held,
    reason: DeadReason,
) -> Result<(), LogError> {
    let mut letter = DeadLetter {
        delivery: Delivery::clone(&held.delivery),
        reason,
        died_at: shared.now(),
        attempts: held.attempts.clone(),
        unknown: Bytes::new(),
    };
    let topic = &shared.config.dead_letters_topic;
    match append(shared, topic, partition, letter_record(&letter)).await {
        Err(LogError::TooLarge { .. }) => {
            letter.attempts.clear();
            append(shared, topic, partition, letter_record(&letter)).await
        }
        result => result,
    }
}

fn letter_record(letter: &DeadLetter) -> NewRecord {
    let key = letter.delivery.mailbox.key();
    NewRecord {
        key: Bytes::copy_from_slice(key.as_str().as_bytes()),
        value: mailrail_wire::encode_dead_letter(letter),
        headers: Vec::new(),
    }
}
