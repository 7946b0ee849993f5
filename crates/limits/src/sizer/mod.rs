//! What roles use: count a payload, ask how wide its mailboxes are. Neither can fail.

mod breaker;
mod counts;
mod flush;
mod refresh;
mod table;
#[cfg(test)]
mod tests;
mod tracked;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use mailrail_policy::{SizingOptions, next_width};
use mailrail_types::Timestamp;

use self::breaker::Breaker;
use self::counts::Counting;
pub use self::counts::Counts;
pub use self::flush::FLUSH_EVERY;
use self::table::Table;
use self::tracked::Look;
use crate::{Counter, Windows};

/// Longest that a caller waits for the store. The door's p99 may grow by this much and no more.
pub const READ_BUDGET: Duration = Duration::from_millis(50);

/// How long a reading is used. Own payloads are added to it at once; those of other processes show this much later.
pub const CACHED_FOR: Duration = Duration::from_secs(1);

/// After a failure nobody waits for the store again for this long.
pub const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Most counters that are known at a time; some 400 bytes each. Above it those that were not used for longest go, with
/// what they had not written yet.
pub const COUNTERS_MAX: usize = 65_536;

/// The time now.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A width, and why it is that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizing {
    /// Over how many mailboxes to split.
    pub width: u32,
    /// Whether it follows from counts; otherwise it is the cap, because the counts could not be had.
    pub known: bool,
    /// Payloads of the window that it follows from.
    pub payloads: Option<u64>,
}

/// Counts payloads and sizes mailboxes. A cheap clone; one for each store and process.
///
/// Someone must run [`Sizer::run`], which writes what was counted.
#[derive(Clone)]
pub struct Sizer {
    inner: Arc<Inner>,
}

struct Inner {
    windows: Arc<dyn Windows>,
    clock: Clock,
    table: Table,
    breaker: Breaker,
    counting: Counting,
    /// Whether the store took the last flush.
    flushed: AtomicBool,
}

impl Sizer {
    /// A sizer over `windows` that knows nothing yet.
    #[must_use]
    pub fn new(windows: Arc<dyn Windows>, clock: Clock) -> Self {
        Self::with_room_for(windows, clock, COUNTERS_MAX)
    }

    /// As [`Sizer::new`], for about `counters_max` counters.
    #[must_use]
    pub fn with_room_for(windows: Arc<dyn Windows>, clock: Clock, counters_max: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                windows,
                clock,
                table: Table::new(counters_max),
                breaker: Breaker::default(),
                counting: Counting::default(),
                flushed: AtomicBool::new(true),
            }),
        }
    }

    /// Counts one payload. Call it exactly once for each admitted payload that could use a split: not for one that was
    /// rejected or shed, not for a strict class, and not again for each target of a fan-out.
    ///
    /// Takes a short lock and does no I/O. [`Sizer::width`] includes it from now on.
    pub fn count(&self, counter: &Counter) {
        let inner = &self.inner;
        let now = (inner.clock)();
        let dropped = inner.table.count(counter, now);
        inner.counting.counts_dropped(dropped);
    }

    /// How many mailboxes the payloads of `counter` are split over now.
    ///
    /// Answers within [`READ_BUDGET`], mostly without waiting. Whatever goes wrong, it is the cap of `options` and counted
    /// in [`Counts::sizing_unavailable`]. It is never narrower because of an outage.
    pub async fn width(&self, counter: &Counter, options: &SizingOptions) -> Sizing {
        // The innermost parts catch panics of the client. This one is for whatever else: the caller holds a payload.
        let known = AssertUnwindSafe(self.known(counter, options)).catch_unwind().await.unwrap_or(None);
        known.unwrap_or_else(|| {
            self.inner.counting.unavailable();
            Sizing { width: next_width(None, None, options), known: false, payloads: None }
        })
    }

    async fn known(&self, counter: &Counter, options: &SizingOptions) -> Option<Sizing> {
        match self.look(counter, options) {
            Look::Known(sizing) => Some(sizing),
            Look::Failed => None,
            Look::Stale => {
                self.refresh(counter).await;
                match self.look(counter, options) {
                    Look::Known(sizing) => Some(sizing),
                    Look::Failed | Look::Stale => None,
                }
            }
        }
    }

    fn look(&self, counter: &Counter, options: &SizingOptions) -> Look {
        let now = (self.inner.clock)();
        let (look, dropped) = self.inner.table.look(counter, now, options);
        self.inner.counting.counts_dropped(dropped);
        look
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner.counting.read(self.inner.table.len())
    }

    /// Whether the store took the last flush.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.inner.flushed.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Sizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sizer").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// Whether `at` is less than `within` away from `now`, on either side: a clock that is set back must not freeze anything.
fn is_recent(at: Timestamp, now: Timestamp, within: Duration) -> bool {
    now.since(at).max(at.since(now)) < within
}
