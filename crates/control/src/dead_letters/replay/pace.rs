//! How fast letters are put back.

use std::time::Duration;

use tokio::time::Instant;

/// Batches in a second, where the rate allows more than one letter in each.
const BATCHES_PER_SECOND: u32 = 4;
/// Most letters of a batch: one entry of the ledger names them.
const BATCH_MAX: u32 = 500;

/// The pace of a replay: so many letters in a second, and no more at once than a batch.
#[derive(Debug)]
pub(super) struct Pace {
    rate: u32,
    free_at: Instant,
}

impl Pace {
    pub(super) fn new(rate: u32, now: Instant) -> Self {
        Self { rate: rate.max(1), free_at: now }
    }

    /// Letters of a batch.
    pub(super) fn batch(&self) -> usize {
        let batch = (self.rate / BATCHES_PER_SECOND).clamp(1, BATCH_MAX);
        usize::try_from(batch).unwrap_or(1)
    }

    /// When the next batch may go, after one of so many letters was begun at `now`. What was missed is not made up for.
    pub(super) fn after(&mut self, letters: usize, now: Instant) -> Instant {
        let letters = u32::try_from(letters).unwrap_or(u32::MAX);
        self.free_at = self.free_at.max(now) + Duration::from_secs(1) * letters / self.rate;
        self.free_at
    }
}

/// Until a replay that failed is tried again, at first, and at most: each try is an entry of the ledger.
const RETRY_AFTER: Duration = Duration::from_secs(5);
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// The pauses between tries that fail in a row: each is twice as long as the one before.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) const fn new() -> Self {
        Self(RETRY_AFTER)
    }

    /// The pause after one more failure.
    pub(super) fn after_failure(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (2 * pause).min(RETRY_AFTER_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_that_stands_still_for_a_day_is_tried_some_hundred_times() {
        let (mut pauses, mut tries, mut slept) = (Pauses::new(), 0, Duration::ZERO);
        assert_eq!(Pauses::new().after_failure(), Duration::from_secs(5), "soon at first");
        while slept < Duration::from_hours(24) {
            slept += pauses.after_failure();
            tries += 1;
        }
        assert!((280..300).contains(&tries), "{tries}");
    }

    /// A47: a replay is limited in its rate: no second has more letters.
    #[test]
    fn no_second_has_more_letters_than_the_rate() {
        for rate in [1, 2, 3, 50, 999, 10_000] {
            let start = Instant::now();
            let mut pace = Pace::new(rate, start);
            let (mut at, mut sent) = (start, 0u64);
            while at < start + Duration::from_secs(10) {
                sent += pace.batch() as u64;
                at = pace.after(pace.batch(), at);
            }
            let most = u64::from(rate) * 10 + pace.batch() as u64;
            assert!(sent <= most && sent >= u64::from(rate) * 10, "{rate}: {sent}");
        }
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let start = Instant::now();
        let mut pace = Pace::new(10, start);
        let late = start + Duration::from_mins(1);
        assert_eq!(pace.after(2, late), late + Duration::from_millis(200));
        assert_eq!(pace.after(2, late), late + Duration::from_millis(400));
    }
}
