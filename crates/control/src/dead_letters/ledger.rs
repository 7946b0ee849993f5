//! The ledger of redrives, folded: which letters were put back, and how far each replay is. Pure.
//!
//! One replay is carried on at a time, the oldest that is not over, by the runner that claimed it from the one before. What
//! another runner writes about it is void, so of two processes that both believe to be the runner one finds out before it
//! puts anything back.

use std::collections::{BTreeMap, HashMap};

use mailrail_types::{DeliveryId, RedriveBatch, RedriveEntry, ReplayId, ReplayOrder, ReplayStep, Timestamp};

/// What the ledger says.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    replays: HashMap<ReplayId, Replay>,
    /// As they were ordered.
    order: Vec<ReplayId>,
    put_back: HashMap<DeliveryId, PutBack>,
}

/// A replay and how far it is.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    pub(super) order: ReplayOrder,
    /// Who carries it on; empty: nobody.
    pub(super) runner: String,
    pub(super) cancelled: Option<(String, Timestamp)>,
    pub(super) ended_at: Option<Timestamp>,
    /// Letters that were put back, those that could not be included.
    pub(super) sent: u64,
    pub(super) skipped: u64,
    pub(super) unreadable: u64,
    pub(super) failed: u64,
    /// The batch that may be written only in part: its runner has not said anything since.
    pub(super) open: Option<RedriveBatch>,
    /// By partition, where it goes on.
    next: BTreeMap<u32, u64>,
}

/// How often a delivery was put back.
#[derive(Debug, Clone, Copy)]
struct PutBack {
    redrives: u32,
    /// The replay that did it last.
    replay: ReplayId,
    /// Where its letter stood.
    partition: u32,
    offset: u64,
}

impl Ledger {
    /// Takes the next entry in.
    pub(super) fn apply(&mut self, entry: RedriveEntry) {
        let id = entry.replay();
        if let RedriveEntry::Ordered(order) = entry {
            // An append that was tried again may be there twice.
            if let std::collections::hash_map::Entry::Vacant(free) = self.replays.entry(id) {
                free.insert(Replay::new(order));
                self.order.push(id);
            }
            return;
        }
        // What is not known was trimmed: its letters are gone.
        let Some(replay) = self.replays.get_mut(&id).filter(|it| it.ended_at.is_none()) else { return };
        match entry {
            RedriveEntry::Ordered(_) => {}
            RedriveEntry::Claimed { runner, after, .. } if replay.runner == after => replay.runner = runner,
            RedriveEntry::Cancelled { by, at, .. } => {
                replay.cancelled.get_or_insert((by, at));
            }
            RedriveEntry::Passed { runner, step, .. } if replay.runner == runner => replay.go_on(&step, None),
            RedriveEntry::Ended { runner, at, .. } if replay.runner == runner => {
                replay.open = None;
                replay.ended_at = Some(at);
            }
            RedriveEntry::Sending { runner, step, batch, .. } if replay.takes(&runner, &batch) => {
                for letter in &batch.letters {
                    let (redrives, partition, offset) = (letter.redrives, batch.partition, letter.offset);
                    self.put_back
                        .insert(letter.delivery, PutBack { redrives, replay: id, partition, offset });
                }
                replay.go_on(&step, Some(batch));
            }
            RedriveEntry::Claimed { .. }
            | RedriveEntry::Passed { .. }
            | RedriveEntry::Ended { .. }
            | RedriveEntry::Sending { .. } => {
                tracing::debug!(replay = %id, "an entry of another runner is void");
            }
        }
    }

    /// Whether this letter was put back: the one that the delivery left after it had been redriven so often.
    pub(super) fn was_put_back(&self, delivery: DeliveryId, redrives: u32) -> bool {
        self.put_back.get(&delivery).is_some_and(|it| it.redrives > redrives)
    }

