//! Turns: deliveries start, and what came of them goes back to the protocol and into the log.

use std::collections::BTreeSet;

use mailrail_log::{LogError, StoredRecord};
use mailrail_mailbox::{Hold, Settlement, Source, Unfinished};
use mailrail_types::{Attempt, MailboxKey, Outcome};
use tokio::task::{Id, JoinError};
use tokio::time::Instant;

use super::{Partition, Step, Then};
use crate::attempt::{Turn, Turned, attempt};
use crate::config::{STEPS_MAX, WOKEN_MAX};
use crate::contents::Held;
use crate::permit::Pass;
use crate::record::{append_attempts, last_attempt_record, quarantine, record};
use crate::settle::{settle, tell_end};
use crate::tell::tell_quarantined;

/// Why a delivery is in quarantine whose attempts killed their process: a stable code, and what it means.
const CRASHES: &str = "crashes_the_process: the process died in each of its last attempts";

impl Partition {
    /// There is a permit: the next delivery goes. More of them go while permits are free.
    ///
    /// # Errors
    /// When what is to start is not at hand: its mailbox would wait for it for ever. The partition is claimed again.
    pub(super) fn start(&mut self, pass: Pass) -> Result<(), LogError> {
        self.waiting = None;
        let Some(permit) = self.take_pass(pass) else { return Ok(()) };
        let mut permit = Some(permit);
        while let Some(free) = permit.take() {
            let lease = self.claim.lease.holds(Instant::now());
            let mut place = None;
            let started = self.protocol.start(self.shared.now(), lease, |mailbox| {
                // That of one whose content is to be read first must not be in the way of the next.
                drop(place.take());
                place = self.shared.places.take(mailbox, &self.bell);
                place.is_some()
            });
            let Some(started) = started else {
                self.keep_alone(free);
                return Ok(());
            };
            self.forget();
            let source = started.source;
            let held = self.contents.get_mut(source).ok_or_else(|| not_at_hand(source, "was to start"))?;
            if started.condemned {
                self.quarantine_held(source, CRASHES);
                permit = Some(free);
                continue;
            }
            if let Some(history) = started.history {
                held.set_history(history);
            }
            let (delivery, mailbox) = (held.delivery.clone(), held.mailbox.clone());
            let turned = Turned {
                sequence: self.sequences.number(source, &delivery, &mailbox),
                mailbox,
                strict: !started.tolerant,
                of: self.of_partition.clone(),
                delivery,
            };
            let shared = self.shared.clone();
            let task = self.tasks.spawn(async move {
                let turn = attempt(&shared, &turned, free, place).await;
                Step::Turned { source, turn }
            });
            self.turns.insert(task.id(), source);
            if self.protocol.has_ready() {
                permit = self.shared.permits.try_acquire();
            }
        }
        Ok(())
    }

    /// Endpoints may have one more; what had to let others pass may ask again.
    pub(super) fn called(&mut self, recipients: BTreeSet<Box<str>>) {
        for recipient in recipients {
            self.protocol.call(&recipient);
        }
    }

    /// What runs is cut: it may still be at work where it went, which the next owner must know.
    fn note_cut(&self) {
        let until = self.shared.now().plus(self.shared.config.attempt_timeout);
        let running = self.turns.values().filter_map(|source| {
            let mailbox = self.contents.get(*source)?.mailbox.clone();
            Some(Unfinished { mailbox, source: *source, until })
        });
        if self.is_said {
            self.shared.cut.said(self.claim.partition);
        } else {
            self.shared.cut.note(self.claim.partition, running.collect());
        }
    }

    /// Takes a step, and those that are ready behind it: one turn of the loop for many of them.
    pub(super) fn take_steps(&mut self, step: Result<(Id, Step), JoinError>) -> Result<(), LogError> {
        self.take_step(step)?;
        for _ in 1..STEPS_MAX {
            let Some(step) = self.tasks.try_join_next_with_id() else { break };
            self.take_step(step)?;
        }
        Ok(())
    }

    fn recorded(&mut self, source: Source, then: Then) {
        let now = self.shared.now();
        if let Then::Settle(settlement) = then {
            let ended = settlement == Settlement::Ended;
            self.protocol.settle(source, settlement, now);
            if !ended {
                return;
            }
        }
        self.protocol.recorded(source, now);
        self.sequences.ended(source);
    }

    fn take_step(&mut self, step: Result<(Id, Step), JoinError>) -> Result<(), LogError> {
        let (id, step) = match step {
            Ok(step) => step,
            Err(error) => return self.take_panic(error),
        };
        match step {
            Step::Turned { source, turn } => {
                self.turns.remove(&id);
                self.take_turn(source, turn)?;
            }
            // What cannot be recorded is not done: the partition fails, says so, and starts again.
            Step::Recorded { written: Err(error), .. } => return Err(error),
            Step::Recorded { source, then, .. } => self.recorded(source, then),
            Step::AllRecorded { written: Err(error), .. } => return Err(error),
            Step::AllRecorded { ends, .. } => {
                self.recording = false;
                for (source, then) in ends {
                    self.recorded(source, then);
                }
            }
            Step::Appended(written) => {
                written?;
                self.protocol.appended();
            }
            Step::Committed(snapshot) => self.trim_below(snapshot),
            Step::Trimmed(before, done) => self.trimmed(before, &done),
            Step::Checked(checked) => return self.checked(checked),
        }
        Ok(())
    }

