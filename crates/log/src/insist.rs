//! Appending until the log has it.

use std::time::Duration;

use crate::{Log, LogError, NewRecord};

/// Pauses between two tries; the last one repeats.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

/// Appends `records` and tries again until the log acknowledged them: for what must not be lost and whose caller holds a
/// bounded amount. A repeated append may write records twice, in order. Dropped when the caller gives up the partition.
///
/// # Errors
/// [`LogError::TooLarge`]: trying again cannot help. [`LogError::Closed`]: the process is ending.
pub async fn append_insistently(
    log: &dyn Log,
    topic: &str,
    partition: u32,
    records: Vec<NewRecord>,
) -> Result<(), LogError> {
    let mut tries = 0;
    loop {
        match log.append(topic, partition, records.clone()).await {
            Ok(_) => return Ok(()),
            Err(error @ (LogError::TooLarge { .. } | LogError::Closed)) => return Err(error),
            Err(error) => tracing::warn!(topic, partition, tries, %error, "append failed; it is tried again"),
        }
        tokio::time::sleep(PAUSES[tries.min(PAUSES.len() - 1)]).await;
        tries += 1;
    }
}
