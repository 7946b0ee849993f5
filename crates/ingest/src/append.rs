//! Events into the log: nothing of a request is accepted before all of it is there.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::try_join_all;
use mailrail_log::{LogError, NewRecord};
use mailrail_types::{Event, MailboxKey};
use mailrail_wire::encode_event;
use tokio::time::Instant;

use crate::problem::{Problem, Refusal};
use crate::service::FrontDoor;
use crate::tag::Tagged;

/// Appends tagged events, those of a partition in order and the partitions side by side. Returns when all of them are
/// durable; only then they count for the sizing of their mailboxes.
pub(crate) async fn append(door: &FrontDoor, tagged: &[Tagged]) -> Result<(), Refusal> {
    let mut partitions: BTreeMap<u32, Vec<NewRecord>> = BTreeMap::new();
    for Tagged { event, mailbox, .. } in tagged {
        let record = record(door, event, mailbox)?;
        partitions.entry(mailbox.partition(door.config.partitions)).or_default().push(record);
    }
    let started = Instant::now();
    let appends = partitions.into_iter().map(|(partition, records)| append_one(door, partition, records));
    let appended = try_join_all(appends).await;
    // Also when it failed: what the log did not acknowledge in time is what one looks for here.
    door.metrics.append_seconds.observe(started.elapsed().as_secs_f64());
    appended?;
    for counter in tagged.iter().filter_map(|t| t.counter.as_ref()) {
        door.sizer.count(counter);
    }
    Ok(())
}

async fn append_one(door: &FrontDoor, partition: u32, records: Vec<NewRecord>) -> Result<(), Refusal> {
    let append = door.log.append(&door.config.topic, partition, records);
    match tokio::time::timeout(door.config.append_timeout, append).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(LogError::TooLarge { bytes })) => Err(too_large(bytes)),
        Ok(Err(error)) => Err(unavailable(partition, &error.to_string())),
        Err(_) => Err(unavailable(partition, "no acknowledgement in time")),
    }
}

/// Checked for all records before the first is appended, so that one that is too large accepts nothing.
fn record(door: &FrontDoor, event: &Event, mailbox: &MailboxKey) -> Result<NewRecord, Refusal> {
    let key = Bytes::copy_from_slice(mailbox.as_str().as_bytes());
    let value = encode_event(event);
    if key.len() + value.len() > door.config.record_bytes_max {
        return Err(too_large(key.len() + value.len()));
    }
    Ok(NewRecord { key, value, headers: door.traces.headers(event) })
}

fn too_large(bytes: usize) -> Refusal {
    let detail = format!(
        "with its attributes the event has {bytes} bytes, more than the log takes; nothing of this request was accepted: \
         send it smaller"
    );
    Refusal::new(Problem::TooLargeRecord, detail)
}

fn unavailable(partition: u32, error: &str) -> Refusal {
    tracing::warn!(partition, error, "an append was not acknowledged; the producer is told to send again");
    let detail = "the log did not acknowledge, so nothing is accepted; send the same request again: events with the same \
                  source and id are the same events";
    Refusal::new(Problem::LogUnavailable, detail)
}
