//! When the payloads of a sender arrive.

use mailrail_types::Timestamp;
use rand::RngExt;
use rand_xorshift::XorShiftRng;

const MINUTE_MILLIS: f64 = 60_000.0;
/// A sender begins anywhere in its first three minutes, so that not all of them begin where a counter does.
const BEGIN_MILLIS: f64 = 180_000.0;

/// How the gaps between payloads are spread around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps are equal.
    Steady,
    /// Independent payloads: gaps are exponential (a Poisson process).
    Poisson,
}

impl Arrivals {
    /// Arrival times of a sender of `per_minute` payloads, without end.
    pub(super) fn times(self, per_minute: f64, mut random: XorShiftRng) -> impl Iterator<Item = Timestamp> {
        let gap = MINUTE_MILLIS / per_minute;
        let begin = random.random::<f64>() * BEGIN_MILLIS;
        // Steady times are multiples, not sums: a sum would drift away from the rate.
        let mut at = begin;
        (0_u32..).map(move |n| {
            at = match self {
                Arrivals::Steady => begin + f64::from(n) * gap,
                Arrivals::Poisson => at - gap * (1.0 - random.random::<f64>()).ln(),
            };
            Timestamp(at as i64)
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn times(arrivals: Arrivals, per_minute: f64) -> Vec<i64> {
        let random = XorShiftRng::seed_from_u64(7);
        arrivals.times(per_minute, random).take(10_000).map(Timestamp::millis).collect()
    }

    #[test]
    fn both_keep_their_rate_and_only_one_its_gaps() {
        for arrivals in [Arrivals::Steady, Arrivals::Poisson] {
            let at = times(arrivals, 30.0);
            assert!(at.is_sorted() && at[0] >= 0);
            let mean = (at[9_999] - at[0]) as f64 / 9_999.0;
            assert!((mean - 2_000.0).abs() < 100.0, "{arrivals:?}: a gap of {mean} ms");
            let even = at.windows(2).filter(|two| (two[1] - two[0] - 2_000).abs() <= 1).count();
            assert_eq!(even == 9_999, arrivals == Arrivals::Steady);
        }
    }
}
