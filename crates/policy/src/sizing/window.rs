//! The rolling window: counters of three minutes each, and what they say about the last fifteen.

use std::time::Duration;

use mailrail_types::Timestamp;

/// Length of one counter.
pub const SHARD: Duration = Duration::from_mins(3);

/// Counters that make up a window.
pub const SHARDS: usize = 5;

/// The time that a reading covers.
pub const WINDOW: Duration = Duration::from_mins(15);

/// Counters that a reading looks at: those of a full window and the one that is leaving it.
pub const COUNTERS_READ: usize = SHARDS + 1;

/// How long a counter lives after its last write; set again with every write.
///
/// A counter is weighed until [`COUNTERS_READ`] shards after its start, and its only write may have been its first
/// moment, so it may not expire earlier than 1,080 s after a write. It is written only while it is current, under 180 s
/// after its start, so nothing of it is left 1,260 s after its start.
pub const COUNTER_TTL: Duration = Duration::from_mins(18);

/// What the counters of one sender say at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowReading {
    /// When they were read; tells which shard is current and how much of it has passed.
    pub at: Timestamp,
    /// Payloads counted in the current shard, then in each older one. A missing counter is 0.
    pub shards: [u64; COUNTERS_READ],
}

/// The number of the shard that `now` lies in: whole shards since the epoch.
#[must_use]
pub fn shard_number(now: Timestamp) -> i64 {
    now.millis().div_euclid(SHARD_MILLIS)
}

/// When a shard begins; it ends where the next one begins.
#[must_use]
pub fn shard_start(shard: i64) -> Timestamp {
    Timestamp(shard.saturating_mul(SHARD_MILLIS))
}

impl WindowReading {
    /// Payloads of the last [`WINDOW`]: the five newest counters, and of the sixth the share that still lies in the
    /// window, as if its payloads had come evenly. Rounded down.
    ///
    /// Without the sixth the sum would cover 12 minutes after a shard rolled and 15 before it rolls, and read a steady
    /// sender a quarter higher at the end of a shard than at its start.
    #[must_use]
    pub fn payloads(&self) -> u64 {
        let unelapsed = SHARD_MILLIS.abs_diff(self.at.millis().rem_euclid(SHARD_MILLIS));
        let leaving =
            u128::from(self.shards[SHARDS]) * u128::from(unelapsed) / u128::from(SHARD_MILLIS.unsigned_abs());
        self.plain_payloads().saturating_add(u64::try_from(leaving).unwrap_or(u64::MAX))
    }

    /// The sum that the original rule goes by: the five newest counters, 12 to 15 minutes.
    #[must_use]
    pub fn plain_payloads(&self) -> u64 {
        self.shards[..SHARDS].iter().fold(0, |sum, &count| sum.saturating_add(count))
    }
}

/// [`SHARD`] in the unit of [`Timestamp`].
const SHARD_MILLIS: i64 = 180_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(secs: i64, shards: [u64; COUNTERS_READ]) -> WindowReading {
        WindowReading { at: Timestamp::from_secs(secs), shards }
    }

    /// Counters of payloads that came at these times, as they are read at `now`.
    fn counted(now: i64, arrivals: &[(i64, u64)]) -> WindowReading {
        let current = shard_number(Timestamp::from_secs(now));
        let mut shards = [0; COUNTERS_READ];
        for (secs, payloads) in arrivals {
            let age = current - shard_number(Timestamp::from_secs(*secs));
            if let Some(count) = usize::try_from(age).ok().and_then(|age| shards.get_mut(age)) {
                *count += payloads;
            }
        }
        reading(now, shards)
    }

    #[test]
    fn the_constants_agree() {
        assert_eq!(SHARD.as_millis(), u128::from(SHARD_MILLIS.unsigned_abs()));
        assert_eq!(SHARD * u32::try_from(SHARDS).expect("small"), WINDOW);
    }

    /// S07: the oldest counter is alive for as long as it is weighed, and none at 1,261 s.
    #[test]
    fn s07_the_expiry_is_a_bound() {
        assert!(COUNTER_TTL > WINDOW && COUNTER_TTL <= Duration::from_secs(1080));
        let only_write = shard_start(7);
        let weighed_until = shard_start(7 + i64::try_from(COUNTERS_READ).expect("small"));
        assert!(only_write.plus(COUNTER_TTL) >= weighed_until);
        let last_write = Timestamp(shard_start(8).millis() - 1);
        assert!(last_write.plus(COUNTER_TTL) < shard_start(7).plus(Duration::from_secs(1261)));
    }

    #[test]
    fn a_shard_is_numbered_from_the_epoch() {
        let number = |secs| shard_number(Timestamp::from_secs(secs));
        assert_eq!([0, 179, 180, 1_700_000_000, -1].map(number), [0, 0, 1, 9_444_444, -1]);
        assert_eq!(shard_start(9_444_444), Timestamp::from_secs(1_699_999_920));
        assert_eq!(shard_number(Timestamp(179_999)), 0);
    }

    /// S06: seven payloads four shards ago and one now are eight.
    #[test]
    fn s06_seven_payloads_four_shards_ago_and_one_now_are_eight() {
        for now in [720, 800, 899] {
            let reading = counted(now, &[(0, 7), (now, 1)]);
            assert_eq!((reading.payloads(), reading.plain_payloads()), (8, 8), "at {now} s");
        }
    }

    /// S06: the plain sum drops a counter at once when it is five shards old; ours lets it go over three minutes.
    #[test]
    fn s06_a_counter_leaves_the_window() {
        let at = |now| counted(now, &[(0, 10_000)]);
        assert_eq!([899, 900, 1079].map(|now| at(now).plain_payloads()), [10_000, 0, 0]);
        assert_eq!(
            [899, 900, 945, 990, 1079, 1080].map(|now| at(now).payloads()),
            [10_000, 10_000, 7_500, 5_000, 55, 0]
        );
    }

    /// S06: 2,900 at 11:59 and 2,900 at 12:01: a gate that counts by the hour sees neither.
    #[test]
    fn s06_a_burst_over_an_hour_boundary_is_whole() {
        let noon = 1_767_268_800;
        assert_eq!(noon % 86_400, 43_200);
        let reading = counted(noon + 60, &[(noon - 60, 2_900), (noon + 60, 2_900)]);
        assert_eq!((reading.payloads(), reading.plain_payloads()), (5_800, 5_800));
    }

    proptest! {
        /// S12: a sender that is even over shards reads the same at every moment; that is what the weight is for.
        #[test]
        fn s12_an_even_sender_reads_the_same_at_any_moment(millis in 0i64..180_000, per_shard in 0u64..1_000_000) {
            let elapsed = u64::try_from(millis).expect("positive");
            let current = per_shard * elapsed / 180_000;
            let mut shards = [per_shard; COUNTERS_READ];
            shards[0] = current;
            let payloads = WindowReading { at: Timestamp(millis), shards }.payloads();
            prop_assert!(payloads.abs_diff(5 * per_shard) <= 1, "{payloads} for {}", 5 * per_shard);
        }

        #[test]
        fn no_counts_overflow(millis in any::<i64>(), shards in any::<[u64; COUNTERS_READ]>()) {
            let reading = WindowReading { at: Timestamp(millis), shards };
            prop_assert!(reading.payloads() >= reading.plain_payloads());
            prop_assert!(reading.payloads() >= shards[0]);
            let _ = shard_start(shard_number(reading.at));
        }
    }
}
