//! Delivery → deliveries topic.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use mailrail_limits::{Counter, Sizer};
use mailrail_log::{Log, NewRecord, StoredRecord, append_insistently, quarantine_record};
use mailrail_telemetry::MatchMetrics;
use mailrail_types::{Delivery, PartitionCount};

use crate::Config;

/// Between two alarms of a partition that stands still.
const ALARM_PAUSE: Duration = Duration::from_secs(30);

/// Most that an outbox holds before it is appended. One event can be owed to every subscription of a tenant: memory is
/// bounded by this and one record, whatever the fan-out, and an append stays far below what the log takes at once.
const OUTBOX_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The same for records.
const OUTBOX_RECORDS_MAX: usize = 4_096;

/// What follows from events, by partition and in order, until it is appended.
#[derive(Default)]
pub(crate) struct Outbox {
    deliveries: BTreeMap<u32, Vec<NewRecord>>,
    quarantine: Vec<NewRecord>,
    quarantine_partition: u32,
    /// What the deliveries count for.
    counters: Vec<Counter>,
    records: usize,
    bytes: usize,
}

impl Outbox {
    /// Adds a delivery behind those of its partition, and what it counts for.
    pub(crate) fn deliver(
        &mut self,
        delivery: &Delivery,
        counter: Option<Counter>,
        partitions: PartitionCount,
    ) {
        let key = delivery.mailbox.key();
        let record = NewRecord {
            key: Bytes::copy_from_slice(key.as_str().as_bytes()),
            value: mailrail_wire::encode_delivery(delivery),
            headers: Vec::new(),
        };
        self.records += 1;
        self.bytes += record.value.len();
        self.counters.extend(counter);
        self.deliveries.entry(key.partition(partitions)).or_default().push(record);
    }

    /// Adds a record that could not be understood.
    pub(crate) fn quarantine(&mut self, topic: &str, partition: u32, record: &StoredRecord, problem: &str) {
        self.quarantine_partition = partition;
        self.records += 1;
        self.bytes += record.value.len();
        self.quarantine.push(quarantine_record(topic, partition, record, problem));
    }

    /// Whether it must be appended before more is added.
    pub(crate) fn is_full(&self) -> bool {
        self.records >= OUTBOX_RECORDS_MAX || self.bytes >= OUTBOX_BYTES_MAX
    }

    /// Appends everything, each partition in order and the partitions side by side, and is empty once the log has it. Only
    /// then the deliveries count for the sizing of their mailboxes: what is given up before is done again, and counts then.
    pub(crate) async fn append(
        &mut self,
        log: &dyn Log,
        config: &Config,
        metrics: &MatchMetrics,
        sizer: &Sizer,
    ) {
        let outbox = std::mem::take(self);
        let appends = outbox.deliveries.into_iter().map(|(partition, records)| async move {
            let count = records.len() as u64;
            append(log, &config.deliveries_topic, partition, records).await;
            metrics.deliveries.inc_by(count);
        });
        join_all(appends).await;
        outbox.counters.iter().for_each(|counter| sizer.count(counter));
        if !outbox.quarantine.is_empty() {
            append(log, &config.quarantine_topic, outbox.quarantine_partition, outbox.quarantine).await;
        }
    }
}

/// Appends until the log acknowledged: the partition waits for the log, and deliver knows ids that come twice.
async fn append(log: &dyn Log, topic: &str, partition: u32, records: Vec<NewRecord>) {
    while let Err(error) = append_insistently(log, topic, partition, records.clone()).await {
        // Ingest leaves room for what match adds, so a record that is too large means that settings of the two differ.
        // The event is still in the events topic: a person gives both the same ingest.body_limit_bytes and this goes on.
        tracing::error!(topic, partition, %error, "deliveries cannot be appended; the partition stands still");
        tokio::time::sleep(ALARM_PAUSE).await;
    }
}
