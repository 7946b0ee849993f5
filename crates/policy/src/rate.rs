//! How often: a rate with a burst, as the generic cell rate algorithm has it (ITU-T I.371).

use mailrail_types::Timestamp;

/// A rate of things, of which some may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Between two things at the full rate, in microseconds.
    interval: i64,
    /// How far ahead of the rate a burst may be, in microseconds.
    tolerance: i64,
}

impl Rate {
    /// So many a second, of which one second's worth may come at once. Zero is taken as one.
    #[must_use]
    pub fn per_second(count: u32) -> Self {
        let interval = 1_000_000 / i64::from(count.max(1));
        Self { interval, tolerance: 1_000_000 - interval }
    }
}

/// How much of a rate was used. Whoever is refused is given a moment of its own, so that those who wait do not come back
/// together (A37).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateUse {
    /// When the next thing is due by the rate alone, in microseconds since the epoch.
    next: i64,
    /// The last moment that was given to one that was refused.
    given: i64,
}

impl RateUse {
    /// Takes one now, or says when to ask again.
    ///
    /// # Errors
    /// The moment to ask again: at the earliest when the rate allows one more, and later for each that waits already.
    pub fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), Timestamp> {
        let now = now.millis().saturating_mul(1000);
        let next = self.next.max(now);
        if next - now <= rate.tolerance {
            self.next = next + rate.interval;
            return Ok(());
        }
        let free = next - rate.tolerance;
        self.given = free.max(self.given + rate.interval).min(now + WAIT_MAX);
        Err(Timestamp(-(-self.given).div_euclid(1000)))
    }
}

/// Longest wait that is given, in microseconds: a changed rate holds for those who wait after that.
const WAIT_MAX: i64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A37: over any time no more than the rate goes, and who is over it is given a moment of its own.
    #[test]
    fn a37_the_rate_holds_over_any_time_and_who_waits_comes_back_spread() {
        let rate = Rate::per_second(50);
        let mut used = RateUse::default();
        let start = 1_000_000;
        let mut waiting: Vec<Timestamp> = vec![Timestamp(start); 300];
        let mut taken = Vec::new();
        let mut asked = 0;
        while !waiting.is_empty() {
            waiting.sort();
            let now = waiting.remove(0);
            asked += 1;
            match used.take(rate, now) {
                Ok(()) => taken.push(now.millis() - start),
                Err(again) => {
                    assert!(again > now, "never at once");
                    waiting.push(again);
                }
            }
        }
        assert_eq!(taken.len(), 300);
        assert_eq!(taken.iter().filter(|at| **at == 0).count(), 50, "the burst");
        for from in (0..5000).step_by(100) {
            let in_second = taken.iter().filter(|at| (from + 1..=from + 1000).contains(*at)).count();
            assert!(in_second <= 101, "{in_second} in the second after {from}");
        }
        let last = taken.iter().max().copied().unwrap_or(0);
        assert!((4900..=5200).contains(&last), "250 more at 50 a second: {last}");
        assert!(asked <= 300 * 3, "each was refused about once: {asked}");
    }

    #[test]
    fn what_is_below_the_rate_never_waits() {
        let rate = Rate::per_second(10);
        let mut used = RateUse::default();
        assert!((0..1000).all(|n| used.take(rate, Timestamp(n * 100)).is_ok()));
    }
}
