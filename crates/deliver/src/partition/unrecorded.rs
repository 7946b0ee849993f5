//! Attempts whose records wait to be appended.
//!
//! What was delivered may wait for others: its mailbox goes on already, and only the commit, which comes once in a while, waits
//! for the record. What is tried again or given up may not: its mailbox waits.

use std::time::Duration;

use mailrail_log::NewRecord;
use mailrail_mailbox::Source;
use tokio::time::Instant;

use super::Then;
use crate::config::ATTEMPTS_MAX;

/// Longest that the record of a delivered one waits for others. An append costs the broker the same for one record as for a hundred: with
/// 50 ms its part of a delivery was a third larger.
const WAIT_MAX: Duration = Duration::from_millis(250);

pub(super) struct Unrecorded {
    wait: Duration,
    waiting: Vec<(Source, NewRecord, Then)>,
    /// The first of them waits until then.
    until: Option<Instant>,
    /// A mailbox waits for one of them.
    urgent: bool,
}

impl Unrecorded {
    /// A record waits for half of the time between two commits at most, so that it holds a commit up once.
    pub(super) fn new(commit_interval: Duration) -> Self {
        let wait = WAIT_MAX.min(commit_interval / 2);
        Self { wait, waiting: Vec::new(), until: None, urgent: false }
    }

    pub(super) fn push(&mut self, source: Source, record: NewRecord, then: Then) {
        self.urgent |= matches!(then, Then::Settle(_));
        self.until.get_or_insert_with(|| Instant::now() + self.wait);
        self.waiting.push((source, record, then));
    }

    /// Whether they are to be appended now; `hurry`: whoever waits.
    pub(super) fn is_due(&self, hurry: bool, now: Instant) -> bool {
        let Some(until) = self.until else { return false };
        hurry || self.urgent || self.waiting.len() >= ATTEMPTS_MAX || now >= until
    }

    /// When they are to be appended at the latest; `None`: there are none.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Takes those of one append, oldest first.
    pub(super) fn take(&mut self) -> (Vec<NewRecord>, Vec<(Source, Then)>) {
        let count = self.waiting.len().min(ATTEMPTS_MAX);
        let taken = self.waiting.drain(..count);
        let split = taken.map(|(source, record, then)| (record, (source, then))).unzip();
        // What is left came a moment ago, and goes with the next append, at once.
        if self.waiting.is_empty() {
            (self.until, self.urgent) = (None, false);
        }
        split
    }
}
