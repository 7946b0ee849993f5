//! What attempts come to.

use mailrail_types::{History, HoldReason, MailboxKey, Timestamp};

use super::Protocol;
use super::start::{Candidate, Started};
use crate::entry::{Aside, Drained, Head, Hold, Kind, Place, Source};
use crate::flying::OrderKey;
use crate::lane::{Traits, Turn};
use crate::ready::Item;
use crate::window::Slot;

/// What an attempt left of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// It ended: its mailbox goes on. It is done once its end is recorded ([`Protocol::recorded`]).
    Ended,
    /// It is tried again. In a strict mailbox the rest waits for it; in a tolerant one the rest goes on.
    Retry {
        /// Not before.
        due: Timestamp,
        /// Its attempts, this one counted.
        history: History,
    },
    /// There was no attempt: it may not go now. The whole mailbox waits.
    Held(Hold),
    /// There was no attempt, for no reason of its own: the owner stops.
    NotStarted,
}

/// An attempt, until its end is recorded.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) mailbox: MailboxKey,
    /// When it is over at the latest.
    pub(super) deadline: Timestamp,
    /// It ended, and its end is being recorded.
    pub(super) ended: bool,
}

impl Flight {
    pub(super) fn new(mailbox: &MailboxKey, deadline: Timestamp) -> Self {
        Self { mailbox: mailbox.clone(), deadline, ended: false }
    }
}

/// A delivery aside that something is under way for.
#[derive(Debug)]
pub(super) struct LiveAside {
    pub(super) mailbox: MailboxKey,
    pub(super) content: Place,
    /// Bytes of its content when that is at hand.
    pub(super) bytes: Option<usize>,
    pub(super) hold: Hold,
    /// An attempt runs, or its end is not recorded yet.
    pub(super) running: bool,
    /// It is among those that may start.
    pub(super) is_ready: bool,
    /// As of a mailbox: it waits for its content only.
    pub(super) has_turn: bool,
    /// Entries about it that were not read back yet (I13).
    pub(super) saving: usize,
    /// What it is about, and how its mailbox is drained; known once its content was at hand.
    pub(super) key: Option<OrderKey>,
    pub(super) traits: Traits,
}

/// Where a delivery stands that an attempt was made of.
pub(super) enum Stand {
    Window,
    Parking,
    Backlog,
    Aside,
}

impl Protocol {
    pub(super) fn stand(&mut self, source: Source, mailbox: &MailboxKey) -> Option<Stand> {
        if let Some(open) = self.window.get(source) {
            return Some(if matches!(open.slot, Slot::Parking(_)) { Stand::Parking } else { Stand::Window });
        }
        if self.asides.contains_key(&source) {
            return Some(Stand::Aside);
        }
        self.lanes.get_mut(mailbox)?.turn_of(source).map(|_| Stand::Backlog)
    }

    /// Takes the result of a started attempt.
    pub fn settle(&mut self, source: Source, settlement: Settlement, now: Timestamp) {
        let Some(flight) = self.flights.get_mut(&source) else {
            debug_assert!(false, "{source} was settled and never started");
            return;
        };
        let mailbox = flight.mailbox.clone();
        flight.ended = settlement == Settlement::Ended;
        if !flight.ended {
            self.flights.remove(&source);
        }
        let waited = self.flying.end(&mailbox, source);
        self.trial_settled(source, &settlement, now);
        let stand = self.stand(source, &mailbox);
        if !matches!(stand, Some(Stand::Aside)) {
            let lane = self.lane(&mailbox);
            lane.running = lane.running.saturating_sub(1);
        }
        if !matches!(settlement, Settlement::Held(_)) {
            self.held_since.remove(&mailbox);
        }
        match stand {
            Some(Stand::Window) => self.settle_window(source, &mailbox, settlement, now),
            Some(Stand::Parking) => self.settle_parking(source, &mailbox, settlement, now),
            Some(Stand::Backlog) => self.settle_backlog(source, &mailbox, settlement, now),
            Some(Stand::Aside) => self.settle_aside(source, settlement, now),
            None => debug_assert!(false, "{source} stands nowhere"),
        }
        self.let_go(&mailbox, &waited.0, waited.1);
    }

