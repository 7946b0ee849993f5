//! Isolation: after crashes without progress one delivery is tried at a time, and the journal says which one before its
//! attempt starts. So the next owner knows which delivery was under trial when the process died (I16).

use std::collections::BTreeSet;

use mailrail_types::Timestamp;

use super::Protocol;
use super::flight::Settlement;
use super::start::Started;
use crate::checkpoint::Checkpoint;
use crate::entry::{Kind, Source, TrialEnd};
use crate::fold::Fold;
use crate::rules::Rules;
use crate::trials::{CONDEMNED_MAX, TRIALS_MAX};

/// After so many takeovers in a row from an owner that died, with no progress between them, a partition is isolated.
pub const UNCLEAN_MAX: u32 = 3;

/// So many attempts must be survived before isolation ends. Twice as many for each takeover more without progress: what
/// kills the process may stand behind them.
pub const ISOLATED_ATTEMPTS: u32 = 32;

/// How often they are doubled at most.
const DOUBLED_MAX: u32 = 5;

/// A delivery that is tried.
#[derive(Debug)]
struct Trial {
    source: Source,
    stage: Stage,
    began: Timestamp,
}

#[derive(Debug)]
enum Stage {
    /// It is suspected: its trial begins when nothing else of the process runs.
    Chosen(Started),
    /// Its entry is on the way; its attempt waits for that.
    Announced(Started),
    /// Its entry was read back.
    Known(Started),
    /// Its attempt runs, or it goes to quarantine.
    Started,
}

/// Whether a partition is isolated, and what of.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// Attempts that are still to be survived; `None`: it is not isolated.
    left: Option<u32>,
    /// One was survived.
    survived: bool,
    trial: Option<Trial>,
    /// Deliveries that were under trial when a process died.
    suspects: BTreeSet<Source>,
    /// Those of them that are to blame.
    culprits: BTreeSet<Source>,
}

impl Isolation {
    /// What follows from the trials of the owners before. Suspects that are not to be delivered any more are forgotten.
    pub(super) fn at_takeover(fold: &mut Fold, from: &Checkpoint, unclean: u32, rules: Rules) -> Self {
        fold.keep_suspects(|fold, source| {
            // What is marked as done may be read again: a later commit may come without its marks.
            source >= from.offset || fold.backlogs().any(|(_, backlog)| backlog.owes(source))
        });
        let suspects = &fold.trials().deaths;
        let enough = if rules.trials_repeat { TRIALS_MAX } else { 1 };
        let culprits = suspects.iter().filter(|(_, deaths)| **deaths >= enough);
        let culprits: BTreeSet<Source> = culprits.map(|(source, _)| *source).collect();
        let found = fold.has_died() && !suspects.is_empty();
        let isolated = (unclean >= UNCLEAN_MAX || found || !culprits.is_empty()) && rules.isolates;
        let left = ISOLATED_ATTEMPTS << unclean.saturating_sub(UNCLEAN_MAX).min(DOUBLED_MAX);
        let suspects = suspects.keys().copied().collect();
        Self { left: isolated.then_some(left), survived: false, trial: None, suspects, culprits }
    }

    pub(super) fn is_on(&self) -> bool {
        self.left.is_some()
    }

    pub(super) fn condemns(&self, source: Source) -> bool {
        self.culprits.contains(&source)
    }

    /// Whether something may start, when something is ready or not.
    pub(super) fn may_start(&self, is_ready: bool) -> bool {
        match &self.trial {
            None => is_ready,
            Some(trial) => matches!(trial.stage, Stage::Known(_)),
        }
    }
}

impl Protocol {
    /// No delivery could have been attempted by the owners before: none was open, and nothing parked was due. So no delivery is to
    /// blame for their deaths, and standing still is no sign of one. Before the first [`Protocol::start`].
    pub fn nothing_was_due(&mut self) {
        if self.isolation.suspects.is_empty() {
            self.isolation.left = None;
            self.snapshots.forgive();
        }
    }

