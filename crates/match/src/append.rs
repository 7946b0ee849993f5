//! Delivery → deliveries topic.
//!
//! **Order.** What follows from events goes into an outbox in the order of the events, and outboxes are appended one after the
//! other: an append begins when the log has acknowledged everything of the one before. So within a partition of deliveries
//! nothing overtakes: an earlier delivery is either in the same call, which the log writes in order and after a failure at
//! most as a prefix, or in an earlier outbox, which is complete. A call that failed is made again whole: that repeats a
//! prefix, in order (deliver knows ids that come twice), and everything that comes later is still unsent. The next outbox is
//! filled meanwhile, by a partition's [`crate::feed`]; that is all that goes on side by side.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use mailrail_limits::{Counter, Sizer};
use mailrail_log::{Claim, Committed, Log, NewRecord, StoredRecord, append_insistently, quarantine_record};
use mailrail_telemetry::{MatchMetrics, Span};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::Config;
use crate::fan_out::FannedOut;
use crate::partition::Matching;

/// Between two alarms of a partition that stands still.
const ALARM_PAUSE: Duration = Duration::from_secs(30);

/// Most that an outbox holds before it is appended, but for one record. A partition has two: one is appended while the next
/// is filled. One event can be owed to every subscription of a tenant: memory is bounded by this, whatever the fan-out,
/// and an append stays far below what the log takes at once.
const OUTBOX_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The same for records.
const OUTBOX_RECORDS_MAX: usize = 4_096;

/// What still fits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    records: usize,
    bytes: usize,
}

impl Room {
    /// There is one record more.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Nothing more is added.
    pub(crate) fn is_used_up(self) -> bool {
        self.records == 0 || self.bytes == 0
    }
}

/// What follows from events, by partition and in order, until it is appended.
pub(crate) struct Outbox {
    deliveries: BTreeMap<u32, Vec<NewRecord>>,
    quarantine: Vec<NewRecord>,
    /// What the deliveries count for.
    counters: Vec<Counter>,
    /// Of events all of whose deliveries are in it, or were appended before.
    spans: Vec<Span>,
    room: Room,
    /// Everything that follows from events below is in it, or was appended before.
    done: Option<u64>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            deliveries: BTreeMap::new(),
            quarantine: Vec::new(),
            counters: Vec::new(),
            spans: Vec::new(),
            room: Room { records: OUTBOX_RECORDS_MAX, bytes: OUTBOX_BYTES_MAX },
            done: None,
        }
    }
}

impl Outbox {
    /// Adds deliveries behind those of their partitions, and what they count for.
    pub(crate) fn deliver(&mut self, made: FannedOut) {
        for (partition, record) in made.records {
            self.room.take(record.value.len());
            self.deliveries.entry(partition).or_default().push(record);
        }
        self.counters.extend(made.counters);
    }

    /// Adds spans of events whose deliveries were all added.
    pub(crate) fn trace(&mut self, spans: Vec<Span>) {
        self.spans.extend(spans);
    }

    /// Adds a record of the partition that could not be understood.
    pub(crate) fn quarantine(&mut self, topic: &str, partition: u32, record: &StoredRecord, problem: &str) {
        self.room.take(record.value.len());
        self.quarantine.push(quarantine_record(topic, partition, record, problem));
    }

    /// Says that everything that follows from events below `offset` was added.
    pub(crate) fn done(&mut self, offset: u64) {
        self.done = Some(offset);
    }

    /// What fits before it must be appended.
    pub(crate) fn room(&self) -> Room {
        self.room
    }

    /// Appending it would do nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.quarantine.is_empty() && self.done.is_none()
    }

    /// Appends everything, each partition in order and the partitions side by side, and returns once the log has it. Only
    /// then the deliveries count for the sizing of their mailboxes: what is given up before is done again, and counts then.
    async fn append(
        self,
        partition: u32,
        log: &dyn Log,
        config: &Config,
        metrics: &MatchMetrics,
        sizer: &Sizer,
    ) {
        let appends = self.deliveries.into_iter().map(|(partition, records)| async move {
            let count = records.len() as u64;
            append(log, &config.deliveries_topic, partition, records).await;
            metrics.deliveries.inc_by(count);
        });
        join_all(appends).await;
        self.counters.iter().for_each(|counter| sizer.count(counter));
        self.spans.into_iter().for_each(|span| span.end("matched"));
        if !self.quarantine.is_empty() {
            append(log, &config.quarantine_topic, partition, self.quarantine).await;
        }
    }
}

/// An outbox on its way to the log. The next one may be handed over when `turn` is given back.
pub(crate) struct Handed {
    pub(crate) outbox: Outbox,
    pub(crate) turn: OwnedSemaphorePermit,
}

impl Matching {
    /// Appends what is handed over until no more comes, and puts down how far the partition is done; returns the last position.
    pub(crate) async fn append_all(
        &self,
        mut handed: mpsc::Receiver<Handed>,
        claim: &Claim,
    ) -> Option<Committed> {
        let mut last = None;
        while let Some(Handed { outbox, turn }) = handed.recv().await {
            let done = outbox.done;
            outbox.append(claim.partition, &*self.log, &self.config, &self.metrics, &self.sizer).await;
            if let Some(offset) = done {
                let position = Committed { offset, metadata: String::new() };
                claim.position.set(position.clone());
                last = Some(position);
            }
            drop(turn);
        }
        last
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
