//! The window: the records of the deliveries partition that are not done yet, and up to where it is done.

use std::collections::BTreeMap;

use mailrail_types::Timestamp;

use crate::checkpoint::{DoneMap, SPAN_MAX};
use crate::entry::{Head, Source};
use crate::flying::OrderKey;

/// How much a window may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records that are not done.
    pub records_max: usize,
    /// Bytes of those records.
    pub bytes_max: usize,
}

/// What became of a delivery whose entry is on its way to the journal.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Meanwhile {
    /// Its attempt ended.
    pub(crate) ended: bool,
    /// Its end is recorded.
    pub(crate) recorded: bool,
    /// It is to be tried again.
    pub(crate) again: Option<Head>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Slot {
    /// Waits for its turn, or for what its mailbox waits for.
    Queued,
    /// An attempt runs.
    Running,
    /// Ended; its end is not recorded yet.
    Ended,
    /// Its entry is on the way to the journal; until it was read back the record stays here (I5).
    Parking(Meanwhile),
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) bytes: usize,
    pub(crate) key: Option<OrderKey>,
    pub(crate) since: Timestamp,
    pub(crate) slot: Slot,
}

/// The records that are not done.
#[derive(Debug)]
pub(crate) struct Window {
    limits: Limits,
    /// Done offsets of the checkpoint that this owner started from.
    already_done: DoneMap,
    open: BTreeMap<Source, Open>,
    /// Offsets that the log left out count as done (I2b). Off in one mutation: then they are kept here, for ever.
    gaps: Option<Vec<Source>>,
    start: Source,
    next: Source,
    bytes: usize,
}

impl Window {
    pub(crate) fn new(limits: Limits, from: Source, done: DoneMap, gaps_are_done: bool) -> Self {
        let gaps = (!gaps_are_done).then(Vec::new);
        Self { limits, already_done: done, open: BTreeMap::new(), gaps, start: from, next: from, bytes: 0 }
    }

    /// Whether another record may come. One always fits, however large: else it could never be delivered (I14).
    pub(crate) fn has_room(&self) -> bool {
        self.open.is_empty()
            || (self.open.len() < self.limits.records_max
                && self.bytes < self.limits.bytes_max
                && self.next - self.floor() < SPAN_MAX)
    }

    /// Whether half of it is used: from here on no mailbox may fill the rest alone.
    pub(crate) fn is_pressed(&self) -> bool {
        self.open.len() * 2 >= self.limits.records_max
            || self.bytes * 2 >= self.limits.bytes_max
            || (self.next - self.floor()) * 2 >= SPAN_MAX
    }

    /// Moves the end to `source`; `false` when that record is done already.
    pub(crate) fn admit(&mut self, source: Source) -> bool {
        if source < self.next {
            debug_assert!(false, "offset {source} was offered twice, next is {}", self.next);
            return false;
        }
        if let Some(gaps) = &mut self.gaps {
            gaps.extend(self.next..source);
        }
        self.next = source + 1;
        !self.already_done.contains(source)
    }

    /// A record that is still to come is done.
    pub(crate) fn mark_done(&mut self, source: Source) {
        if source >= self.next {
            self.already_done.mark(source);
        }
    }

    pub(crate) fn insert(&mut self, source: Source, open: Open) {
        self.bytes += open.bytes;
        self.open.insert(source, open);
    }

    pub(crate) fn get(&self, source: Source) -> Option<&Open> {
        self.open.get(&source)
    }

    pub(crate) fn get_mut(&mut self, source: Source) -> Option<&mut Open> {
        self.open.get_mut(&source)
    }

    /// The record is done.
    pub(crate) fn remove(&mut self, source: Source) -> Option<Open> {
        let open = self.open.remove(&source)?;
        self.bytes -= open.bytes;
        Some(open)
    }

    /// One past the last offset that came.
    pub(crate) fn next(&self) -> Source {
        self.next
    }

    pub(crate) fn records(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lowest offset that is not done, or the next one when all are.
    pub(crate) fn floor(&self) -> Source {
        let gap = self.gaps.as_ref().and_then(|gaps| gaps.first().copied()).unwrap_or(Source::MAX);
        self.open.first_key_value().map_or(self.next, |(source, _)| *source).min(gap).max(self.start)
    }

    /// How long the lowest record has been open.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.open.first_key_value().map(|(_, open)| open.since)
    }

    /// Done offsets at or above the floor.
    pub(crate) fn done(&self) -> DoneMap {
        let floor = self.floor();
        let mut done = DoneMap::new(floor);
        let end = self.next.min(floor.saturating_add(SPAN_MAX));
        let mut from = floor;
        for open in self.open.range(floor..end).map(|(open, _)| *open).chain([end]) {
            (from..open).for_each(|at| done.mark(at));
            from = open + 1;
        }
        // What was marked beyond, and is not read again yet, stays marked.
        for at in self.already_done.marks().filter(|at| *at >= self.next) {
            done.mark(at);
        }
        done
    }
}
