//! The counters of one sender, kept as a counter store keeps them.

use mailrail_policy::{COUNTERS_READ, WindowReading, shard_number};
use mailrail_types::Timestamp;

/// The counters that a reading looks at, current one first.
#[derive(Debug, Default)]
pub(super) struct Counters {
    current: i64,
    shards: [u64; COUNTERS_READ],
}

impl Counters {
    /// Counts one payload and reads, as the front door does for each payload. Time only goes on.
    pub(super) fn count(&mut self, now: Timestamp) -> WindowReading {
        let shard = shard_number(now);
        let rolled = usize::try_from(shard - self.current).unwrap_or(0).min(COUNTERS_READ);
        self.shards.rotate_right(rolled);
        self.shards[..rolled].fill(0);
        self.current = shard;
        self.shards[0] += 1;
        WindowReading { at: now, shards: self.shards }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven payloads four shards ago and one now.
    #[test]
    fn s06_counters_roll() {
        let mut counters = Counters::default();
        let mut at = |secs| counters.count(Timestamp::from_secs(secs)).shards;
        for n in 1..=7 {
            assert_eq!(at(10), [n, 0, 0, 0, 0, 0]);
        }
        assert_eq!(at(730), [1, 0, 0, 0, 7, 0]);
        assert_eq!(at(900), [1, 1, 0, 0, 0, 7]);
        assert_eq!(at(1080), [1, 1, 1, 0, 0, 0]);
        assert_eq!(at(1_000_000), [1, 0, 0, 0, 0, 0]);
    }
}
