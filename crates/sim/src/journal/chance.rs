//! The one source of chance of a run.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xorshift::XorShiftRng;

/// Everything random in a run comes from here, so that its seed decides it.
pub(super) struct Chance(XorShiftRng);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(XorShiftRng::seed_from_u64(seed))
    }

    /// Whether something of this probability happens.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.0.random::<f64>() < probability
    }

    /// A number from `low` through `high`.
    pub(super) fn within(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high.max(low))
    }

    /// As [`Chance::within`], for counts and indexes.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.0.random_range(0..len.max(1))
    }

    /// A time from `low` through `high` milliseconds.
    pub(super) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.within(low, high))
    }

    /// A probability: often none, else up to `most`.
    pub(super) fn fault(&mut self, share: f64, most: f64) -> f64 {
        if self.happens(share) { self.0.random::<f64>() * most } else { 0.0 }
    }
}