    fn take_turn(&mut self, source: Source, turn: Turn) -> Result<(), LogError> {
        let now = self.shared.now();
        match turn {
            Turn::Held(hold) => self.hold(source, hold),
            Turn::NotStarted => self.protocol.settle(source, Settlement::NotStarted, now),
            Turn::Attempted(attempt) => return self.take_attempt(source, attempt),
        }
        Ok(())
    }

    /// A delivery may not go now. Its endpoint may have called meanwhile.
    fn hold(&mut self, source: Source, hold: Hold) {
        let now = self.shared.now();
        let mailbox = self.contents.get_mut(source).map(|held| {
            held.hold_back(hold.reason);
            held.mailbox.clone()
        });
        let called = mailbox.is_some_and(|mailbox| self.woken_early.remove(&mailbox));
        let until = if called { now } else { hold.until };
        self.protocol.settle(source, Settlement::Held(Hold { until, ..hold }), now);
    }

    /// An endpoint calls a mailbox.
    pub(super) fn wake(&mut self, mailbox: MailboxKey) {
        let woken = self.protocol.wake_mailbox(&mailbox, self.shared.now());
        if !woken && self.woken_early.len() < WOKEN_MAX {
            self.woken_early.insert(mailbox);
        }
    }

    fn take_attempt(&mut self, source: Source, attempt: Attempt) -> Result<(), LogError> {
        let now = self.shared.now();
        let held = self.contents.get_mut(source).ok_or_else(|| not_at_hand(source, "was attempted"))?;
        let outcome = attempt.outcome;
        self.shared.traces.attempted(&held.delivery, &attempt);
        let settlement = settle(held, attempt, &self.shared.metrics);
        let record = last_attempt_record(held);
        if let Outcome::Dead(_) = outcome {
            let held = held.clone();
            self.bury(source, held, Then::Settle(settlement));
            return Ok(());
        }
        // A delivered one is over: its mailbox goes on, and the commit waits for the record. Anything else is recorded first:
        // forgotten in a crash, an end would be tried again after the next delivery of its mailbox.
        let (then, urgent) = if outcome == Outcome::Delivered {
            self.protocol.settle(source, settlement, now);
            (Then::Done, self.protocol.waits_for_record(source))
        } else {
            (Then::Settle(settlement), true)
        };
        if let Some(record) = record {
            self.unrecorded.push(source, record, then, urgent);
        }
        Ok(())
    }

    /// Appends the records that wait, as one batch at a time: the log takes many for little more than one.
    pub(super) fn record_what_waits(&mut self) {
        if self.recording || self.unrecorded.until().is_none() {
            return;
        }
        // Nothing more may be read: neither here, nor anywhere in the process.
        let is_full = !self.protocol.has_room() || !self.share.has_room();
        let hurry = self.last_word.is_some() || is_full;
        if !self.unrecorded.is_due(hurry, Instant::now()) {
            return;
        }
        self.recording = true;
        let (records, ends) = self.unrecorded.take();
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            let written = append_attempts(&shared, partition, records).await;
            Step::AllRecorded { ends, written }
        });
    }

    /// Writes the dead letter, and then the record of its last attempt. Only then is the delivery said to be given up.
    fn bury(&mut self, source: Source, held: Held, then: Then) {
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            let written = record(&shared, partition, &held).await;
            if written.is_ok() {
                tell_end(&held, &shared.metrics);
            }
            Step::Recorded { source, written, then }
        });
    }

    /// A task broke. An attempt that panics ends its delivery in quarantine: started again, it would panic again.
    fn take_panic(&mut self, error: JoinError) -> Result<(), LogError> {
        let source = self.turns.remove(&error.id());
        if !error.is_panic() {
            return Ok(());
        }
        match source.filter(|source| self.contents.get(*source).is_some()) {
            Some(source) => self.quarantine_held(source, "its attempt panicked"),
            None => std::panic::resume_unwind(error.into_panic()),
        }
        Ok(())
    }

    /// Ends a delivery in quarantine; its mailbox goes on when it is there.
    fn quarantine_held(&mut self, source: Source, problem: &'static str) {
        let Some(held) = self.contents.get(source) else { return };
        tell_quarantined(&held.delivery, self.claim.partition, source, problem);
        let poison = StoredRecord {
            offset: source,
            appended_at: self.shared.now(),
            key: bytes::Bytes::copy_from_slice(held.mailbox.as_str().as_bytes()),
            value: mailrail_wire::encode_delivery(&held.delivery),
            headers: Vec::new(),
        };
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            let written = quarantine(&shared, partition, &poison, problem).await;
            Step::Recorded { source, written, then: Then::Settle(Settlement::Ended) }
        });
    }
}

/// What the protocol counts on is gone. That must not be, and waiting does not mend it; an owner that reads everything anew does.
pub(super) fn not_at_hand(source: Source, what: &str) -> LogError {
    LogError::Fault(format!(
        "delivery {source} {what} and is not in memory; nothing is lost, all that is owed is read again. If this line comes back, \
         report it, and run the version before until it is mended"
    ))
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.note_cut();
    }
}