    /// An attempt is over: another one of the mailbox may go, or one of `waited`, which stand aside and waited for that;
    /// `first`: they are asked first.
    pub(super) fn let_go(&mut self, mailbox: &MailboxKey, waited: &[Source], first: bool) {
        if !first && !waited.is_empty() {
            self.make_ready(mailbox);
        }
        for source in waited {
            if let Some(aside) = self.asides.get(source) {
                self.push_ready(aside.traits.priority, Item::Aside(*source));
            }
        }
        self.make_ready(mailbox);
    }

    fn settle_window(&mut self, source: Source, mailbox: &MailboxKey, came: Settlement, now: Timestamp) {
        let ended = came == Settlement::Ended;
        if let Some(open) = self.window.get_mut(source) {
            open.slot = if ended { Slot::Ended } else { Slot::Queued };
        }
        if !ended {
            self.lane(mailbox).queue.wait_again(source);
        }
        match came {
            Settlement::Ended => {
                let lane = self.lane(mailbox);
                lane.queue.leave(source);
                lane.recording += 1;
            }
            Settlement::Retry { due, history } => {
                let hold = Hold { reason: HoldReason::Backoff, until: due };
                let lane = self.lane(mailbox);
                let (tolerant, is_front) = (lane.traits.tolerant, lane.queue.front() == Some(source));
                if tolerant && (self.has_room_aside(mailbox) || !is_front) {
                    self.set_aside(source, mailbox, Head { source, hold, history: Some(history) });
                } else {
                    self.holds.insert(mailbox.clone(), hold);
                    self.timers.due(due, mailbox);
                    self.block(mailbox, hold);
                }
            }
            Settlement::Held(hold) => self.hold(mailbox, hold, now),
            Settlement::NotStarted => {}
        }
    }

    /// Its entry is on the way: what came of the attempt waits until that was read back.
    fn settle_parking(&mut self, source: Source, mailbox: &MailboxKey, came: Settlement, now: Timestamp) {
        let Some(Slot::Parking(meanwhile)) = self.window.get_mut(source).map(|open| &mut open.slot) else {
            return;
        };
        match came {
            Settlement::Ended => meanwhile.ended = true,
            Settlement::Retry { due, history } => {
                let hold = Hold { reason: HoldReason::Backoff, until: due };
                meanwhile.again = Some(Head { source, hold, history: Some(history) });
            }
            Settlement::Held(hold) => {
                meanwhile.again = Some(Head { source, hold, history: None });
                self.holds.insert(mailbox.clone(), hold);
                self.timers.due(hold.until.max(now), mailbox);
            }
            Settlement::NotStarted => {
                let hold = Hold { reason: HoldReason::BehindHead, until: now };
                meanwhile.again = Some(Head { source, hold, history: None });
            }
        }
    }

    pub(super) fn settle_backlog(
        &mut self,
        source: Source,
        mailbox: &MailboxKey,
        came: Settlement,
        now: Timestamp,
    ) {
        let is_head = self.lane(mailbox).ahead.front().is_some_and(|ahead| ahead.source == source);
        let (turn, hold, history) = match came {
            Settlement::Ended => (Turn::Ended { recorded: false }, None, None),
            Settlement::Retry { due, history } => {
                let hold = Hold { reason: HoldReason::Backoff, until: due };
                (Turn::Queued { until: due }, Some(hold), Some(history))
            }
            Settlement::Held(hold) => (Turn::Queued { until: now }, Some(hold), None),
            Settlement::NotStarted => (Turn::Queued { until: now }, None, None),
        };
        let tolerant = self.lane(mailbox).traits.tolerant;
        // Only the head can hold its mailbox. Any other leaves, room or not: as many as were started while there was room.
        let may_leave = tolerant && history.is_some() && (self.has_room_aside(mailbox) || !is_head);
        let Some(ahead) = self.lane(mailbox).turn_of(source) else { return };
        let place = ahead.at;
        ahead.turn = turn;
        let Some(hold) = hold else { return };
        if may_leave {
            return self.leave_backlog(mailbox, place, Head { source, hold, history });
        }
        if !tolerant || history.is_none() {
            self.holds.insert(mailbox.clone(), hold);
            self.timers.due(hold.until, mailbox);
        }
        if history.is_some() && self.rules.durable_attempts {
            let mut state = Self::state_of(mailbox);
            state.head = Some(Head { source, hold, history });
            let lane = self.lane(mailbox);
            lane.saving += 1;
            lane.states += 1;
            // What ended before it is said again: should the entry about that get lost, this one must not stand for a head
            // that is none.
            let said = lane.through.zip(lane.follows);
            let said = said.map(|(through, next)| Drained { through, next, count: 0 });
            state.drained = lane.unsaved.take().or(said);
            self.send(Kind::State(state));
        }
        // What runs and is still on its way into the backlog must find its place behind what is at hand.
        let followed = !self.lane(mailbox).parked_running.is_empty();
        if hold.until > now.plus(self.config.keep_for) && !followed {
            self.drop_content(mailbox);
        }
    }

