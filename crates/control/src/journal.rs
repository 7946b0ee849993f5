//! What is parked: the journal of a partition, read as its owner reads it at a takeover.
//!
//! Reading starts at the snapshot that was committed with the position. What is parked was mostly written before that, and is
//! not read: the snapshot says how much there is, and where.

use std::ops::ControlFlow;

use mailrail_log::{Bounds, Readers, StoredRecord};
use mailrail_mailbox::{Backlog, Fold, Hold, Place};
use mailrail_types::Timestamp;
use mailrail_wire::decode_entry;

use crate::reading::{Budget, Ended, Part, read};

/// Parked deliveries of a partition whose age is looked up in the journal; of the others it is known that they are not
/// younger than the next one of these.
const DATED_MAX: usize = 8;

/// A journal partition as it was found.
#[derive(Debug, Clone)]
pub(crate) struct JournalHead {
    pub(crate) topic: String,
    pub(crate) bounds: Bounds,
    /// Where reading starts: the committed snapshot, or the start of the journal.
    pub(crate) from: Place,
}

impl JournalHead {
    pub(crate) fn new(topic: &str, bounds: Bounds, snapshot: Option<Place>) -> Self {
        let from = snapshot.filter(|at| (bounds.low..bounds.high).contains(at)).unwrap_or(bounds.low);
        Self { topic: topic.to_owned(), bounds, from }
    }

    /// Entries that are read of it.
    pub(crate) fn len(&self) -> u64 {
        self.bounds.high - self.from
    }
}

/// What a journal says.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) fold: Fold,
    /// When entries were written, by place; not of all.
    written: Vec<(Place, Timestamp)>,
}

impl Journal {
    /// Nothing is parked.
    pub(crate) fn empty() -> Self {
        Self { fold: Fold::new(0), written: Vec::new() }
    }

    /// Reads the journal from its committed snapshot to the end that `head` knows, and gives each record to `each`, too. When
    /// it was cut it is what was parked at some moment before.
    pub(crate) async fn read(
        readers: &dyn Readers,
        head: &JournalHead,
        partition: u32,
        budget: &mut Budget,
        mut each: impl FnMut(&StoredRecord),
    ) -> (Self, Ended) {
        let mut journal = Self { fold: Fold::new(head.from), written: Vec::new() };
        let mut unreadable = None;
        let part = Part { topic: &head.topic, partition };
        let ended = read(readers, part, head.from..head.bounds.high, budget, |record| {
            match decode_entry(&record.value) {
                Ok((entry, _)) => {
                    journal.fold.apply(record.offset, &entry);
                    journal.written.push((record.offset, record.appended_at));
                    each(record);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    unreadable =
                        Some(format!("entry {} of {} cannot be read: {error}", record.offset, head.topic));
                    ControlFlow::Break(())
                }
            }
        });
        let ended = ended.await;
        let ended = unreadable.map_or(ended, Ended::Failed);
        if ended == Ended::Whole && head.from > 0 && head.len() > 0 && journal.fold.snapshot().is_none() {
            let topic = &head.topic;
            let lost = format!("{topic}, partition {partition}, begins at {} without a snapshot", head.from);
            return (journal, Ended::Failed(lost));
        }
        (journal, ended)
    }

    /// Looks up when some of what is parked was written, evenly spread, the oldest among them.
    pub(crate) async fn date(
        &mut self,
        readers: &dyn Readers,
        head: &JournalHead,
        partition: u32,
        budget: &mut Budget,
    ) {
        let mut places: Vec<Place> =
            self.fold.backlogs().filter_map(|(_, backlog)| first_place(backlog)).collect();
        places.retain(|place| (head.bounds.low..head.from).contains(place));
        places.sort_unstable();
        places.dedup();
        let step = places.len().div_ceil(DATED_MAX).max(1);
        let part = Part { topic: &head.topic, partition };
        let mut dated = Vec::new();
        for place in places.into_iter().step_by(step) {
            let ended = read(readers, part, place..head.from, budget, |record| {
                dated.push((place, record.appended_at));
                ControlFlow::Break(())
            });
            if ended.await != Ended::Whole {
                break;
            }
        }
        dated.append(&mut self.written);
        self.written = dated;
    }

    /// When the entry at `place` had been written at the latest; `None` when nothing was read.
    pub(crate) fn written_by(&self, place: Place) -> Option<Timestamp> {
        let at = self.written.partition_point(|(at, _)| *at < place);
        self.written.get(at).or_else(|| self.written.last()).map(|(_, written)| *written)
    }
}

/// Deliveries that a backlog owes, those set aside included.
pub(crate) fn owed(backlog: &Backlog) -> u64 {
    backlog.queued() + backlog.asides.len() as u64
}

/// What the first delivery of a backlog waits for; where nothing but deliveries set aside is owed, the soonest of them. `None`
/// when it has its turn.
pub(crate) fn hold(backlog: &Backlog) -> Option<Hold> {
    if backlog.queued() > 0 {
        return backlog.head.as_ref().map(|head| head.hold);
    }
    backlog.asides.values().map(|aside| aside.head.hold).min_by_key(|hold| hold.until)
}

/// Where the first content stands that a backlog still needs, or shortly before that.
pub(crate) fn first_place(backlog: &Backlog) -> Option<Place> {
    let stretches = backlog.stretches.iter().filter(|stretch| !stretch.is_drained());
    stretches.map(|stretch| stretch.next.at).chain(backlog.asides.values().map(|aside| aside.content)).min()
}

/// Whether a backlog holds the delivery, or held it: such a record of the deliveries is counted in the journal.
pub(crate) fn covers(backlog: &Backlog, source: u64) -> bool {
    backlog.asides.contains_key(&source) || backlog.stretches.iter().any(|stretch| stretch.covers(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_dated_by_the_next_one_whose_time_is_known() {
        let at = |seconds| Timestamp::from_secs(seconds);
        let written = vec![(10, at(1)), (20, at(2)), (30, at(3))];
        let journal = Journal { fold: Fold::new(0), written };
        for (place, by) in [(0, 1), (10, 1), (11, 2), (20, 2), (30, 3), (99, 3)] {
            assert_eq!(journal.written_by(place), Some(at(by)), "{place}");
        }
        assert_eq!(Journal::empty().written_by(0), None);
    }

    #[test]
    fn reading_starts_at_the_committed_snapshot_where_that_still_is() {
        let bounds = Bounds { low: 10, high: 30 };
        let from = |snapshot| JournalHead::new("j", bounds, snapshot).from;
        assert_eq!(
            [from(None), from(Some(9)), from(Some(10)), from(Some(29)), from(Some(30))],
            [10, 10, 10, 29, 10]
        );
    }
}
