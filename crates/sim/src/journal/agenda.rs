//! What happens when, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use mailrail_types::Timestamp;

/// Events in order of their time; those of one time in the order in which they were put down.
pub(super) struct Agenda<E> {
    order: BinaryHeap<Reverse<(Timestamp, u64)>>,
    events: BTreeMap<u64, E>,
    next: u64,
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Self { order: BinaryHeap::new(), events: BTreeMap::new(), next: 0 }
    }

    pub(super) fn put(&mut self, at: Timestamp, event: E) {
        self.order.push(Reverse((at, self.next)));
        self.events.insert(self.next, event);
        self.next += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(Timestamp, E)> {
        let Reverse((at, number)) = self.order.pop()?;
        self.events.remove(&number).map(|event| (at, event))
    }
}
