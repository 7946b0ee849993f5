//! After a failure nobody waits for the store for a while; then one caller tries.

use std::sync::atomic::{AtomicI64, Ordering};

use mailrail_types::Timestamp;

use super::{PAUSE_AFTER_FAILURE, is_recent};

/// Closed while the store answers. Open for [`PAUSE_AFTER_FAILURE`] after an outage was seen, then again after each try
/// that one caller is let through for, until one succeeds.
pub(super) struct Breaker {
    /// When it was opened, or [`CLOSED`].
    opened_at: AtomicI64,
}

const CLOSED: i64 = i64::MIN;

impl Default for Breaker {
    fn default() -> Self {
        Self { opened_at: AtomicI64::new(CLOSED) }
    }
}

impl Breaker {
    /// Whether the caller may ask the store. While it is open this is true once in each pause.
    pub(super) fn admits(&self, now: Timestamp) -> bool {
        let opened_at = self.opened_at.load(Ordering::Relaxed);
        if opened_at == CLOSED {
            return true;
        }
        if is_recent(Timestamp(opened_at), now, PAUSE_AFTER_FAILURE) {
            return false;
        }
        self.opened_at.compare_exchange(opened_at, now.millis(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(super) fn open(&self, now: Timestamp) {
        self.opened_at.store(now.millis(), Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.opened_at.store(CLOSED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s13_one_caller_tries_in_each_pause() {
        let breaker = Breaker::default();
        let at = |ms: i64| Timestamp(1_000_000 + ms);
        assert!(breaker.admits(at(0)) && breaker.admits(at(0)));
        breaker.open(at(0));
        assert!(!breaker.admits(at(0)) && !breaker.admits(at(999)));
        assert!(breaker.admits(at(1_000)));
        assert!(!breaker.admits(at(1_000)) && !breaker.admits(at(1_999)), "one try only");
        assert!(breaker.admits(at(2_000)));
        breaker.close();
        assert!(breaker.admits(at(2_001)) && breaker.admits(at(2_001)));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_it_open() {
        let breaker = Breaker::default();
        breaker.open(Timestamp(10_000_000));
        assert!(breaker.admits(Timestamp(5_000_000)));
    }
}
