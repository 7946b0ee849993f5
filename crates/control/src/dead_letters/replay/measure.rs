//! What metrics say of replays.

use std::sync::atomic::Ordering;

use mailrail_telemetry::{OutcomeLabels, ReplayMetrics};
use mailrail_types::{ReplayStep, Unsent, UnsentReason};

use crate::dead_letters::DeadLetters;

/// A replay that this process carries on, as metrics show it: until this is dropped.
pub(super) struct Shown {
    metrics: ReplayMetrics,
    rate: i64,
}

impl DeadLetters {
    /// So many replays are not over.
    pub(super) fn show_unfinished(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let before = self.inner.shown_unfinished.swap(count, Ordering::Relaxed);
        // Other pipelines of the process have theirs in the same gauge.
        self.inner.metrics.unfinished.inc_by(count - before);
    }

    /// A replay is carried on, with `rate` letters a second.
    pub(super) fn show_running(&self, rate: u32) -> Shown {
        let (metrics, rate) = (self.inner.metrics.clone(), i64::from(rate));
        metrics.running.inc();
        metrics.rate_limit.inc_by(rate);
        Shown { metrics, rate }
    }
}

impl Shown {
    /// The dead letters were looked through from the offset `from` on, as `step` says.
    pub(super) fn looked(&self, from: u64, step: &ReplayStep) {
        self.metrics.looked.inc_by(step.next.saturating_sub(from));
        self.count("skipped", step.skipped);
        self.count("unreadable", step.unreadable);
    }

    /// So many `letters` are in their mailboxes again, but for `unsent`.
    pub(super) fn put_back(&self, letters: usize, unsent: &[Unsent]) {
        let undecided = unsent.iter().filter(|it| it.reason == UnsentReason::Undecided).count();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.count("put_back", number(letters.saturating_sub(unsent.len())));
        self.count("failed", number(unsent.len() - undecided));
        self.count("undecided", number(undecided));
    }

    fn count(&self, outcome: &'static str, letters: u64) {
        if letters > 0 {
            self.metrics.letters.get_or_create(&OutcomeLabels { outcome }).inc_by(letters);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.metrics.running.dec();
        self.metrics.rate_limit.dec_by(self.rate);
    }
}