    fn settle_aside(&mut self, source: Source, came: Settlement, now: Timestamp) {
        let keep_until = now.plus(self.config.keep_for);
        let Some(aside) = self.asides.get_mut(&source) else { return };
        let (hold, history) = match came {
            // It runs until its end is recorded: until then nobody may start it again.
            Settlement::Ended => return,
            Settlement::Retry { due, history } => {
                (Hold { reason: HoldReason::Backoff, until: due }, Some(history))
            }
            Settlement::Held(hold) => (hold, None),
            Settlement::NotStarted => (Hold { reason: HoldReason::BehindHead, until: now }, None),
        };
        aside.running = false;
        aside.hold = hold;
        let (mailbox, content) = (aside.mailbox.clone(), aside.content);
        if hold.until > keep_until
            && let Some(bytes) = aside.bytes.take()
        {
            self.content -= bytes;
            self.forgotten.push(source);
        }
        if history.is_some() {
            aside.saving += 1;
            let head = Head { source, hold, history };
            self.send(Kind::Aside(Aside { mailbox: mailbox.clone(), content: Some(content), head }));
        }
        self.timers.aside(hold.until, &mailbox, source);
    }

    /// Whether the mailbox of a delivery that ended goes on only when that is recorded. A backlog is worked off, and read on, by what is
    /// recorded; out of the window the next one goes already.
    #[must_use]
    pub fn waits_for_record(&self, source: Source) -> bool {
        self.window.get(source).is_none_or(|open| open.slot != Slot::Ended)
    }

    /// The end of a delivery is recorded: it is done (I1).
    pub fn recorded(&mut self, source: Source, now: Timestamp) {
        let flight = self.flights.remove(&source);
        if let Some(open) = self.window.get_mut(source) {
            if let Slot::Parking(meanwhile) = &mut open.slot {
                meanwhile.recorded = true;
            } else {
                debug_assert_eq!(open.slot, Slot::Ended, "done before it ended (I1)");
                self.window.remove(source);
                self.forgotten.push(source);
                if let Some(flight) = &flight {
                    let lane = self.lane(&flight.mailbox);
                    lane.recording = lane.recording.saturating_sub(1);
                    self.block_if_put_off(&flight.mailbox);
                }
            }
        } else if let Some(aside) = self.asides.get_mut(&source) {
            // It stays, and nobody starts it again, until its end was read back.
            aside.running = true;
            let (bytes, mailbox) = (aside.bytes.take(), aside.mailbox.clone());
            self.forget_aside(source, bytes);
            self.send(Kind::AsideEnded { mailbox, source });
        } else if let Some(flight) = &flight {
            if let Some(ahead) = self.lane(&flight.mailbox).turn_of(source) {
                ahead.turn = Turn::Ended { recorded: true };
            }
            self.advance(&flight.mailbox, now);
        }
        if let Some(flight) = flight {
            self.settle_down(&flight.mailbox);
        }
        self.leave_isolation_when_done();
    }

