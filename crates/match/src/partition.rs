//! One partition of the events topic: the list of steps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use mailrail_limits::Sizer;
use mailrail_log::{Claim, Committed, Log, LogError, Owner, Owning, Readers, StoredRecord};
use mailrail_store::Directory;
use mailrail_telemetry::{MailboxMetrics, MatchMetrics};
use mailrail_types::Event;

use crate::Config;
use crate::append::Outbox;
use crate::config::BATCH_RECORDS_MAX;
use crate::decode::{Decoded, decode};
use crate::fan_out::fan_out;
use crate::filters::Filters;
use crate::service::Clock;
use crate::tag::{Tagged, tag};
use crate::targets::{Target, targets};

/// After a reader said that the log does not answer.
const READ_PAUSE: Duration = Duration::from_millis(500);

/// Recipients of one event whose mailboxes are sized side by side. Each may wait for a reading of its own counter: one
/// after the other, a wide fan-out would wait as many times.
pub(crate) const SIZED_AT_A_TIME: usize = 64;

/// Everything that the pipeline of a partition works with.
pub(crate) struct Matching {
    pub(crate) config: Config,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) readers: Box<dyn Readers>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) filters: Filters,
    pub(crate) sizer: Sizer,
    pub(crate) metrics: MatchMetrics,
    pub(crate) mailboxes: MailboxMetrics,
    pub(crate) clock: Clock,
}

#[async_trait]
impl Owner for Matching {
    async fn own(&self, claim: Claim) -> Owning {
        self.metrics.partitions.inc();
        let _owned = OnDrop(|| {
            self.metrics.partitions.dec();
        });
        let found = tokio::select! {
            biased;
            () = claim.stop.cancelled() => return Ok(None),
            () = claim.cut.cancelled() => return Ok(None),
            found = claim.find_position() => found,
        };
        let from = found.at.offset;
        if found.first {
            // Committed at once: a group without a position looks like one that lost it.
            claim.position.set(found.at);
        }
        let mut reader = self.readers.open(&self.config.events_topic, claim.partition, from)?;
        let mut last = None;
        loop {
            let batch = tokio::select! {
                biased;
                () = claim.stop.cancelled() => return Ok(last),
                () = claim.cut.cancelled() => return Ok(last),
                batch = reader.next(BATCH_RECORDS_MAX) => batch,
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(LogError::Unavailable(problem)) => {
                    tracing::warn!(partition = claim.partition, problem, "events cannot be read; waiting");
                    tokio::time::sleep(READ_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Dropped half-way when the partition leaves: nothing was committed, so the next owner does it again with
            // the same delivery ids.
            let done = tokio::select! {
                biased;
                done = self.pass(claim.partition, &batch) => done,
                () = claim.cut.cancelled() => return Ok(last),
            };
            let position = Committed { offset: done, metadata: String::new() };
            claim.position.set(position.clone());
            last = Some(position);
        }
    }
}

impl Matching {
    /// Takes a batch through all steps; returns the offset behind it, once the log has all that followed from it.
    async fn pass(&self, partition: u32, batch: &[StoredRecord]) -> u64 {
        let mut outbox = Outbox::default();
        for record in batch {
            match decode(record) {
                Decoded::Event(event) => self.match_event(&event, &mut outbox).await,
                Decoded::Unreadable(problem) => {
                    self.metrics.quarantined.inc();
                    tracing::error!(
                        partition,
                        offset = record.offset,
                        problem,
                        "event record goes to quarantine"
                    );
                    outbox.quarantine(&self.config.events_topic, partition, record, &problem);
                }
            }
        }
        outbox.append(&*self.log, &self.config, &self.metrics, &self.sizer).await;
        // The port gives at least one record.
        batch.last().map_or(0, |record| record.offset + 1)
    }

    async fn match_event(&self, event: &Event, outbox: &mut Outbox) {
        // Never call an event unwanted on a set-up older than the one it was accepted with.
        if self.directory.seq() < event.setup_seq {
            self.directory.reached(event.setup_seq).await;
        }
        self.metrics.events.inc();
        // Filters may take a while: others on this thread come first now and then.
        tokio::task::yield_now().await;
        let view = self.directory.tenant(&event.tenant);
        let targets =
            view.as_ref().map(|view| targets(view, &self.filters, event, &self.metrics)).unwrap_or_default();
        let Some(view) = view.filter(|_| !targets.is_empty()) else {
            self.metrics.unmatched.inc();
            return;
        };
        let now = (self.clock)();
        let tagged = targets.into_iter().map(|target| self.tag(event, target));
        // In the order of the targets, whichever is sized first.
        let mut tagged = stream::iter(tagged).buffered(SIZED_AT_A_TIME);
        while let Some((target, Tagged { mailbox, counter })) = tagged.next().await {
            let delivery = fan_out(event, target, mailbox, view.seq, now, &self.config);
            outbox.deliver(&delivery, counter, self.config.partitions);
            if outbox.is_full() {
                outbox.append(&*self.log, &self.config, &self.metrics, &self.sizer).await;
            }
        }
    }

    async fn tag(&self, event: &Event, target: Target) -> (Target, Tagged) {
        let class = self.directory.class(&target.class);
        let tagged = tag(&self.config, &self.sizer, &self.mailboxes, &class, event, &target).await;
        (target, tagged)
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
