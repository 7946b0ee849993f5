//! Isolation: after crashes without progress one delivery is tried at a time, and the journal says which one before its
//! attempt starts. So the next owner knows which delivery was under trial when the process died (I16).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mailrail_types::{HoldReason, Timestamp};

use super::Protocol;
use super::flight::{Settlement, Stand};
use super::start::Started;
use crate::checkpoint::Checkpoint;
use crate::entry::{Head, Hold, Kind, Source, TrialEnd};
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

/// When everything else of the process was stopped for a suspect, and that could not be attempted then, no suspect is chosen for so
/// long; twice as long each time that it happens again before one was attempted.
pub const SUSPECT_PAUSE: Duration = Duration::from_secs(30);

/// The longest such pause.
const SUSPECT_PAUSE_MAX: Duration = Duration::from_mins(5);

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
    /// How often in a row everything else was stopped for one of them in vain.
    in_vain: u32,
    /// Until when none of them is chosen because of that.
    put_off: Option<Hold>,
    /// When those of them are given up that were chosen once: what is over goes to its end, and waits for nothing.
    deadlines: BTreeMap<Source, Timestamp>,
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
        Self { left: isolated.then_some(left), suspects, culprits, ..Self::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.left.is_some()
    }

    pub(super) fn condemns(&self, source: Source) -> bool {
        self.culprits.contains(&source)
    }

    /// What a suspect waits for: others were stopped for one in vain, not long ago.
    fn waits_for(&self, source: Source, now: Timestamp) -> Option<Hold> {
        let hold = self.put_off.filter(|_| self.suspects.contains(&source))?;
        let until = self.deadlines.get(&source).map_or(hold.until, |deadline| hold.until.min(*deadline));
        (until > now).then_some(Hold { until, ..hold })
    }

    /// The trial of a suspect is over, for which everything else was stopped.
    fn was_alone(&mut self, came: &Settlement, now: Timestamp) {
        let reason = match came {
            Settlement::Ended | Settlement::Retry { .. } => {
                (self.in_vain, self.put_off) = (0, None);
                return;
            }
            Settlement::Held(hold) => hold.reason,
            Settlement::NotStarted => HoldReason::BehindHead,
        };
        let pause = SUSPECT_PAUSE.saturating_mul(1 << self.in_vain.min(DOUBLED_MAX)).min(SUSPECT_PAUSE_MAX);
        self.in_vain = self.in_vain.saturating_add(1);
        self.put_off = Some(Hold { reason, until: now.plus(pause) });
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

    /// The delivery that is chosen and whose trial needs that nothing else of the process runs: it was under trial when a process
    /// died, and this time nothing else may be to blame. Wait for that, and say so with [`Protocol::is_alone`]; or, where it may
    /// not go now anyway, [`Protocol::put_off`] its trial.
    #[must_use]
    pub fn wants_to_be_alone(&self) -> Option<Source> {
        let trial = self.isolation.trial.as_ref()?;
        matches!(trial.stage, Stage::Chosen(_)).then_some(trial.source)
    }

    /// The delivery of [`Protocol::wants_to_be_alone`] may not go now: its mailbox waits for `hold`, and nobody else is stopped for
    /// it.
    pub fn put_off(&mut self, hold: Hold, now: Timestamp) {
        if let Some(source) = self.wants_to_be_alone() {
            self.settle(source, Settlement::Held(hold), now);
        }
    }

    /// When the delivery of [`Protocol::wants_to_be_alone`] is given up: it is not put off for longer.
    pub fn suspect_ends(&mut self, deadline: Timestamp) {
        if let Some(source) = self.wants_to_be_alone() {
            self.isolation.deadlines.insert(source, deadline);
        }
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
            None => loop {
                let started = self.start_next(now, |_| true)?;
                let waits = self.isolation.waits_for(started.source, now);
                match waits.filter(|_| !started.condemned && self.rules.suspects_wait) {
                    Some(hold) => self.put_back(started, hold, now),
                    None => return self.begin_trial(started, now),
                }
            },
        }
    }

    /// What was just started goes back without an attempt and waits for `hold`, for a reason of its own: the rest of a tolerant
    /// mailbox goes on while there is room beside it.
    fn put_back(&mut self, started: Started, hold: Hold, now: Timestamp) {
        let Started { source, history, tolerant, .. } = started;
        let mailbox = self.flights.get(&source).map(|flight| flight.mailbox.clone());
        let leaves = mailbox.filter(|mailbox| tolerant && self.has_room_aside(mailbox));
        let stand = leaves.and_then(|mailbox| Some((self.stand(source, &mailbox)?, mailbox)));
        let Some((stand @ (Stand::Window | Stand::Backlog), mailbox)) = stand else {
            return self.settle(source, Settlement::Held(hold), now);
        };
        self.flights.remove(&source);
        let waited = self.flying.end(&mailbox, source);
        let lane = self.lane(&mailbox);
        lane.running = lane.running.saturating_sub(1);
        let head = Head { source, hold, history };
        let place = lane.turn_of(source).map(|ahead| ahead.at);
        match (stand, place) {
            (Stand::Backlog, Some(place)) => self.leave_backlog(&mailbox, place, head),
            _ => self.set_aside(source, &mailbox, head),
        }
        self.let_go(&mailbox, &waited.0, waited.1);
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
    pub(super) fn trial_settled(&mut self, source: Source, came: &Settlement, now: Timestamp) {
        let trial = self.isolation.trial.take_if(|trial| trial.source == source);
        if trial.as_ref().is_some_and(|trial| matches!(trial.stage, Stage::Chosen(_))) {
            // Nobody was told of it.
            return;
        }
        let tried = trial.is_some();
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
        if !condemned && self.isolation.suspects.contains(&source) {
            self.isolation.was_alone(came, now);
        }
        if how == TrialEnd::Survived {
            self.isolation.suspects.remove(&source);
            self.isolation.deadlines.remove(&source);
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