    /// The end of a delivery aside was read back.
    pub(super) fn aside_ended(&mut self, source: Source) {
        if let Some(aside) = self.asides.remove(&source) {
            // The deliveries may not have been read again up to it: it is not to be taken for a new one then.
            self.window.mark_done(source);
            self.wanting_asides.remove(&aside.content);
            self.forget_aside(source, aside.bytes);
            if self.lanes.contains_key(&aside.mailbox) {
                // There is room for another one: more may run.
                self.make_ready(&aside.mailbox);
            }
        }
    }

    pub(super) fn forget_aside(&mut self, source: Source, bytes: Option<usize>) {
        if let Some(bytes) = bytes {
            self.content -= bytes;
            self.forgotten.push(source);
        }
    }

    /// A delivery aside that is ready, if it may go.
    pub(super) fn candidate_aside(&mut self, source: Source, now: Timestamp) -> Option<Candidate> {
        let aside = self.asides.get(&source)?;
        if aside.running || aside.hold.until > now || aside.saving > 0 {
            return None;
        }
        let (is_at_hand, mailbox) = (aside.bytes.is_some(), aside.mailbox.clone());
        let (key, most) = (aside.key, aside.traits.attempts_max());
        // An attempt of an owner before may still run (I12).
        let left = self.inherited.iter().filter(|left| left.mailbox == mailbox && left.until > now);
        if let Some(until) = left.map(|left| left.until).max() {
            self.timers.aside(until, &mailbox, source);
            return None;
        }
        let full = self.flying.count(&mailbox) >= most && self.rules.one_flight;
        if full || (self.flying.has(&mailbox, key) && self.rules.one_key) {
            self.flying.wait(&mailbox, source);
            return None;
        }
        Some(if is_at_hand { Candidate::Aside(source) } else { Candidate::Unread })
    }

    pub(super) fn start_aside(
        &mut self,
        source: Source,
        mailbox: &MailboxKey,
        now: Timestamp,
    ) -> Option<Started> {
        let aside = self.asides.get_mut(&source)?;
        (aside.is_ready, aside.running) = (false, true);
        let (key, tolerant) = (aside.key, aside.traits.tolerant);
        let deadline = now.plus(self.config.attempt_timeout);
        self.flights.insert(source, Flight::new(mailbox, deadline));
        self.flying.start(mailbox, source, key, true, now);
        self.timers.slow(now.plus(self.config.park_after), source);
        let stood = self.fold.backlog(mailbox).and_then(|backlog| backlog.asides.get(&source));
        let history = stood.and_then(|aside| aside.head.history.clone());
        Some(Started { source, history, tolerant, condemned: false })
    }

    /// The time of a delivery aside has come: its content is fetched when it is not at hand.
    pub(super) fn aside_is_due(&mut self, mailbox: &MailboxKey, source: Source, now: Timestamp) {
        if !self.asides.contains_key(&source) {
            let stood = self.fold.backlog(mailbox).and_then(|backlog| backlog.asides.get(&source));
            let Some(stood) = stood else { return };
            let traits = self.lanes.get(mailbox).map_or(Traits::STRICT, |lane| lane.traits);
            let live = LiveAside {
                mailbox: mailbox.clone(),
                content: stood.content,
                bytes: None,
                hold: stood.head.hold,
                running: false,
                is_ready: false,
                has_turn: false,
                saving: 0,
                key: None,
                traits,
            };
            self.asides.insert(source, live);
        }
        let Some(aside) = self.asides.get(&source).filter(|aside| !aside.running) else { return };
        if aside.hold.until > now {
            self.timers.aside(aside.hold.until, mailbox, source);
        } else if aside.bytes.is_some() {
            self.push_ready(aside.traits.priority, Item::Aside(source));
        } else {
            self.wanting_asides.insert(aside.content, source);
        }
    }

    pub(super) fn wake_asides(
        &mut self,
        now: Timestamp,
        mut is_over: impl FnMut(&MailboxKey, HoldReason) -> bool,
    ) {
        for (source, aside) in &mut self.asides {
            if crate::fold::waits_for_event(aside.hold) && is_over(&aside.mailbox, aside.hold.reason) {
                aside.hold.until = now;
                self.timers.aside(now, &aside.mailbox, *source);
            }
        }
    }
}
