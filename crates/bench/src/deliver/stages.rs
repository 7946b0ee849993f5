//! Where the time between the door and the sink goes, by what the records say: whole milliseconds, of the pipeline alone.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use mailrail_log::{Log, StoredRecord};
use mailrail_types::{DeliveryId, Timestamp};

use super::rig::Rig;
use crate::events::number_of;
use crate::figures::percentile;

/// Records taken at once.
const BATCH: usize = 1_000;
/// How long the next record may take.
const STALL_MAX: Duration = Duration::from_secs(30);

/// When a delivery was where.
#[derive(Default)]
struct Times {
    accepted: Timestamp,
    matched: Timestamp,
}

/// A line for people: medians of the stages, over the events from number `first` on.
pub(super) async fn line(rig: &Rig, first: u64) -> Result<String> {
    let mut times: HashMap<DeliveryId, Times> = HashMap::new();
    each(rig, "deliveries", |record| {
        let delivery = mailrail_wire::decode_delivery(&record.value)?;
        if number_of(&delivery.event.attributes.id).is_some_and(|number| number >= first) {
            let (accepted, matched) = (delivery.event.accepted_at, delivery.matched_at);
            times.insert(delivery.id, Times { accepted, matched });
        }
        Ok(())
    })
    .await?;
    let (mut to_match, mut to_attempt, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    each(rig, "attempts", |record| {
        let attempt = mailrail_wire::decode_attempt(&record.value)?;
        if let Some(times) = times.get(&attempt.delivery) {
            to_match.push(millis(times.matched.since(times.accepted)));
            to_attempt.push(millis(attempt.started_at.since(times.matched)));
            attempts.push(attempt.duration_ms);
        }
        Ok(())
    })
    .await?;
    let stages = [("door to match", to_match), ("match to attempt", to_attempt), ("attempt", attempts)];
    let stages = stages.map(|(name, mut all)| {
        all.sort_unstable();
        format!("{name} p50 {} p99 {}", percentile(&all, 0.50), percentile(&all, 0.99))
    });
    Ok(format!("door to sink by stage, ms: {}", stages.join(", ")))
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

async fn each(rig: &Rig, kind: &str, mut take: impl FnMut(&StoredRecord) -> Result<()>) -> Result<()> {
    let (log, topic) = (&*rig.log, rig.recipe.topic(kind));
    let readers = log.readers()?;
    for partition in 0..rig.recipe.partitions {
        let bounds = log.bounds(&topic, partition).await?;
        let mut reader = readers.open(&topic, partition, bounds.low)?;
        let mut next = bounds.low;
        while next < bounds.high {
            let batch = tokio::time::timeout(STALL_MAX, reader.next(BATCH))
                .await
                .context("a record is missing")??;
            for record in &batch {
                next = record.offset + 1;
                take(record)?;
            }
        }
    }
    Ok(())
}
