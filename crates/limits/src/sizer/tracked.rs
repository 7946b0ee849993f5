//! What is known of one counter: the last reading with own payloads added, and what is still to be written.

use mailrail_policy::{COUNTERS_READ, SizingOptions, WindowReading, next_width, shard_number};
use mailrail_types::Timestamp;

use super::refresh::Refresh;
use super::{CACHED_FOR, PAUSE_AFTER_FAILURE, Sizing, is_recent};
use crate::local::place;
use crate::{HeldWidth, Stored};

/// A width that did not change is written again when it is this old, so that it does not expire (1,080 s) under a sender
/// that stays the same.
const WIDTH_REWRITTEN_AFTER: std::time::Duration = std::time::Duration::from_mins(5);

/// Shards behind the current one that a window still looks at.
const OLDEST: i64 = COUNTERS_READ as i64 - 1;

/// Answer from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Known(Sizing),
    /// The store must be asked first.
    Stale,
    /// The store failed a moment ago, or does not take what is counted here.
    Failed,
}

#[derive(Default)]
pub(super) struct Tracked {
    slots: [Slot; COUNTERS_READ],
    read_at: Option<Timestamp>,
    failed_at: Option<Timestamp>,
    /// The last write failed. What others count may be missing in a reading as well, so it is not believed.
    pub(super) write_failed: bool,
    /// The width so far and what it was chosen with.
    held: Option<HeldWidth>,
    written: Option<(HeldWidth, Timestamp)>,
    pub(super) refresh: Option<Refresh>,
    /// Whether it is in the list of counters with something to write.
    pub(super) listed: bool,
}

/// One shard of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Slot {
    shard: i64,
    /// Payloads, as far as is known. Never less than before: a store that answers less has forgotten something.
    payloads: u64,
    /// Those that were not sent yet.
    pending: u64,
}

/// Own payloads of one shard, on their way to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) shard: i64,
    pub(super) count: u64,
}

impl Tracked {
    /// The slot of `shard`, emptied if it held an older one; `None` if it holds a newer one.
    fn slot(&mut self, shard: i64, dropped: &mut u64) -> Option<&mut Slot> {
        let slot = &mut self.slots[place(shard)];
        if slot.shard < shard || *slot == Slot::default() {
            *dropped += slot.pending;
            *slot = Slot { shard, ..Slot::default() };
        }
        (slot.shard == shard).then_some(slot)
    }

    /// Counts one payload; answers how many counts were dropped instead.
    pub(super) fn count(&mut self, now: Timestamp) -> u64 {
        let mut dropped = 0;
        match self.slot(shard_number(now), &mut dropped) {
            Some(slot) => {
                slot.payloads = slot.payloads.saturating_add(1);
                slot.pending = slot.pending.saturating_add(1);
            }
            // The clock was set back by more than a window.
            None => dropped += 1,
        }
        dropped
    }

    fn reading(&self, now: Timestamp) -> WindowReading {
        let mut number = shard_number(now);
        let shards = [(); COUNTERS_READ].map(|()| {
            let slot = self.slots[place(number)];
            let payloads = if slot.shard == number { slot.payloads } else { 0 };
            number = number.saturating_sub(1);
            payloads
        });
        WindowReading { at: now, shards }
    }

    pub(super) fn look(&mut self, now: Timestamp, options: &SizingOptions) -> Look {
        if self.write_failed || self.failed_at.is_some_and(|at| is_recent(at, now, PAUSE_AFTER_FAILURE)) {
            return Look::Failed;
        }
        if !self.read_at.is_some_and(|at| is_recent(at, now, CACHED_FOR)) {
            return Look::Stale;
        }
        let reading = self.reading(now);
        let unit = options.unit();
        let current = self.held.filter(|held| held.unit == unit).map(|held| held.width);
        let width = next_width(Some(&reading), current, options);
        self.held = Some(HeldWidth { width, unit });
        Look::Known(Sizing { width, known: true, payloads: Some(reading.payloads()) })
    }

    /// Takes in what the store had, as asked for at `asked_at` for `shard`.
    pub(super) fn merge(&mut self, stored: &Stored, shard: i64, asked_at: Timestamp) -> u64 {
        let mut dropped = 0;
        let mut number = shard;
        for read in stored.shards {
            if let Some(slot) = self.slot(number, &mut dropped) {
                // What is not sent cannot be in the answer. What is on its way may be, so it counts only as far as it was
                // known before.
                slot.payloads = slot.payloads.max(read.saturating_add(slot.pending));
            }
            number = number.saturating_sub(1);
        }
        if let Some(theirs) = stored.width {
            self.held = Some(match self.held {
                // The wider of both: which one to keep is the shrink rule's to say, by the counts.
                Some(ours) if ours.unit == theirs.unit => {
                    HeldWidth { width: ours.width.max(theirs.width), ..ours }
                }
                Some(ours) => ours,
                None => theirs,
            });
        }
        self.written = stored.width.map(|held| {
            let at = self.written.filter(|(it, _)| *it == held).map_or(Timestamp::ZERO, |(_, at)| at);
            (held, at)
        });
        self.read_at = Some(asked_at);
        self.failed_at = None;
        dropped
    }

    pub(super) fn failed(&mut self, now: Timestamp) {
        self.failed_at = Some(now);
    }

    /// Whether there is something to write.
    pub(super) fn is_dirty(&self, now: Timestamp) -> bool {
        self.write_failed || self.slots.iter().any(|it| it.pending > 0) || self.width_due(now).is_some()
    }

    /// The width to write, if it is another than the store's or about to expire there. No width is as good as 1.
    fn width_due(&self, now: Timestamp) -> Option<HeldWidth> {
        let held = self.held?;
        match self.written {
            None => (held.width > 1).then_some(held),
            Some((written, at)) => {
                (written != held || !is_recent(at, now, WIDTH_REWRITTEN_AFTER)).then_some(held)
            }
        }
    }

    /// Takes everything there is to write; also answers how many counts are too old for that.
    pub(super) fn take(&mut self, now: Timestamp) -> (Vec<Taken>, Option<HeldWidth>, u64) {
        let oldest = shard_number(now).saturating_sub(OLDEST);
        let mut dropped = 0;
        let mut taken = Vec::new();
        for slot in &mut self.slots {
            let count = std::mem::take(&mut slot.pending);
            if count > 0 && slot.shard >= oldest {
                taken.push(Taken { shard: slot.shard, count });
            } else {
                dropped += count;
            }
        }
        (taken, self.width_due(now), dropped)
    }

    /// Puts back what was not written; answers how many counts were dropped instead.
    pub(super) fn give_back(&mut self, taken: Taken) -> u64 {
        let slot = &mut self.slots[place(taken.shard)];
        if slot.shard != taken.shard {
            return taken.count;
        }
        slot.pending = slot.pending.saturating_add(taken.count);
        0
    }

    pub(super) fn width_written(&mut self, held: HeldWidth, now: Timestamp) {
        self.written = Some((held, now));
    }

    /// Forgets what was to be written; answers how many counts.
    pub(super) fn take_pending(&mut self) -> u64 {
        self.slots.iter_mut().fold(0, |sum, it| sum.saturating_add(std::mem::take(&mut it.pending)))
    }

    /// Counts that nobody has but this.
    pub(super) fn pending(&self) -> u64 {
        self.slots.iter().fold(0, |sum, it| sum.saturating_add(it.pending))
    }
}
