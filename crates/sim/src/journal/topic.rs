//! One partition of a simulated log: what was appended stays in its order, offsets may have gaps, the front may be trimmed.

use std::collections::BTreeMap;

/// Most offsets that a gap takes: the markers of transactions, or records that a broker dropped.
const GAP_MAX: u64 = 3;

pub(super) struct Topic<T> {
    records: BTreeMap<u64, T>,
    low: u64,
    next: u64,
}

impl<T> Topic<T> {
    pub(super) fn new() -> Self {
        Self { records: BTreeMap::new(), low: 0, next: 0 }
    }

    /// Appends behind a gap of `gap` offsets; gives the offset.
    pub(super) fn append(&mut self, record: T, gap: u64) -> u64 {
        let at = self.next + gap.min(GAP_MAX);
        self.records.insert(at, record);
        self.next = at + 1;
        at
    }

    /// The first record at or behind `from`.
    pub(super) fn read(&self, from: u64) -> Option<(u64, &T)> {
        self.records.range(from..).next().map(|(at, record)| (*at, record))
    }

    pub(super) fn get(&self, at: u64) -> Option<&T> {
        self.records.get(&at)
    }

    /// First offset that was not trimmed away.
    pub(super) fn low(&self) -> u64 {
        self.low
    }

    /// One past the last offset.
    pub(super) fn high(&self) -> u64 {
        self.next
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn trim(&mut self, before: u64) {
        if before > self.low {
            self.low = before;
            self.records = self.records.split_off(&before);
        }
    }
}
