//! One partition of the deliveries topic: whose turn it is, what runs, and how far it is done.
//!
//! Everything that decides order is in `mailbox::Window`; here its inputs and outputs meet the log, the clock and the
//! attempts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mailrail_log::{Claim, Committed, LogError, Reader, StoredRecord};
use mailrail_mailbox::{Checkpoint, Offered, RecentIds, Settlement, Window};
use mailrail_types::{Attempt, DeliveryId, Outcome};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

use crate::attempt::attempt;
use crate::budget::Share;
use crate::config::{BATCH_RECORDS_MAX, RECENT_IDS};
use crate::decode::{Held, decode};
use crate::record::{quarantine, record};
use crate::resolve::tolerates_reordering;
use crate::service::Shared;
use crate::settle::settle;

/// After a reader said that the log does not answer.
const READ_PAUSE: Duration = Duration::from_millis(500);
/// How long a partition sleeps at most while something waits for its time; bounds what a clock that jumps can do.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// What a task of the partition came to.
enum Step {
    /// The partition is draining: the next owner makes this attempt.
    NotStarted,
    /// An attempt ended.
    Attempted { offset: u64, held: Box<Held>, attempt: Box<Attempt> },
    /// The record of an attempt is in the log, or cannot be.
    Recorded { offset: u64, again: Option<(Box<Held>, Settlement)>, written: Result<(), LogError> },
}

/// A partition that this process owns.
pub(crate) struct Partition {
    shared: Arc<Shared>,
    claim: Claim,
    reader: Box<dyn Reader>,
    window: Window,
    recent: RecentIds<(DeliveryId, u32)>,
    /// Deliveries of the window that no task works on.
    held: HashMap<u64, Box<Held>>,
    tasks: JoinSet<Step>,
    share: Share,
    /// When the log may be read again after it did not answer.
    read_again: Instant,
    /// Something was done since the last position was put down.
    moved: bool,
    draining: bool,
}

impl Partition {
    /// Takes a partition over at its committed position.
    pub(crate) fn claim(shared: Arc<Shared>, claim: Claim) -> Result<Self, LogError> {
        let from = Checkpoint::read(claim.from.offset, &claim.from.metadata);
        Ok(Self {
            reader: shared.readers.open(
                &shared.config.deliveries_topic,
                claim.partition,
                claim.from.offset,
            )?,
            window: Window::new(shared.config.window, from),
            recent: RecentIds::new(RECENT_IDS),
            held: HashMap::new(),
            tasks: JoinSet::new(),
            share: shared.budget.share(shared.metrics.clone()),
            read_again: Instant::now(),
            moved: false,
            draining: false,
            shared,
            claim,
        })
    }

    /// Works until asked to stop, then lets what runs finish. Cut, it returns when no attempt runs any more.
    pub(crate) async fn run(mut self) -> Result<Option<Committed>, LogError> {
        let mut tick = tokio::time::interval(self.shared.config.commit_interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.start_what_may_go();
            self.share.set(self.window.records(), self.window.bytes(), self.window.waiting());
            if self.draining && self.tasks.is_empty() {
                return Ok(Some(self.position()));
            }
            let paused = self.read_again.saturating_duration_since(Instant::now());
            let taking =
                !self.draining && paused.is_zero() && self.window.has_room() && self.share.has_room();
            let sleep =
                if paused.is_zero() { self.time_to_next_due() } else { paused.min(self.time_to_next_due()) };
            tokio::select! {
                () = self.claim.cut.cancelled() => {
                    self.tasks.shutdown().await;
                    return Ok(None);
                }
                () = self.claim.stop.cancelled(), if !self.draining => self.draining = true,
                Some(step) = self.tasks.join_next() => self.take_step(step)?,
                batch = self.reader.next(BATCH_RECORDS_MAX), if taking => self.take_batch(batch)?,
                () = tokio::time::sleep(sleep), if !self.draining => {}
                _ = tick.tick() => self.put_position(),
            }
        }
    }

    fn start_what_may_go(&mut self) {
        if self.draining {
            return;
        }
        let now = self.shared.now();
        while let Some(offset) = self.window.start(now) {
            let Some(held) = self.held.remove(&offset) else {
                debug_assert!(false, "a delivery was started that is not held");
                continue;
            };
            let (shared, stop) = (self.shared.clone(), self.claim.stop.clone());
            self.tasks.spawn(async move {
                match attempt(&shared, &held, &stop).await {
                    Some(attempt) => Step::Attempted { offset, held, attempt: Box::new(attempt) },
                    None => Step::NotStarted,
                }
            });
        }
    }

