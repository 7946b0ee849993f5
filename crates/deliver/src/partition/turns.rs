//! Turns: deliveries start, and what came of them goes back to the protocol and into the log.

use mailrail_log::{LogError, StoredRecord};
use mailrail_mailbox::{Settlement, Source};
use mailrail_types::{Attempt, Outcome};
use tokio::task::{Id, JoinError};

use super::{Partition, Step, Then};
use crate::attempt::{Turn, Turned, attempt};
use crate::contents::Held;
use crate::decode::traits;
use crate::permit::Permit;
use crate::record::{quarantine, record};
use crate::settle::settle;

impl Partition {
    /// There is a permit: the next delivery goes. More of them go while permits are free.
    pub(super) fn start(&mut self, permit: Permit) {
        self.waiting = None;
        let mut permit = Some(permit);
        while let Some(free) = permit.take() {
            let lease = self.claim.lease.holds(tokio::time::Instant::now());
            let Some(started) = self.protocol.start(self.shared.now(), lease) else { return };
            self.forget();
            let source = started.source;
            let Some(held) = self.contents.get_mut(source) else {
                debug_assert!(false, "delivery {source} was started and is not at hand");
                continue;
            };
            if let Some(history) = started.history {
                held.set_history(history);
            }
            let delivery = held.delivery.clone();
            let turned = Turned {
                sequence: self.sequences.number(source, &delivery),
                strict: !traits(&self.shared.directory, &delivery).tolerant,
                lease: self.claim.lease.clone(),
                stop: self.claim.stop.clone(),
                delivery,
            };
            let shared = self.shared.clone();
            let task = self.tasks.spawn(async move {
                let turn = attempt(&shared, &turned, free).await;
                Step::Turned { source, turn }
            });
            self.turns.insert(task.id(), source);
            if self.protocol.has_ready() {
                permit = self.shared.permits.try_acquire();
            }
        }
    }

    pub(super) fn take_step(&mut self, step: Result<(Id, Step), JoinError>) -> Result<(), LogError> {
        let (id, step) = match step {
            Ok(step) => step,
            Err(error) => return self.take_panic(error),
        };
        let now = self.shared.now();
        match step {
            Step::Turned { source, turn } => {
                self.turns.remove(&id);
                self.take_turn(source, turn);
            }
            // What cannot be recorded is not done: the partition fails, says so, and starts again.
            Step::Recorded { written: Err(error), .. } => return Err(error),
            Step::Recorded { source, then, .. } => {
                if let Then::Settle(settlement) = then {
                    let ended = settlement == Settlement::Ended;
                    self.protocol.settle(source, settlement, now);
                    if !ended {
                        return Ok(());
                    }
                }
                self.protocol.recorded(source, now);
                self.sequences.ended(source);
            }
            Step::Appended(written) => {
                written?;
                self.protocol.appended();
            }
            Step::Committed(snapshot) => self.trim_below(snapshot),
            Step::Trimmed(before, done) => self.trimmed(before, &done),
        }
        Ok(())
    }

    fn take_turn(&mut self, source: Source, turn: Turn) {
        let now = self.shared.now();
        match turn {
            Turn::Held(hold) => self.protocol.settle(source, Settlement::Held(hold), now),
            Turn::NotStarted => self.protocol.settle(source, Settlement::NotStarted, now),
            Turn::Attempted(attempt) => self.take_attempt(source, attempt),
        }
    }

    fn take_attempt(&mut self, source: Source, attempt: Attempt) {
        let now = self.shared.now();
        let Some(held) = self.contents.get_mut(source) else {
            debug_assert!(false, "delivery {source} was attempted and is not at hand");
            return;
        };
        let delivered = attempt.outcome == Outcome::Delivered;
        let settlement = settle(held, attempt, &self.shared.metrics);
        let held = held.clone();
        if delivered {
            // The mailbox goes on; the commit waits for the record. Anything else is recorded first: forgotten in a crash, an
            // end would be tried again after the next delivery of its mailbox.
            self.protocol.settle(source, settlement, now);
            self.record(source, held, Then::Done);
        } else {
            self.record(source, held, Then::Settle(settlement));
        }
    }

    fn record(&mut self, source: Source, held: Held, then: Then) {
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            let written = record(&shared, partition, &held).await;
            Step::Recorded { source, written, then }
        });
    }

    /// A task broke. An attempt that panics ends its delivery in quarantine: started again, it would panic again.
    fn take_panic(&mut self, error: JoinError) -> Result<(), LogError> {
        let source = self.turns.remove(&error.id());
        if !error.is_panic() {
            return Ok(());
        }
        let Some((source, held)) = source.and_then(|source| Some((source, self.contents.get(source)?)))
        else {
            std::panic::resume_unwind(error.into_panic());
        };
        let poison = StoredRecord {
            offset: source,
            appended_at: self.shared.now(),
            key: bytes::Bytes::copy_from_slice(held.delivery.mailbox.key().as_str().as_bytes()),
            value: mailrail_wire::encode_delivery(&held.delivery),
            headers: Vec::new(),
        };
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            let written = quarantine(&shared, partition, &poison, "its attempt panicked").await;
            Step::Recorded { source, written, then: Then::Settle(Settlement::Ended) }
        });
        Ok(())
    }
}
