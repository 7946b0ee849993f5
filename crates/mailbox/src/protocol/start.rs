//! Which delivery may go next.

use mailrail_types::{History, MailboxKey, Timestamp};

use super::Protocol;
use super::flight::Flight;
use crate::entry::{Source, State};
use crate::flying::OrderKey;
use crate::lane::{Rest, Turn};
use crate::ready::Item;
use crate::window::Slot;

/// A delivery whose attempt starts now.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The delivery.
    pub source: Source,
    /// Its attempts, where they are newer than its content says.
    pub history: Option<History>,
    /// Whether its mailbox goes on when it fails, as its class said when the delivery was read.
    pub tolerant: bool,
    /// There is to be no attempt: it goes to quarantine, for every trial of it took the process with it (I16).
    pub condemned: bool,
}

/// Whose content is read in one go for places of a recipient. One of them goes with each place: more would take up room.
const READ_AHEAD_MAX: usize = 8;

/// Where the next delivery of what is ready stands.
#[derive(Clone, Copy)]
pub(super) enum Candidate {
    Window(Source),
    Backlog(Source),
    Aside(Source),
    /// Its content is not at hand: that is to be read first.
    Unread,
}

impl Protocol {
    /// Whether something may be ready to start.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.stopping && self.isolation.may_start(!self.ready.is_empty())
    }

    /// The next delivery to attempt, if one may go. From here to [`Protocol::settle`] nothing else of a strict mailbox goes
    /// (I12). `lease`: whether the ownership is sure for long enough (I10). `may_go` is asked right before one of the mailbox would go,
    /// and before its content would be read; where it may not, others go, until [`Protocol::call`]. What waits so is ready: it is neither
    /// held nor parked. It is asked last about the one that is given. A delivery that is tried alone is not asked about.
    pub fn start(
        &mut self,
        now: Timestamp,
        lease: bool,
        may_go: impl FnMut(&MailboxKey) -> bool,
    ) -> Option<Started> {
        if self.stopping || (!lease && self.rules.lease) {
            return None;
        }
        if self.isolation.is_on() { self.start_in_isolation(now) } else { self.start_next(now, may_go) }
    }

    pub(super) fn start_next(
        &mut self,
        now: Timestamp,
        mut may_go: impl FnMut(&MailboxKey) -> bool,
    ) -> Option<Started> {
        let mut unread = 0;
        while let Some((priority, item)) = self.ready.pop() {
            let Some(mailbox) = self.mailbox_of(&item) else {
                if let Some(recipient) = self.passed_over.is_gone(&item) {
                    self.call(&recipient);
                }
                continue;
            };
            let candidate = self.candidate(&item, now);
            if candidate.is_some() && !may_go(&mailbox) {
                self.pass_over(&mailbox, priority, item);
                continue;
            }
            let was_called = self.passed_over.went(mailbox.recipient(), &item);
            let started =
                candidate.and_then(|candidate| self.start_candidate(candidate, &item, &mailbox, now));
            unread += usize::from(matches!(candidate, Some(Candidate::Unread)));
            // It may go: so may the next of its recipient. One that was called and has nothing to start gives its turn on.
            if (candidate.is_some() && unread < READ_AHEAD_MAX) || (candidate.is_none() && was_called) {
                self.call(mailbox.recipient());
            }
            if let Some(mut started) = started {
                started.condemned = self.isolation.condemns(started.source);
                return Some(started);
            }
        }
        None
    }

    /// The next delivery of what is ready. It stays ready where there is one; else what is left to do of it is done.
    fn candidate(&mut self, item: &Item, now: Timestamp) -> Option<Candidate> {
        match item {
            Item::Mailbox(mailbox) => {
                let candidate = self.candidate_of_mailbox(mailbox, now);
                if candidate.is_none()
                    && let Some(lane) = self.lanes.get_mut(mailbox)
                {
                    lane.is_ready = false;
                    self.end_backlog_now(mailbox);
                    self.settle_down(mailbox);
                }
                candidate
            }
            Item::Aside(source) => {
                let candidate = self.candidate_aside(*source, now);
                if candidate.is_none()
                    && let Some(aside) = self.asides.get_mut(source)
                {
                    aside.is_ready = false;
                }
                candidate
            }
        }
    }

    fn start_candidate(
        &mut self,
        candidate: Candidate,
        item: &Item,
        mailbox: &MailboxKey,
        now: Timestamp,
    ) -> Option<Started> {
        match candidate {
            Candidate::Window(source) => {
                if let Some(open) = self.window.get_mut(source) {
                    open.slot = Slot::Running;
                }
                self.lane(mailbox).queue.start(source);
                Some(self.start_of_mailbox(source, None, mailbox, now))
            }
            Candidate::Backlog(source) => {
                if let Some(ahead) = self.lane(mailbox).turn_of(source) {
                    ahead.turn = Turn::Running;
                }
                let history = self.history_of_head(mailbox, source);
                Some(self.start_of_mailbox(source, history, mailbox, now))
            }
            Candidate::Aside(source) => self.start_aside(source, mailbox, now),
            Candidate::Unread => {
                self.want_content(item);
                None
            }
        }
    }

    /// What is ready waits until its content was read.
    fn want_content(&mut self, item: &Item) {
        match item {
            Item::Mailbox(mailbox) => {
                let lane = self.lane(mailbox);
                (lane.is_ready, lane.wants, lane.has_turn) = (false, true, true);
                self.wanting.insert(mailbox.clone());
            }
            Item::Aside(source) => {
                let Some(aside) = self.asides.get_mut(source) else { return };
                (aside.is_ready, aside.has_turn) = (false, true);
                self.wanting_asides.insert(aside.content, *source);
            }
        }
    }

    fn start_of_mailbox(
        &mut self,
        source: Source,
        history: Option<History>,
        mailbox: &MailboxKey,
        now: Timestamp,
    ) -> Started {
        let key = self.key_of(source, mailbox);
        self.flying.start(mailbox, source, key, false, now);
        let lane = self.lane(mailbox);
        lane.is_ready = false;
        lane.running += 1;
        let tolerant = lane.traits.tolerant;
        debug_assert!(
            lane.running <= 1 || tolerant || !self.rules.one_flight,
            "a strict mailbox has one attempt at a time (I12)"
        );
        let deadline = now.plus(self.config.attempt_timeout);
        self.flights.insert(source, Flight::new(mailbox, deadline));
        self.timers.slow(now.plus(self.config.park_after), source);
        self.make_ready(mailbox);
        Started { source, history, tolerant, condemned: false }
    }

    fn candidate_of_mailbox(&mut self, mailbox: &MailboxKey, now: Timestamp) -> Option<Candidate> {
        let held = self.holds.get(mailbox).copied().filter(|hold| hold.until > now);
        if let Some(hold) = held {
            // It may have come into the window since.
            self.hold(mailbox, hold, now);
            return None;
        }
        let one_flight = self.rules.one_flight;
        let lane = self.lanes.get(mailbox)?;
        let has_room_aside = !lane.traits.tolerant || self.has_room_aside(mailbox);
        let full = self.flying.count(mailbox) >= lane.traits.flights_max(has_room_aside) && one_flight;
        if lane.clearing || lane.block_next.is_some() || (lane.saving > 0 && self.rules.durable_attempts) {
            return None;
        }
        let next = |source: &Source| {
            let queued = self.window.get(*source).filter(|open| open.slot == Slot::Queued);
            queued.is_some_and(|open| self.is_free(mailbox, open.key))
        };
        let next = if full { None } else { lane.queue.next(next) };
        if let Some(source) = next {
            return Some(Candidate::Window(source));
        }
        self.park_what_is_stuck(mailbox, now);
        let lane = self.lanes.get(mailbox).filter(|_| !full)?;
        let nothing_older = lane.queue.is_empty() || !self.rules.no_overtaking;
        if nothing_older { self.candidate_of_backlog(mailbox, now) } else { None }
    }

    /// Whether no attempt about this runs (I12b).
    fn is_free(&self, mailbox: &MailboxKey, key: Option<OrderKey>) -> bool {
        !self.flying.has(mailbox, key) || !self.rules.one_key
    }

    /// What a delivery of a mailbox is about, that stands in the window or in the backlog at hand.
    fn key_of(&mut self, source: Source, mailbox: &MailboxKey) -> Option<OrderKey> {
        match self.window.get(source) {
            Some(open) => open.key,
            None => self.lanes.get_mut(mailbox)?.turn_of(source)?.key,
        }
    }

    fn candidate_of_backlog(&mut self, mailbox: &MailboxKey, now: Timestamp) -> Option<Candidate> {
        if let Some(hold) = self.hold_of(mailbox).filter(|hold| hold.until > now) {
            self.timers.due(hold.until, mailbox);
            return None;
        }
        let lowest = self.fold.backlog(mailbox)?.stretches.first()?.first;
        let has_room_aside = self.has_room_aside(mailbox);
        let lane = self.lanes.get_mut(mailbox)?;
        let head_holds = !lane.traits.tolerant || !has_room_aside;
        if lane.stretches.first().is_none_or(|(first, _)| *first != lowest) && self.rules.no_overtaking {
            // Something older is on its way into the backlog.
            return None;
        }
        let (flying, one_key) = (&self.flying, self.rules.one_key);
        let mut soonest: Option<Timestamp> = None;
        for ahead in &lane.ahead {
            match ahead.turn {
                Turn::Queued { until } if until <= now && (flying.has(mailbox, ahead.key) && one_key) => {}
                Turn::Queued { until } if until <= now => {
                    let source = ahead.source;
                    if self.window.next() <= source && self.rules.no_overtaking {
                        self.unfetched.entry(source).or_default().insert(mailbox.clone());
                        return None;
                    }
                    return Some(Candidate::Backlog(source));
                }
                Turn::Queued { until } => soonest = Some(soonest.map_or(until, |s| s.min(until))),
                Turn::Running | Turn::Ended { .. } => {}
            }
            if head_holds && !matches!(ahead.turn, Turn::Ended { .. }) {
                break;
            }
        }
        if let Some(soonest) = soonest {
            self.timers.due(soonest, mailbox);
        } else if matches!(lane.rest, Rest::From { .. })
            && lane.ahead.iter().all(|ahead| ahead.turn != Turn::Running || lane.traits.tolerant)
            && !lane.wants
            && !lane.is_crowded
        {
            return Some(Candidate::Unread);
        }
        None
    }

    /// Attempts of a backlog's head that its content does not tell of.
    fn history_of_head(&self, mailbox: &MailboxKey, source: Source) -> Option<History> {
        let backlog = self.fold.backlog(mailbox)?;
        let head = backlog.head.as_ref().filter(|head| head.source == source);
        head.or_else(|| backlog.tried.get(&source))?.history.clone()
    }

    /// The state entry of a head that was tried and waits.
    pub(super) fn state_of(mailbox: &MailboxKey) -> State {
        State { mailbox: mailbox.clone(), drained: None, head: None }
    }
}
