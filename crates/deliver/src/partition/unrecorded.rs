//! Attempts whose records wait to be appended.
//!
//! What was delivered out of the window may wait for others: its mailbox goes on already, and only the commit, which comes once in a
//! while, waits for the record. What is tried again or given up may not, nor what is of a backlog: its mailbox waits.

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

    /// `urgent`: a mailbox waits for it.
    pub(super) fn push(&mut self, source: Source, record: NewRecord, then: Then, urgent: bool) {
        self.urgent |= urgent;
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
        // What is left goes with the next append, at once: whoever waited longest has waited for a whole append already.
        self.urgent = !self.waiting.is_empty();
        if !self.urgent {
            self.until = None;
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(to: &mut Unrecorded, source: Source, urgent: bool) {
        let record = NewRecord { key: "m".into(), value: "v".into(), headers: Vec::new() };
        to.push(source, record, Then::Done, urgent);
    }

    #[tokio::test(start_paused = true)]
    async fn records_wait_for_others_until_the_first_has_waited_for_long() {
        let mut waiting = Unrecorded::new(Duration::from_secs(1));
        assert!(!waiting.is_due(true, Instant::now()), "there is none");
        let first = Instant::now();
        push(&mut waiting, 1, false);
        tokio::time::advance(WAIT_MAX / 2).await;
        push(&mut waiting, 2, false);
        assert_eq!(waiting.until(), Some(first + WAIT_MAX));
        assert!(!waiting.is_due(false, Instant::now()));
        assert!(waiting.is_due(true, Instant::now()), "nothing else can go on");
        assert!(waiting.is_due(false, first + WAIT_MAX));
        let (records, ends) = waiting.take();
        assert_eq!((records.len(), ends[0].0, ends[1].0), (2, 1, 2));
        assert_eq!(waiting.until(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn records_that_a_mailbox_waits_for_go_at_once_and_take_the_others_along() {
        let mut waiting = Unrecorded::new(Duration::from_secs(1));
        push(&mut waiting, 1, false);
        push(&mut waiting, 2, true);
        assert!(waiting.is_due(false, Instant::now()));
        assert_eq!(waiting.take().0.len(), 2);
        push(&mut waiting, 3, false);
        assert!(!waiting.is_due(false, Instant::now()), "nobody waits for that one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_goes_at_once_and_what_is_left_with_the_next() {
        let mut waiting = Unrecorded::new(Duration::from_secs(1));
        for source in 0..=ATTEMPTS_MAX as u64 {
            push(&mut waiting, source, false);
        }
        assert!(waiting.is_due(false, Instant::now()));
        assert_eq!(waiting.take().0.len(), ATTEMPTS_MAX);
        assert!(waiting.until().is_some(), "one is left");
        assert!(waiting.is_due(false, Instant::now()), "it goes at once");
        assert_eq!(waiting.take().0.len(), 1);
        push(&mut waiting, 0, false);
        assert!(!waiting.is_due(false, Instant::now()), "what comes then waits for others again");
    }

    /// A commit waits for records at most once: they wait for half of its interval.
    #[tokio::test(start_paused = true)]
    async fn quick_commits_shorten_the_wait() {
        let mut waiting = Unrecorded::new(WAIT_MAX / 5);
        let first = Instant::now();
        push(&mut waiting, 1, false);
        assert_eq!(waiting.until(), Some(first + WAIT_MAX / 10));
    }
}
