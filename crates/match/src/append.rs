//! Delivery → deliveries topic.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use mailrail_log::{Log, NewRecord, StoredRecord, append_insistently, quarantine_record};
use mailrail_telemetry::MatchMetrics;
use mailrail_types::{Delivery, PartitionCount};

use crate::Config;

/// Between two alarms of a partition that stands still.
const ALARM_PAUSE: Duration = Duration::from_secs(30);

/// What follows from a batch, by partition and in order.
#[derive(Default)]
pub(crate) struct Outbox {
    deliveries: BTreeMap<u32, Vec<NewRecord>>,
    quarantine: Vec<NewRecord>,
    quarantine_partition: u32,
}

impl Outbox {
    /// Adds a delivery behind those of its partition.
    pub(crate) fn deliver(&mut self, delivery: &Delivery, partitions: PartitionCount) {
        let key = delivery.mailbox.key();
        self.deliveries.entry(key.partition(partitions)).or_default().push(NewRecord {
            key: Bytes::copy_from_slice(key.as_str().as_bytes()),
            value: mailrail_wire::encode_delivery(delivery),
            headers: Vec::new(),
        });
    }

    /// Adds a record that could not be understood.
    pub(crate) fn quarantine(&mut self, topic: &str, partition: u32, record: &StoredRecord, problem: &str) {
        self.quarantine_partition = partition;
        self.quarantine.push(quarantine_record(topic, partition, record, problem));
    }
}

/// Appends everything, each partition in order and the partitions side by side, and returns when the log has all of it.
pub(crate) async fn append_all(log: &dyn Log, config: &Config, outbox: Outbox, metrics: &MatchMetrics) {
    let appends = outbox.deliveries.into_iter().map(|(partition, records)| async move {
        let count = records.len() as u64;
        append(log, &config.deliveries_topic, partition, records).await;
        metrics.deliveries.inc_by(count);
    });
    join_all(appends).await;
    if !outbox.quarantine.is_empty() {
        append(log, &config.quarantine_topic, outbox.quarantine_partition, outbox.quarantine).await;
    }
}

/// Appends until the log acknowledged: the partition waits for the log, and deliver knows ids that come twice.
async fn append(log: &dyn Log, topic: &str, partition: u32, records: Vec<NewRecord>) {
    while let Err(error) = append_insistently(log, topic, partition, records.clone()).await {
        // Ingest leaves room for what match adds, so a record that is too large means that settings of the two differ.
        // The event is still in the events topic: a person raises log.record_bytes_max and this goes on.
        tracing::error!(topic, partition, %error, "deliveries cannot be appended; the partition stands still");
        tokio::time::sleep(ALARM_PAUSE).await;
    }
}
