//! What a sizer counts about itself, for metrics.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use mailrail_types::Timestamp;

use super::is_recent;

/// How often failures are logged: one store away fails thousands of reads in a second.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Totals since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Times that a width was the cap because the window was not known.
    pub sizing_unavailable: u64,
    /// Payloads that are missing in the window: their write may or may not have been applied, they came from too long ago,
    /// there was no room for their counter, or the process stopped before the store took them. No event is lost with them.
    pub counts_dropped: u64,
    /// Reads of the store that failed.
    pub reads_failed: u64,
    /// Single writes to the store that failed.
    pub writes_failed: u64,
    /// Counters known now.
    pub counters: u64,
}

pub(super) struct Counting {
    sizing_unavailable: AtomicU64,
    counts_dropped: AtomicU64,
    reads_failed: AtomicU64,
    writes_failed: AtomicU64,
    logged_at: AtomicI64,
}

impl Default for Counting {
    fn default() -> Self {
        Self {
            sizing_unavailable: AtomicU64::default(),
            counts_dropped: AtomicU64::default(),
            reads_failed: AtomicU64::default(),
            writes_failed: AtomicU64::default(),
            logged_at: AtomicI64::new(i64::MIN),
        }
    }
}

impl Counting {
    /// Whether a failure is to be logged.
    pub(super) fn is_log_due(&self, now: Timestamp) -> bool {
        let logged_at = self.logged_at.load(Ordering::Relaxed);
        !is_recent(Timestamp(logged_at), now, LOGGED_EVERY)
            && self
                .logged_at
                .compare_exchange(logged_at, now.millis(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    pub(super) fn unavailable(&self) {
        self.sizing_unavailable.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts_dropped(&self, count: u64) {
        if count > 0 {
            self.counts_dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(super) fn read_failed(&self) {
        self.reads_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn write_failed(&self) {
        self.writes_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, counters: usize) -> Counts {
        Counts {
            sizing_unavailable: self.sizing_unavailable.load(Ordering::Relaxed),
            counts_dropped: self.counts_dropped.load(Ordering::Relaxed),
            reads_failed: self.reads_failed.load(Ordering::Relaxed),
            writes_failed: self.writes_failed.load(Ordering::Relaxed),
            counters: u64::try_from(counters).unwrap_or(u64::MAX),
        }
    }
}
