//! The window: which delivery may go next, and up to where the partition is done.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use mailrail_types::{MailboxKey, Timestamp};

use crate::{Checkpoint, DoneMap, SPAN_MAX};

/// How much a window may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records that are not done.
    pub records_max: usize,
    /// Bytes of those records.
    pub bytes_max: usize,
}

/// What became of an offered record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It stands in its mailbox now.
    Queued,
    /// The checkpoint said that it is done already: the caller may forget it.
    AlreadyDone,
}

/// What an attempt left of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// It ended: the mailbox goes on. It is done once its end is recorded ([`Window::recorded`]).
    Ended,
    /// It is tried again at this time; its mailbox waits (strict).
    Retry(Timestamp),
    /// It is tried again at this time; its mailbox goes on without it (tolerates reordering).
    SetAside(Timestamp),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Behind another delivery, or ready to go.
    Queued,
    /// An attempt runs.
    Running,
    /// Waiting for its time.
    Waiting(Timestamp),
    /// Ended; its end is not recorded yet.
    Ended,
}

#[derive(Debug)]
struct Slot {
    /// `None`: it never had a turn to wait for.
    /// Or it was set aside and has none any more.
    mailbox: Option<MailboxKey>,
    bytes: usize,
    state: State,
}

/// The records of a partition that are not done, in mailboxes.
#[derive(Debug)]
pub struct Window {
    limits: Limits,
    /// Done offsets of the checkpoint that this owner started from.
    already_done: DoneMap,
    /// Not done, by offset.
    slots: BTreeMap<u64, Slot>,
    /// Offsets of each mailbox that have not ended, oldest first. The head is the one that may run.
    mailboxes: HashMap<MailboxKey, VecDeque<u64>>,
    /// Heads that may be attempted now, in the order in which they became ready: mailboxes take turns.
    ready: VecDeque<u64>,
    /// Heads that wait for their time.
    waiting: BinaryHeap<Reverse<(Timestamp, u64)>>,
    /// One past the last offset offered.
    next: u64,
    bytes: usize,
}

impl Window {
    /// An empty window at a checkpoint.
    #[must_use]
    pub fn new(limits: Limits, from: Checkpoint) -> Self {
        Self {
            limits,
            next: from.offset,
            already_done: from.done,
            slots: BTreeMap::new(),
            mailboxes: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BinaryHeap::new(),
            bytes: 0,
        }
    }

    /// Whether another record may be offered. One record always fits, however large: else it could never be delivered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.slots.is_empty()
            || (self.slots.len() < self.limits.records_max
                && self.bytes < self.limits.bytes_max
                && self.next - self.floor() < SPAN_MAX)
    }

    /// Takes the next record of the partition. Offsets grow; those left out count as done (I2b). An offset below the last
    /// one was offered before and is answered as done.
    pub fn offer(&mut self, offset: u64, mailbox: MailboxKey, bytes: usize) -> Offered {
        if !self.admit(offset) {
            return Offered::AlreadyDone;
        }
        let queue = self.mailboxes.entry(mailbox.clone()).or_default();
        queue.push_back(offset);
        if queue.len() == 1 {
            self.ready.push_back(offset);
        }
        self.insert(offset, Slot { mailbox: Some(mailbox), bytes, state: State::Queued });
        Offered::Queued
    }

    /// Takes the next record of the partition when there is nothing to attempt: it cannot be read, or is known already.
    /// It stands in no mailbox and is done once [`Window::recorded`].
    pub fn offer_ended(&mut self, offset: u64, bytes: usize) -> Offered {
        if !self.admit(offset) {
            return Offered::AlreadyDone;
        }
        self.insert(offset, Slot { mailbox: None, bytes, state: State::Ended });
        Offered::Queued
    }

    /// Moves the end of the window to `offset`; `false` when that record is done.
    fn admit(&mut self, offset: u64) -> bool {
        if offset < self.next {
            debug_assert!(false, "offset {offset} was offered twice, next is {}", self.next);
            return false;
        }
        self.next = offset + 1;
        !self.already_done.contains(offset)
    }

    fn insert(&mut self, offset: u64, slot: Slot) {
        self.bytes += slot.bytes;
        self.slots.insert(offset, slot);
    }

    /// The next delivery to attempt, if one may go at `now`. From here to [`Window::settle`] its mailbox stands still (I12).
    pub fn start(&mut self, now: Timestamp) -> Option<u64> {
        while let Some(&Reverse((due, offset))) = self.waiting.peek()
            && due <= now
        {
            self.waiting.pop();
            self.ready.push_back(offset);
        }
        let offset = self.ready.pop_front()?;
        let slot = self.slots.get_mut(&offset)?;
        debug_assert!(matches!(slot.state, State::Queued | State::Waiting(_)), "{:?} was ready", slot.state);
        slot.state = State::Running;
        debug_assert!(self.is_head(offset), "only a head may run, or what was set aside (I12)");
        Some(offset)
    }

    /// Takes the result of a started attempt.
    pub fn settle(&mut self, offset: u64, settlement: Settlement) {
        let Some(slot) = self.slots.get_mut(&offset) else { return };
        debug_assert_eq!(slot.state, State::Running, "only a running delivery is settled");
        match settlement {
            Settlement::Retry(due) => {
                slot.state = State::Waiting(due);
                self.waiting.push(Reverse((due, offset)));
            }
            Settlement::SetAside(due) => {
                slot.state = State::Waiting(due);
                self.waiting.push(Reverse((due, offset)));
                self.let_go_on(offset);
            }
            Settlement::Ended => {
                slot.state = State::Ended;
                self.let_go_on(offset);
            }
        }
    }

    /// The end of a delivery is recorded: it is done.
    pub fn recorded(&mut self, offset: u64) {
        if let Some(slot) = self.slots.get(&offset) {
            debug_assert_eq!(slot.state, State::Ended, "done before it ended (I1)");
            self.bytes -= slot.bytes;
            self.slots.remove(&offset);
        }
    }

    /// When the next waiting delivery is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.waiting.peek().map(|Reverse((due, _))| *due)
    }

    /// How far the partition is done.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let offset = self.floor();
        let mut done = DoneMap::new(offset);
        if offset < self.next {
            for at in offset..self.next.min(offset + SPAN_MAX) {
                if !self.slots.contains_key(&at) {
                    done.mark(at);
                }
            }
        }
        Checkpoint { offset, done }
    }

    /// Records that are not done.
    #[must_use]
    pub fn records(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of the records that are not done.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Deliveries that wait for their time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Lowest offset that is not done, or the next one when all are.
    fn floor(&self) -> u64 {
        self.slots.first_key_value().map_or(self.next, |(offset, _)| *offset)
    }

    fn is_head(&self, offset: u64) -> bool {
        let mailbox = self.slots.get(&offset).and_then(|slot| slot.mailbox.as_ref());
        mailbox.is_none_or(|m| self.mailboxes.get(m).is_some_and(|queue| queue.front() == Some(&offset)))
    }

    /// A head leaves its mailbox: the next one is ready, and an empty mailbox is forgotten. What was set aside before has
    /// left already.
    fn let_go_on(&mut self, offset: u64) {
        let Some(mailbox) = self.slots.get_mut(&offset).and_then(|slot| slot.mailbox.take()) else { return };
        let Some(queue) = self.mailboxes.get_mut(&mailbox) else { return };
        queue.pop_front();
        match queue.front() {
            Some(&next) => self.ready.push_back(next),
            None => {
                self.mailboxes.remove(&mailbox);
            }
        }
    }
}

#[cfg(test)]
mod tests;
