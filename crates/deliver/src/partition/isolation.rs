//! Isolation: what a partition waits for that tries one delivery at a time, and how it stands still when too many are to blame
//! (I16).

use std::time::Duration;

use mailrail_log::LogError;
use mailrail_mailbox::{CONDEMNED_MAX, Hold, Source};
use mailrail_types::HoldReason;

use super::Partition;
use crate::attempt::{pause, to_deadline};
use crate::permit::{Pass, Permit};
use crate::resolve::resolve;

/// Between two alarms of a partition that stands still.
const ALARM_INTERVAL: Duration = Duration::from_secs(60);
/// When a suspect is looked at again whose set-up was not seen yet.
const SETUP_AGAIN: Duration = Duration::from_secs(1);

impl Partition {
    /// Starts what may start with permits that are free, and waits for one where more may start. An attempt for which there is a
    /// permit needs neither a place in the queue nor a turn of the loop to find that out.
    ///
    /// # Errors
    /// As [`Partition::start`].
    pub(super) fn start_or_wait(&mut self) -> Result<(), LogError> {
        let simply = self.waiting.is_none() && self.alone.is_none() && !self.protocol.is_isolated();
        if simply
            && self.protocol.has_ready()
            && let Some(permit) = self.shared.permits.try_acquire()
        {
            self.start(Pass { permit, trial: None })?;
        }
        self.wait_for_turn();
        Ok(())
    }

    /// Waits for what lets the next attempt start, when there is one to start. An isolated partition also waits for its turn
    /// among those of the process, and for everything else to end where a trial must be alone.
    fn wait_for_turn(&mut self) {
        if !self.protocol.is_trying() {
            (self.trial, self.alone) = (None, None);
        }
        if self.waiting.is_some() {
            return;
        }
        let suspect = self.protocol.wants_to_be_alone();
        if let Some(held) = suspect.and_then(|suspect| self.contents.get(suspect)) {
            self.protocol.suspect_ends(held.delivery.deadline);
        }
        if let Some(hold) = suspect.and_then(|suspect| self.keeps_back(suspect)) {
            // Nobody else is stopped for a delivery that would not go.
            self.protocol.put_off(hold, self.shared.now());
            (self.trial, self.alone) = (None, None);
        }
        let shared = self.shared.clone();
        if self.protocol.wants_to_be_alone().is_some() {
            // What is held already is not waited for: nobody else could give it back.
            let alone = self.alone.take();
            self.waiting = Some(Box::pin(async move {
                let permit = match alone {
                    Some(all) => all,
                    None => shared.permits.acquire_all().await,
                };
                Pass { permit, trial: None }
            }));
        } else if self.protocol.has_ready() {
            let needs_turn = self.protocol.is_isolated() && self.trial.is_none();
            let alone = self.alone.take();
            self.waiting = Some(Box::pin(async move {
                let trial = if needs_turn { Some(shared.permits.trial_turn().await) } else { None };
                let permit = match alone {
                    Some(all) => all,
                    None => shared.permits.acquire().await,
                };
                Pass { permit, trial }
            }));
        }
    }

    /// What is known to keep a delivery from going now. What only the store of limits knows is not asked for.
    fn keeps_back(&self, source: Source) -> Option<Hold> {
        let (held, now) = (self.contents.get(source)?, self.shared.now());
        let delivery = &held.delivery;
        if self.shared.directory.seq() < delivery.setup_seq {
            return Some(Hold { reason: HoldReason::Setup, until: now.plus(SETUP_AGAIN) });
        }
        // One that has come to its end goes, and ends.
        let endpoint = resolve(&self.shared.directory, delivery).ok().filter(|_| now < delivery.deadline)?;
        pause(delivery, &endpoint).or_else(|| {
            let tenant = &delivery.event.tenant;
            let down = self
                .shared
                .gates
                .look(tenant, &endpoint, &held.mailbox, &self.of_partition.waker, now)
                .err()?;
            Some(to_deadline(delivery, down))
        })
    }

    /// Takes what was waited for. Gives the permit for an attempt, unless a trial waits for being alone: then that can be
    /// announced now.
    pub(super) fn take_pass(&mut self, Pass { permit, trial }: Pass) -> Option<Permit> {
        if trial.is_some() {
            self.trial = trial;
        }
        if self.protocol.wants_to_be_alone().is_none() {
            return Some(permit);
        }
        self.protocol.is_alone();
        self.alone = Some(permit);
        None
    }

    /// Nothing started with the permit. When it keeps all others from starting, it is kept until the trial is over.
    pub(super) fn keep_alone(&mut self, permit: Permit) {
        if self.protocol.is_trying() && self.shared.permits.are_all(&permit) {
            self.alone = Some(permit);
        }
    }

    /// Says that the partition is isolated. When more deliveries are to blame than may go to quarantine, nothing is started
    /// until the partition is taken away or the process stops: it is not the deliveries then.
    pub(super) async fn stand_still_if_stuck(&mut self) {
        let partition = self.claim.partition;
        if self.protocol.is_isolated() {
            let unclean = self.protocol.unclean();
            let suspects = &self.protocol.fold().trials().deaths;
            tracing::warn!(partition, unclean, ?suspects, "isolated: one delivery is tried at a time");
        }
        if !self.protocol.has_too_many_culprits() {
            return;
        }
        let _stands_still = self.shared.config.stopped.one();
        loop {
            tracing::error!(
                partition,
                code = "too_many_crashes",
                most = CONDEMNED_MAX,
                "partition stopped: more deliveries kill this process than may go to quarantine; run a version that survives \
                 them, or restart to set as many aside again"
            );
            tokio::select! {
                () = tokio::time::sleep(ALARM_INTERVAL) => {}
                () = self.claim.stop.cancelled() => break,
                () = self.claim.cut.cancelled() => break,
            }
        }
        self.stop();
    }
}