    /// Whether `replay` should put this letter back: each delivery once in a replay, and each letter once in all replays,
    /// unless this one was told to do it again.
    pub(super) fn is_due(&self, replay: &Replay, delivery: DeliveryId, redrives: u32) -> bool {
        if !replay.order.again {
            return !self.was_put_back(delivery, redrives);
        }
        self.put_back.get(&delivery).is_none_or(|it| it.replay != replay.order.replay)
    }

    /// What `redrives` of a letter is when it is put back: higher than ever, so that nobody takes it for a copy.
    pub(super) fn next_redrives(&self, delivery: DeliveryId, redrives: u32) -> u32 {
        let before = self.put_back.get(&delivery).map_or(0, |it| it.redrives);
        before.max(redrives).saturating_add(1)
    }

    /// Letters that were put back and are still known.
    pub(super) fn known(&self) -> usize {
        self.put_back.len()
    }

    /// The replay whose turn it is.
    pub(super) fn first_unfinished(&self) -> Option<&Replay> {
        self.unfinished().next()
    }

    /// Those that are not over, the oldest first.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Replay> {
        self.order.iter().filter_map(|id| self.replays.get(id)).filter(|it| it.ended_at.is_none())
    }

    pub(super) fn get(&self, replay: &ReplayId) -> Option<&Replay> {
        self.replays.get(replay)
    }

    /// All replays, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Replay> {
        self.order.iter().rev().filter_map(|id| self.replays.get(id))
    }

    /// Forgets letters that stood below these offsets of the dead letters: they cannot be redriven any more.
    pub(super) fn forget_below(&mut self, lows: &BTreeMap<u32, u64>) {
        self.put_back.retain(|_, it| lows.get(&it.partition).is_none_or(|low| it.offset >= *low));
    }
}

impl Replay {
    fn new(order: ReplayOrder) -> Self {
        Self {
            next: order.ranges.iter().map(|range| (range.partition, range.from)).collect(),
            order,
            runner: String::new(),
            cancelled: None,
            ended_at: None,
            sent: 0,
            skipped: 0,
            unreadable: 0,
            failed: 0,
            open: None,
        }
    }

    /// Whether a batch counts. One that is there twice counts once.
    fn takes(&self, runner: &str, batch: &RedriveBatch) -> bool {
        self.runner == runner && self.cancelled.is_none() && self.open.as_ref() != Some(batch)
    }

    fn go_on(&mut self, step: &ReplayStep, batch: Option<RedriveBatch>) {
        let next = self.next.entry(step.partition).or_default();
        *next = step.next.max(*next);
        self.skipped += step.skipped;
        self.unreadable += step.unreadable;
        self.failed += step.failed;
        self.sent += batch.as_ref().map_or(0, |batch| batch.letters.len() as u64);
        self.open = batch;
    }

    /// Where it goes on: partition, offset, and the end of what it looks at there.
    pub(super) fn place(&self) -> Option<(u32, u64, u64)> {
        let ranges = self.order.ranges.iter();
        let places = ranges.map(|range| (range.partition, self.next_in(range.partition), range.to));
        places.into_iter().find(|(_, next, to)| next < to)
    }

    fn next_in(&self, partition: u32) -> u64 {
        self.next.get(&partition).copied().unwrap_or(0)
    }

    /// Letters that were looked at, and that will have been at its end.
    pub(super) fn progress(&self) -> (u64, u64) {
        let ranges = self.order.ranges.iter();
        ranges.fold((0, 0), |(done, all), range| {
            let next = self.next_in(range.partition).clamp(range.from, range.to);
            (done + (next - range.from), all + (range.to - range.from))
        })
    }

    /// `waiting`, `running`, `cancelling`, `cancelled` or `done`.
    pub(super) fn state(&self) -> &'static str {
        match (&self.ended_at, &self.cancelled) {
            (Some(_), Some(_)) => "cancelled",
            (Some(_), None) => "done",
            (None, Some(_)) => "cancelling",
            (None, None) if self.runner.is_empty() => "waiting",
            (None, None) => "running",
        }
    }
}

#[cfg(test)]
mod tests;