    /// Whether one delivery is tried at a time.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.isolation.is_on()
    }

    /// Whether a trial has begun and not ended. Other partitions of the process must begin none until it has: should the
    /// process die, the trials of all of them would be to blame.
    #[must_use]
    pub fn is_trying(&self) -> bool {
        self.isolation.trial.is_some()
    }

    /// Whether a delivery is chosen whose trial needs that nothing else of the process runs: it was under trial when a process
    /// died, and this time nothing else may be to blame. Wait for that, and say so with [`Protocol::is_alone`].
    #[must_use]
    pub fn wants_to_be_alone(&self) -> bool {
        self.isolation.trial.as_ref().is_some_and(|trial| matches!(trial.stage, Stage::Chosen(_)))
    }

    /// Nothing else of the process runs, and nothing starts before [`Protocol::is_trying`] is over.
    pub fn is_alone(&mut self) {
        match self.isolation.trial.take() {
            Some(Trial { source, stage: Stage::Chosen(started), began }) => {
                self.isolation.trial = Some(Trial { source, stage: Stage::Announced(started), began });
                self.send(Kind::Trial { source });
            }
            other => self.isolation.trial = other,
        }
    }

    /// Whether more deliveries are to blame than may go to quarantine in one isolation ([`CONDEMNED_MAX`]). Then nothing may be
    /// started: a hand-over forgets how many there were.
    #[must_use]
    pub fn has_too_many_culprits(&self) -> bool {
        let condemned = &self.fold.trials().condemned;
        !condemned.is_empty() && condemned.union(&self.isolation.culprits).count() > CONDEMNED_MAX
    }

    /// As [`Protocol::start`] when isolated: the attempt starts when the entry that tells of it was read back.
    pub(super) fn start_in_isolation(&mut self, now: Timestamp) -> Option<Started> {
        match self.isolation.trial.take() {
            Some(Trial { source, stage: Stage::Known(started), began }) => {
                if let Some(flight) = self.flights.get_mut(&source) {
                    flight.deadline = now.plus(self.config.attempt_timeout);
                }
                self.isolation.trial = Some(Trial { source, stage: Stage::Started, began });
                Some(started)
            }
            Some(other) => {
                self.isolation.trial = Some(other);
                None
            }
            None => {
                let started = self.start_next(now)?;
                self.begin_trial(started, now)
            }
        }
    }

    fn begin_trial(&mut self, started: Started, now: Timestamp) -> Option<Started> {
        let source = started.source;
        let (stage, started) = if started.condemned {
            (Stage::Started, Some(started))
        } else if self.isolation.suspects.contains(&source) && self.rules.trial_first {
            (Stage::Chosen(started), None)
        } else {
            self.send(Kind::Trial { source });
            if self.rules.trial_first {
                (Stage::Announced(started), None)
            } else {
                (Stage::Started, Some(started))
            }
        };
        self.isolation.trial = Some(Trial { source, stage, began: now });
        started
    }

    pub(super) fn trial_applied(&mut self, source: Source) {
        match self.isolation.trial.take() {
            Some(Trial { source: of, stage: Stage::Announced(started), began }) if of == source => {
                self.isolation.trial = Some(Trial { source, stage: Stage::Known(started), began });
            }
            other => self.isolation.trial = other,
        }
    }

    /// The owner stops: what was announced and not started does not start.
    pub(super) fn give_up_trial(&mut self) {
        let waits = |trial: &&Trial| !matches!(trial.stage, Stage::Started);
        if let Some((source, began)) =
            self.isolation.trial.as_ref().filter(waits).map(|t| (t.source, t.began))
        {
            self.settle(source, Settlement::NotStarted, began);
        }
    }

    /// A trial that an owner before in this process left open ended with that owner, and not with the process.
    pub(super) fn end_left_trial(&mut self) {
        if let Some(source) = self.fold.trials().running {
            self.send(Kind::TrialEnded { source, how: TrialEnd::NotTried });
        }
    }

    /// What came of a delivery that was tried, or was to blame.
    pub(super) fn trial_settled(&mut self, source: Source, came: &Settlement) {
        let tried = self.isolation.trial.take_if(|trial| trial.source == source).is_some();
        let condemned = *came == Settlement::Ended && self.isolation.culprits.remove(&source);
        if !tried && !condemned {
            return;
        }
        let how = match came {
            _ if condemned => TrialEnd::Condemned,
            Settlement::Ended | Settlement::Retry { .. } => TrialEnd::Survived,
            Settlement::Held(_) | Settlement::NotStarted => TrialEnd::NotTried,
        };
        self.send(Kind::TrialEnded { source, how });
        if how == TrialEnd::Survived {
            self.isolation.suspects.remove(&source);
            self.isolation.survived = true;
            self.isolation.left = self.isolation.left.map(|left| left.saturating_sub(1));
        }
    }

    /// Ends isolation after progress: enough attempts were survived, or some and nothing is left to try.
    pub(super) fn leave_isolation_when_done(&mut self) {
        let Some(left) = self.isolation.left.filter(|_| self.isolation.trial.is_none()) else { return };
        let nothing_left = self.isolation.survived
            && self.window.records() == 0
            && self.flights.is_empty()
            && self.fold.is_empty();
        if left == 0 || nothing_left {
            self.isolation.left = None;
            self.send(Kind::IsolationEnded);
        }
    }
}
