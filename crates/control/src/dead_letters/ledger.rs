//! The ledger of redrives, folded: which letters were put back, and how far each replay is. Pure.
//!
//! One replay is carried on at a time, the oldest that is not over, by the runner that claimed it from the one before. What
//! another runner writes about it is void, so of two processes that both believe to be the runner one finds out before it
//! puts anything back.

use std::collections::{BTreeMap, HashMap};

use mailrail_types::{
    DeliveryId, RedriveBatch, RedriveEntry, ReplayId, ReplayOrder, ReplayStep, Timestamp, Unsent,
    UnsentReason,
};

/// Letters of a replay that are remembered by name because they were not put back: as many as a filter can name.
const UNSENT_MAX: usize = mailrail_types::LetterFilter::IDS_MAX;

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
    /// Letters that were put back.
    pub(super) sent: u64,
    pub(super) skipped: u64,
    pub(super) unreadable: u64,
    /// How many were not, by why.
    pub(super) unsent: BTreeMap<UnsentReason, u64>,
    /// The first of them, with the partition and offset of each.
    pub(super) unsent_letters: Vec<(u32, u64, Unsent)>,
    /// The batch that may be written only in part: its runner has not said anything since.
    pub(super) open: Option<RedriveBatch>,
    /// What was known of its letters before it: what holds again of those that are not put back.
    before: HashMap<DeliveryId, PutBack>,
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
    /// Whether it arrived is not known.
    is_undecided: bool,
}

/// What is known of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was not put back.
    Dead,
    /// It was.
    PutBack,
    /// It was to be, and whether it was is not known.
    Undecided,
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
                replay.close();
                replay.ended_at = Some(at);
            }
            RedriveEntry::Sending { runner, step, batch, .. } if replay.takes(&runner, &batch) => {
                replay.go_on(&step, Some(batch));
                replay.write_down(&mut self.put_back);
            }
            // One that is there twice finds nothing open.
            RedriveEntry::Settled { runner, unsent, .. } if replay.runner == runner => {
                replay.settle(&unsent, &mut self.put_back);
            }
            RedriveEntry::Claimed { .. }
            | RedriveEntry::Settled { .. }
            | RedriveEntry::Passed { .. }
            | RedriveEntry::Ended { .. }
            | RedriveEntry::Sending { .. } => {
                tracing::debug!(replay = %id, "an entry of another runner is void");
            }
        }
    }

    /// Whether this letter was put back: the one that the delivery left after it had been redriven so often.
    pub(super) fn standing(&self, delivery: DeliveryId, redrives: u32) -> Standing {
        match self.put_back.get(&delivery).filter(|it| it.redrives > redrives) {
            None => Standing::Dead,
            Some(it) if it.is_undecided => Standing::Undecided,
            Some(_) => Standing::PutBack,
        }
    }

    /// Whether this letter was put back, or nobody can say that it was not.
    pub(super) fn was_put_back(&self, delivery: DeliveryId, redrives: u32) -> bool {
        self.standing(delivery, redrives) != Standing::Dead
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

    /// Forgets replays of which nothing is in the log any more.
    pub(super) fn keep_replays(&mut self, in_log: impl Fn(&ReplayId) -> bool) {
        self.order.retain(&in_log);
        self.replays.retain(|id, _| in_log(id));
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
            unsent: BTreeMap::new(),
            unsent_letters: Vec::new(),
            open: None,
            before: HashMap::new(),
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
        self.sent += batch.as_ref().map_or(0, |batch| batch.letters.len() as u64);
        self.close();
        self.open = batch;
    }

    /// The letters of the open batch count as put back from here on.
    fn write_down(&mut self, put_back: &mut HashMap<DeliveryId, PutBack>) {
        let Some(batch) = &self.open else { return };
        for letter in &batch.letters {
            let now = PutBack {
                redrives: letter.redrives,
                replay: self.order.replay,
                partition: batch.partition,
                offset: letter.offset,
                is_undecided: false,
            };
            if let Some(before) = put_back.insert(letter.delivery, now) {
                self.before.insert(letter.delivery, before);
            }
        }
    }

    /// The open batch is done, but for some of its letters.
    fn settle(&mut self, unsent: &[Unsent], put_back: &mut HashMap<DeliveryId, PutBack>) {
        let Some(batch) = &self.open else { return };
        for it in unsent {
            let Some(letter) = batch.letters.iter().find(|letter| letter.delivery == it.delivery) else {
                continue;
            };
            self.sent = self.sent.saturating_sub(1);
            *self.unsent.entry(it.reason).or_default() += 1;
            if self.unsent_letters.len() < UNSENT_MAX {
                self.unsent_letters.push((batch.partition, letter.offset, *it));
            }
            match (it.reason, self.before.get(&it.delivery)) {
                (UnsentReason::Undecided, _) => {
                    put_back.entry(it.delivery).and_modify(|it| it.is_undecided = true);
                }
                (UnsentReason::TooLarge | UnsentReason::Gone, Some(before)) => {
                    put_back.insert(it.delivery, *before);
                }
                (UnsentReason::TooLarge | UnsentReason::Gone, None) => {
                    put_back.remove(&it.delivery);
                }
            }
        }
        self.close();
    }

    fn close(&mut self) {
        self.open = None;
        self.before = HashMap::new();
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
