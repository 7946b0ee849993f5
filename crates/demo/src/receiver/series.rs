//! Counts what the numbers of an endpoint's deliveries tell: gaps, changes of order, repetitions. Pure.

use std::collections::HashMap;

use super::receipt::Counts;
use super::sequence::{Epoch, Sequence};

/// The numbers of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Highest number of every key in every epoch.
    numbers: HashMap<(u64, Epoch), u64>,
    /// Highest offset of every key in every partition.
    offsets: HashMap<(u64, u32), u64>,
}

impl Series {
    /// Takes the number of a request; `before` is the number of the request before it of the same delivery. False when
    /// more than `series_max` series would have to be told apart: then nothing was counted.
    pub(crate) fn take(
        &mut self,
        sequence: Sequence,
        before: Option<Sequence>,
        series_max: usize,
        counts: &mut Counts,
    ) -> bool {
        let Sequence { number, key, epoch, offset } = sequence;
        if !self.numbers.contains_key(&(key, epoch)) && self.numbers.len() >= series_max {
            return false;
        }
        let highest = self.numbers.entry((key, epoch)).or_default();
        if number > *highest {
            counts.sequence_gaps += number - *highest - 1;
            *highest = number;
        } else if before.is_none_or(|before| (before.epoch, before.number) != (epoch, number)) {
            // It was missing and comes late. A delivery has another number in another epoch.
            counts.sequence_gaps = counts.sequence_gaps.saturating_sub(1);
        }
        // As many partitions as epochs at most, so the same limit holds for offsets.
        let highest = self.offsets.entry((key, epoch.partition)).or_default();
        match before {
            None => counts.sequence_reordered += u64::from(offset < *highest),
            Some(before) => {
                let same = (before.epoch.partition, before.offset) == (epoch.partition, offset);
                counts.sequence_repeated += u64::from(same);
            }
        }
        *highest = offset.max(*highest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of requests, each (delivery, claim of its epoch, number, offset), all of one key in one partition.
    fn counts(requests: &[(&str, u64, u64, u64)]) -> (u64, u64, u64) {
        let (mut series, mut counts, mut known) = (Series::default(), Counts::default(), HashMap::new());
        for &(delivery, claim, number, offset) in requests {
            let sequence =
                Sequence { number, key: 7, epoch: Epoch { partition: 0, claim, series: 0 }, offset };
            assert!(series.take(sequence, known.insert(delivery, sequence), 100, &mut counts));
        }
        (counts.sequence_gaps, counts.sequence_reordered, counts.sequence_repeated)
    }

    #[test]
    fn n06_what_comes_in_order_counts_nothing() {
        assert_eq!(counts(&[("a", 9, 1, 40), ("b", 9, 2, 45), ("c", 9, 3, 46)]), (0, 0, 0));
        // Attempts are repetitions, of the same number.
        assert_eq!(counts(&[("a", 9, 1, 40), ("a", 9, 1, 40), ("b", 9, 2, 45)]), (0, 0, 1));
    }

    #[test]
    fn n06_a_new_epoch_begins_at_one_and_may_send_the_last_again() {
        assert_eq!(counts(&[("a", 9, 1, 40), ("b", 9, 2, 45), ("c", 50, 1, 46)]), (0, 0, 0));
        assert_eq!(
            counts(&[("a", 9, 1, 40), ("b", 9, 2, 45), ("b", 50, 1, 45), ("c", 50, 2, 46)]),
            (0, 0, 1)
        );
    }

    #[test]
    fn n06_a_gap_is_what_has_not_come() {
        assert_eq!(counts(&[("a", 9, 1, 40), ("d", 9, 4, 47)]), (2, 0, 0));
        // What comes late was no gap but a change of order.
        assert_eq!(counts(&[("a", 9, 1, 40), ("c", 9, 3, 46), ("b", 9, 2, 45)]), (0, 1, 0));
        assert_eq!(counts(&[("a", 9, 1, 40), ("c", 9, 3, 46), ("b", 9, 2, 45), ("b", 9, 2, 45)]), (0, 1, 1));
        // The first of an epoch is missing too when the second has come.
        assert_eq!(counts(&[("b", 9, 2, 45)]), (1, 0, 0));
    }

    #[test]
    fn n06_an_epoch_that_overtakes_another_is_seen_by_the_offset() {
        // A new owner sends 46, then the request of the old one for 45 arrives.
        assert_eq!(counts(&[("a", 9, 1, 40), ("c", 50, 1, 46), ("b", 9, 2, 45)]), (0, 1, 0));
    }

    #[test]
    fn n06_a_delivery_that_match_wrote_twice_is_no_change_of_order() {
        assert_eq!(
            counts(&[("a", 9, 1, 40), ("b", 9, 2, 45), ("a", 9, 3, 46), ("a", 50, 1, 40), ("a", 50, 2, 46)]),
            (0, 0, 0)
        );
    }

    #[test]
    fn n06_partitions_and_keys_have_nothing_to_do_with_each_other() {
        let (mut series, mut counts) = (Series::default(), Counts::default());
        for (partition, key, offset) in [(0, 1, 90), (1, 1, 5), (0, 2, 3)] {
            let epoch = Epoch { partition, claim: 9, series: 0 };
            assert!(series.take(Sequence { number: 1, key, epoch, offset }, None, 100, &mut counts));
        }
        assert_eq!(counts, Counts::default());
    }

    #[test]
    fn n06_memory_is_bounded() {
        let (mut series, mut counts) = (Series::default(), Counts::default());
        let mut take = |key, number| {
            let epoch = Epoch { partition: 0, claim: 9, series: 0 };
            series.take(Sequence { number, key, epoch, offset: number }, None, 2, &mut counts)
        };
        assert!(take(1, 1) && take(2, 1) && !take(3, 5) && take(1, 2));
        assert_eq!((series.numbers.len(), series.offsets.len()), (2, 2));
        assert_eq!(counts, Counts::default());
    }
}
