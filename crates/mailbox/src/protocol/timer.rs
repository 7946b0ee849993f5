//! What happens because time passes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use mailrail_types::{HoldReason, MailboxKey, Timestamp};

use super::Protocol;
use crate::entry::{Head, Hold, Source};
use crate::window::Slot;

/// How exactly a slow attempt is parked on time.
const SLOW_GRAIN_MS: i64 = 100;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A mailbox may go on.
    Due(MailboxKey),
    /// A delivery aside may go.
    Aside(Source, MailboxKey),
    /// An attempt has taken long (I8).
    Slow(Source),
    /// An end was not written yet.
    Save(MailboxKey),
}

/// Timers, earliest first. One that is out of date when its time comes does nothing.
#[derive(Debug, Default)]
pub(super) struct Timers {
    order: BinaryHeap<Reverse<(Timestamp, Timer)>>,
    /// Those of attempts, earliest first: as many as there were attempts in as long as one may take, and each as far off as the
    /// others when it is set. One that comes out of order, because a clock went back, is with the rest.
    slow: VecDeque<(Timestamp, Source)>,
    /// The earliest time that is set for a mailbox: a later one is set when that has come. So a mailbox that is asked again
    /// and again while it waits keeps one timer.
    due: BTreeMap<MailboxKey, Timestamp>,
}

impl Timers {
    pub(super) fn due(&mut self, at: Timestamp, mailbox: &MailboxKey) {
        if self.due.get(mailbox).is_none_or(|set| at < *set) {
            self.due.insert(mailbox.clone(), at);
            self.order.push(Reverse((at, Timer::Due(mailbox.clone()))));
        }
    }

    pub(super) fn aside(&mut self, at: Timestamp, mailbox: &MailboxKey, source: Source) {
        self.order.push(Reverse((at, Timer::Aside(source, mailbox.clone()))));
    }

    /// Rounded up to [`SLOW_GRAIN_MS`]: nearly every attempt is over by then, and the owner is not woken for each of them.
    pub(super) fn slow(&mut self, at: Timestamp, source: Source) {
        let grains = at.millis().saturating_add(SLOW_GRAIN_MS - 1).div_euclid(SLOW_GRAIN_MS);
        let at = Timestamp(grains.saturating_mul(SLOW_GRAIN_MS));
        if self.slow.back().is_none_or(|(last, _)| *last <= at) {
            self.slow.push_back((at, source));
        } else {
            self.order.push(Reverse((at, Timer::Slow(source))));
        }
    }

    pub(super) fn save(&mut self, at: Timestamp, mailbox: &MailboxKey) {
        self.order.push(Reverse((at, Timer::Save(mailbox.clone()))));
    }

    fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        if self.is_slow_first()
            && let Some((_, source)) = self.slow.pop_front()
        {
            return Some(Timer::Slow(source));
        }
        let Reverse((at, timer)) = self.order.pop()?;
        if let Timer::Due(mailbox) = &timer
            && self.due.get(mailbox) == Some(&at)
        {
            self.due.remove(mailbox);
        }
        Some(timer)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len() + self.slow.len()
    }

    /// Whether the earliest is that of an attempt.
    fn is_slow_first(&self) -> bool {
        let Some((slow, source)) = self.slow.front() else { return false };
        let other = self.order.peek();
        other.is_none_or(|Reverse((at, timer))| (slow, &Timer::Slow(*source)) < (at, timer))
    }

    fn next(&self) -> Option<Timestamp> {
        let slow = self.slow.front().map(|(at, _)| *at);
        let other = self.order.peek().map(|Reverse((at, _))| *at);
        slow.into_iter().chain(other).min()
    }
}

impl Protocol {
    /// Lets time pass: to be called when [`Protocol::next_wake`] has come.
    pub fn tick(&mut self, now: Timestamp) {
        self.inherited.retain(|left| left.until > now);
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Due(mailbox) => self.mailbox_is_due(&mailbox, now),
                Timer::Aside(source, mailbox) => self.aside_is_due(&mailbox, source, now),
                Timer::Slow(source) => self.is_slow(source, now),
                Timer::Save(mailbox) => self.save(&mailbox),
            }
        }
    }

    /// When something is to happen because time passes.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    fn mailbox_is_due(&mut self, mailbox: &MailboxKey, now: Timestamp) {
        let known = self.lanes.contains_key(mailbox) || self.fold.backlog(mailbox).is_some();
        match self.hold_of(mailbox).filter(|hold| hold.until > now) {
            Some(hold) => self.timers.due(hold.until, mailbox),
            None if known => self.make_ready(mailbox),
            // All it ever had here was an attempt that the owner before left running.
            None => drop(self.holds.remove(mailbox)),
        }
    }

    /// An attempt has run for long: its delivery leaves the window, and the attempt goes on.
    fn is_slow(&mut self, source: Source, now: Timestamp) {
        let Some(flight) = self.flights.get(&source).filter(|flight| !flight.ended) else { return };
        let (mailbox, deadline) = (flight.mailbox.clone(), flight.deadline);
        if !self.rules.slow_parks {
            return;
        }
        let in_window = self.window.get(source).is_some_and(|open| open.slot == Slot::Running);
        if !in_window {
            // Asked again, for what it waits for may be over: there is room aside, or its key is free.
            if self.lanes.contains_key(&mailbox) {
                self.make_ready(&mailbox);
            }
            return;
        }
        let hold = Hold { reason: HoldReason::Slow, until: deadline.max(now) };
        if self.lane(&mailbox).traits.tolerant && self.has_room_aside(&mailbox) {
            self.set_aside(source, &mailbox, Head { source, hold, history: None });
            self.park_what_is_stuck(&mailbox, now);
        } else {
            self.block(&mailbox, hold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I8: an attempt is looked at when its time has come, whatever the clock did between the starts of two.
    #[test]
    fn i8_timers_of_attempts_come_in_order_although_the_clock_goes_back() {
        let key = MailboxKey::from_text("a");
        let mut timers = Timers::default();
        for (at, source) in [(1000, 1), (500, 2), (1000, 3), (700, 4)] {
            timers.slow(Timestamp(at), source);
        }
        timers.save(Timestamp(600), &key);
        assert_eq!((timers.len(), timers.next()), (5, Some(Timestamp(500))));
        assert_eq!(timers.pop(Timestamp(499)), None);
        let order: Vec<Timer> = std::iter::from_fn(|| timers.pop(Timestamp(1000))).collect();
        let expected = [Timer::Slow(2), Timer::Save(key), Timer::Slow(4), Timer::Slow(1), Timer::Slow(3)];
        assert_eq!(order, expected);
        assert_eq!((timers.len(), timers.next()), (0, None));
    }
}
