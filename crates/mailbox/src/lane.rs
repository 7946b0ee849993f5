//! What an owner works with of one mailbox. It comes from the fold when it is needed and goes when it is at rest: a mailbox
//! that waits for hours costs its entry in the fold and nothing more.

use std::collections::VecDeque;

use mailrail_types::Timestamp;

use crate::backlog::Backlog;
use crate::entry::{Cursor, Drained, Hold, Place, Source};
use crate::flying::OrderKey;
use crate::queue::Queue;

/// How a mailbox is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Attempts at a time. More than one only where the order may be given up.
    pub threads: usize,
    /// Whether a failed delivery is set aside and the rest goes on. Otherwise it holds the rest.
    pub tolerant: bool,
    /// 1 is dispatched first, 10 last.
    pub priority: u8,
}

impl Traits {
    /// In order, one at a time.
    pub const STRICT: Traits = Traits { threads: 1, tolerant: false, priority: 5 };

    /// Attempts at a time, as the mode allows.
    pub(crate) fn attempts_max(self) -> usize {
        if self.tolerant { self.threads.max(1) } else { 1 }
    }

    /// Attempts at a time, as there is room for those that fail.
    pub(crate) fn flights_max(self, has_room_aside: bool) -> usize {
        if has_room_aside { self.attempts_max() } else { 1 }
    }
}

/// What an owner must know of the content of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its size.
    pub bytes: usize,
    /// What it is about; `None`: it is in nobody's way.
    pub key: Option<OrderKey>,
    /// How its mailbox is drained.
    pub traits: Traits,
}

/// How a delivery of the backlog stands whose content is at hand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn {
    /// Waits for its turn, or for its time.
    Queued { until: Timestamp },
    /// An attempt runs.
    Running,
    /// Ended; whether its end is recorded.
    Ended { recorded: bool },
}

/// A delivery of the backlog whose content is at hand.
#[derive(Debug, Clone)]
pub(crate) struct Ahead {
    pub(crate) source: Source,
    /// The one before it in its stretch.
    pub(crate) after: Option<Source>,
    /// Place of its entry, and the epoch that is valid there.
    pub(crate) at: Place,
    pub(crate) epoch: Place,
    pub(crate) bytes: usize,
    pub(crate) key: Option<OrderKey>,
    pub(crate) turn: Turn,
}

/// What of the lowest stretch is not at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: `ahead` goes to its end.
    None,
    /// What follows `after` in the chain, from this place on.
    From { next: Cursor, after: Option<Source> },
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) traits: Traits,
    /// Deliveries of the window that have not ended.
    pub(crate) queue: Queue,
    /// Attempts that run, of the queue and of the backlog.
    pub(crate) running: usize,
    /// Deliveries of the window that have ended, and whose end is not recorded yet.
    pub(crate) recording: usize,
    /// Park entries that were not read back yet.
    pub(crate) parking: usize,
    /// Those of them that were parked while they ran: what came of them must find them.
    pub(crate) parked_running: Vec<Source>,
    /// Aside entries that were not read back yet.
    pub(crate) leaving: usize,
    /// First and last of each stretch, with what was sent and not read back yet.
    pub(crate) stretches: Vec<(Source, Source)>,
    /// The backlog is declared empty; until that was read back nothing of the mailbox starts.
    pub(crate) clearing: bool,
    /// The queue is to be parked once what was sent was read back.
    pub(crate) block_next: Option<Hold>,
    /// Deliveries of the lowest stretch whose content is at hand, in order, from the first that has not ended.
    pub(crate) ahead: VecDeque<Ahead>,
    pub(crate) ahead_bytes: usize,
    pub(crate) rest: Rest,
    /// The next of the rest has no place beside what is at hand: it is read when some of that has gone.
    pub(crate) is_crowded: bool,
    /// Ended, and not written yet.
    pub(crate) unsaved: Option<Drained>,
    /// The last delivery of the lowest stretch that has ended, with all before it.
    pub(crate) through: Option<Source>,
    /// Where what follows it is.
    pub(crate) follows: Option<Cursor>,
    /// State entries that were not read back yet: until then the fold lags behind this lane.
    pub(crate) states: usize,
    /// Those of them that must be read back before the next attempt (I13).
    pub(crate) saving: usize,
    /// All of the lowest stretch has ended; the fold does not know it yet.
    pub(crate) stretch_ended: bool,
    pub(crate) is_ready: bool,
    /// It might go when it was asked about, and its content had to be read: it does not stand behind others again.
    pub(crate) has_turn: bool,
    /// Waits for a pass over the journal.
    pub(crate) wants: bool,
}

impl Lane {
    pub(crate) fn new(traits: Traits, backlog: Option<&Backlog>) -> Self {
        let stretches = backlog.map(|b| b.stretches.as_slice()).unwrap_or_default();
        let rest = stretches.first().filter(|s| !s.is_drained());
        Self {
            traits,
            queue: Queue::default(),
            running: 0,
            recording: 0,
            parking: 0,
            parked_running: Vec::new(),
            leaving: 0,
            stretches: stretches.iter().map(|s| (s.first, s.last)).collect(),
            clearing: false,
            block_next: None,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            rest: rest.map_or(Rest::None, |s| Rest::From { next: s.next, after: s.drained }),
            is_crowded: false,
            unsaved: None,
            through: stretches.first().and_then(|s| s.drained),
            follows: stretches.first().map(|s| s.next),
            states: 0,
            saving: 0,
            stretch_ended: stretches.first().is_some_and(crate::backlog::Stretch::is_drained),
            is_ready: false,
            has_turn: false,
            wants: false,
        }
    }

    /// Whether new records must stand behind a backlog, one that is on its way included.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.stretches.is_empty()
    }

    /// Whether nothing of it is under way: then the fold says all there is to say.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.queue.is_empty()
            && self.running == 0
            && self.recording == 0
            && self.parking == 0
            && self.leaving == 0
            && self.states == 0
            && !self.clearing
            && self.unsaved.is_none()
            && !self.is_ready
            && !self.wants
            && self.ahead.is_empty()
    }

    /// Whether a delivery of the lowest stretch has ended, as far as this owner knows.
    pub(crate) fn has_ended(&self, source: Source) -> bool {
        let ended = |ahead: &Ahead| ahead.source == source && matches!(ahead.turn, Turn::Ended { .. });
        self.through >= Some(source) || self.ahead.iter().any(ended)
    }

    /// Whether what the window holds of it must wait before it is parked: an entry about another delivery of the mailbox, or
    /// the record of one, may still get lost, and that delivery must not look parked then.
    pub(crate) fn must_wait_to_park(&self) -> bool {
        self.clearing || self.leaving > 0 || (self.traits.tolerant && self.recording > 0)
    }

    pub(crate) fn turn_of(&mut self, source: Source) -> Option<&mut Ahead> {
        self.ahead.iter_mut().find(|ahead| ahead.source == source)
    }
}