    fn take_batch(&mut self, batch: Result<Vec<StoredRecord>, LogError>) -> Result<(), LogError> {
        let batch = match batch {
            Ok(batch) => batch,
            Err(LogError::Unavailable(problem)) => {
                tracing::warn!(
                    partition = self.claim.partition,
                    problem,
                    "deliveries cannot be read; waiting"
                );
                self.read_again = Instant::now() + READ_PAUSE;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for record in batch {
            self.take_record(&record);
        }
        Ok(())
    }

    fn take_record(&mut self, record: &StoredRecord) {
        self.moved = true;
        let (offset, bytes) = (record.offset, record.value.len());
        let held = match decode(record) {
            Ok(held) => held,
            Err(problem) => return self.set_aside(record.clone(), problem),
        };
        if !self.recent.insert((held.delivery.id, held.delivery.history.redrives)) {
            tracing::debug!(partition = self.claim.partition, offset, delivery.id = %held.delivery.id, "known delivery again");
            self.window.offer_ended(offset, bytes);
            self.window.recorded(offset);
        } else if self.window.offer(offset, held.delivery.mailbox.key(), bytes) == Offered::Queued {
            self.held.insert(offset, Box::new(held));
        }
    }

    /// An unreadable record holds nothing but the commit, until it is in quarantine.
    fn set_aside(&mut self, unreadable: StoredRecord, problem: String) {
        let (offset, partition) = (unreadable.offset, self.claim.partition);
        if self.window.offer_ended(offset, unreadable.value.len()) == Offered::AlreadyDone {
            return;
        }
        let shared = self.shared.clone();
        self.tasks.spawn(async move {
            let written = quarantine(&shared, partition, &unreadable, &problem).await;
            Step::Recorded { offset, again: None, written }
        });
    }

    fn take_step(&mut self, step: Result<Step, JoinError>) -> Result<(), LogError> {
        match step {
            Ok(Step::NotStarted) => {}
            Ok(Step::Attempted { offset, mut held, attempt }) => {
                let aside = tolerates_reordering(&self.shared.directory, &held.delivery);
                let delivered = attempt.outcome == Outcome::Delivered;
                let settlement = settle(&mut held, *attempt, aside, &self.shared.metrics);
                if delivered {
                    // The mailbox goes on; the commit waits for the record. Any other end is recorded first: forgotten in a
                    // crash, it would be tried again after the next one was delivered.
                    self.window.settle(offset, settlement);
                }
                self.record(offset, held, (!delivered).then_some(settlement));
            }
            // What cannot be recorded is not done: the partition fails, says so, and starts again.
            Ok(Step::Recorded { written: Err(error), .. }) => return Err(error),
            Ok(Step::Recorded { offset, again: Some((_, Settlement::Ended)), .. }) => {
                self.window.settle(offset, Settlement::Ended);
                self.window.recorded(offset);
                self.moved = true;
            }
            Ok(Step::Recorded { offset, again: Some((held, settlement)), .. }) => {
                self.held.insert(offset, held);
                self.window.settle(offset, settlement);
            }
            Ok(Step::Recorded { offset, again: None, .. }) => {
                self.window.recorded(offset);
                self.moved = true;
            }
            // The partition starts again from its committed offset, and with it the delivery whose task broke.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
        Ok(())
    }

    /// Writes what an attempt came to. A delivered one is settled before its record is in the log, so that its mailbox need
    /// not wait for it; anything else after, so that neither attempts nor the next delivery outrun the record.
    fn record(&mut self, offset: u64, held: Box<Held>, settle_after: Option<Settlement>) {
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            let written = record(&shared, partition, &held).await;
            let again = settle_after.map(|settlement| (held, settlement));
            Step::Recorded { offset, again, written }
        });
    }

    fn time_to_next_due(&self) -> Duration {
        self.window.next_due().map_or(SLEEP_MAX, |due| due.since(self.shared.now()).min(SLEEP_MAX))
    }

    fn put_position(&mut self) {
        if self.moved {
            self.moved = false;
            self.claim.position.set(self.position());
        }
    }

    fn position(&self) -> Committed {
        let checkpoint = self.window.checkpoint();
        Committed { offset: checkpoint.offset, metadata: checkpoint.metadata() }
    }
}
