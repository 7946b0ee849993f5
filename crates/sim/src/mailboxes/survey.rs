//! Many senders, their rates spread evenly over a logarithmic scale.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rand::{RngExt, SeedableRng};
use rand_xorshift::XorShiftRng;

use super::{Arrivals, Changes, width_changes};

/// Slowest sender, payloads per minute: at 2.13 a steady one begins to reach the second bucket.
pub const RATE_MIN: f64 = 2.0;
/// Fastest sender, payloads per minute: at 68.3 a steady one is at the cap, where nothing changes any more.
pub const RATE_MAX: f64 = 64.0;

/// Told apart from the seed of any rate, and odd, so that seeds of different surveys do not meet.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survey {
    /// How many senders.
    pub rates: u32,
    /// Virtual hours of each, after its warm-up.
    pub hours: u32,
    /// Decides the rates and the arrivals.
    pub seed: u64,
}

/// One rate, and how often the width of a sender of it changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Payloads per minute.
    pub rate: f64,
    /// With equal gaps.
    pub steady: Changes,
    /// With exponential gaps.
    pub poisson: Changes,
}

impl Survey {
    /// Simulates every sender, on all processors; calls `progress` with the number of senders done. Samples are in order of
    /// their rates, and the same whatever the number of processors.
    pub fn run(&self, progress: impl Fn(u32) + Sync) -> Vec<Sample> {
        let (next, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let some = || {
            let mut samples = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= self.rates {
                    return samples;
                }
                samples.push((at, self.sample(at)));
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut samples: Vec<(u32, Sample)> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
            let mut samples = some();
            for other in others {
                // A panic of a simulation is a panic of the survey.
                samples.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            samples
        });
        samples.sort_by_key(|(at, _)| *at);
        samples.into_iter().map(|(_, sample)| sample).collect()
    }

    /// One rate of each equal step of the logarithmic scale, anywhere in its step.
    fn sample(&self, at: u32) -> Sample {
        let mut random =
            XorShiftRng::seed_from_u64(self.seed.wrapping_mul(SEED_STEP).wrapping_add(u64::from(at)));
        let position = (f64::from(at) + random.random::<f64>()) / f64::from(self.rates);
        let rate = RATE_MIN * (RATE_MAX / RATE_MIN).powf(position);
        let mut changes =
            |arrivals| width_changes(rate, arrivals, self.hours, XorShiftRng::seed_from_u64(random.random()));
        Sample { rate, steady: changes(Arrivals::Steady), poisson: changes(Arrivals::Poisson) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survey_is_decided_by_its_seed() {
        let survey = |seed| Survey { rates: 8, hours: 1, seed }.run(|_| ());
        assert_eq!(survey(3), survey(3));
        assert_ne!(survey(3), survey(4));
        let rates: Vec<f64> = survey(3).iter().map(|sample| sample.rate).collect();
        assert!(rates.is_sorted() && rates[0] >= RATE_MIN && rates[7] <= RATE_MAX, "{rates:?}");
    }
}
