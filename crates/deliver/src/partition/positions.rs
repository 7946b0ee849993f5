//! What is done goes to the group, what is not needed any more goes from the journal, and what waits for the set-up is
//! asked again.

use std::sync::Arc;
use std::time::Duration;

use mailrail_log::{Committed, LogError};
use mailrail_mailbox::{Checkpoint, Mark, Place};
use mailrail_types::{HoldReason, Mailbox, MailboxKey};
use tokio::time::Instant;

use super::{Partition, Step};
use crate::service::Shared;
use crate::takeover::check_same_topic;

/// Between two looks at what of the journal may go.
const TRIM_INTERVAL: Duration = Duration::from_secs(30);

/// Between two looks whether the deliveries topic is still the same.
#[cfg(not(test))]
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
#[cfg(test)]
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// By which record the deliveries topic is known again.
///
/// Only one that was read before a look found the one before it still there. The newest record of all would not do: a topic that
/// was made anew and has grown beyond our position gives records too, and with one of those it would seem to be the same for ever.
#[derive(Debug)]
pub(super) struct Known {
    mark: Option<Mark>,
    /// When it is looked at again.
    at: Instant,
    /// What takes its place when the look that runs finds it.
    next: Option<Mark>,
}

impl Known {
    /// What a takeover has found.
    pub(super) fn new(mark: Option<Mark>) -> Self {
        Self { mark, at: Instant::now() + CHECK_INTERVAL, next: None }
    }
}

/// How far the journal was trimmed.
#[derive(Debug)]
pub(super) struct Trim {
    at: Instant,
    below: Place,
    running: bool,
}

impl Default for Trim {
    fn default() -> Self {
        Self { at: Instant::now() + TRIM_INTERVAL, below: 0, running: false }
    }
}

impl Partition {
    /// Puts the position down for the next commit, and looks after the journal now and then.
    pub(super) fn keep_up(&mut self) {
        self.put_position();
        // The share of an endpoint grows too when attempts of others end, of which nobody tells.
        let (places, now) = (&self.shared.places, Instant::now());
        self.protocol.call_all(self.shared.now(), |recipient| places.is_slow(recipient, now));
        self.observe();
        if !self.trim.running && Instant::now() >= self.trim.at && self.last_word.is_none() {
            self.ask_for_committed();
        }
        self.check_topic();
    }

    /// Reads a record that is done again, now and then: it must still be there.
    fn check_topic(&mut self) {
        // Not while it hands over: that waits for all tasks.
        let due = self.known.next.is_none() && self.last_word.is_none() && Instant::now() >= self.known.at;
        let Some(mark) = self.known_mark().filter(|_| due) else { return };
        self.known.next = self.mark;
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move { Step::Checked(check_same_topic(&shared, partition, mark).await) });
    }

    pub(super) fn checked(&mut self, checked: Result<(), LogError>) -> Result<(), LogError> {
        let mark = match checked {
            Ok(()) => self.known.next,
            Err(error @ LogError::OutOfRange { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(partition = self.claim.partition, %error, "the topic was not checked; tried again later");
                self.known.mark
            }
        };
        self.known = Known::new(mark);
        Ok(())
    }

    pub(super) fn put_position(&mut self) {
        let position = self.position();
        if self.put.as_ref() != Some(&position) {
            self.put = Some(position.clone());
            self.claim.position.set(position);
        }
    }

    /// The record below the checkpoint by which the next owner knows the topic again, and this one.
    pub(super) fn known_mark(&mut self) -> Option<Mark> {
        let floor = self.protocol.done_below();
        while let Some(mark) = self.marks.front().filter(|mark| mark.offset < floor) {
            self.mark = Some(*mark);
            self.marks.pop_front();
        }
        self.known.mark = self.known.mark.or(self.mark);
        self.known.mark
    }

    pub(super) fn position(&mut self) -> Committed {
        let mark = self.known_mark();
        self.protocol.set_mark(mark);
        let checkpoint = self.protocol.checkpoint();
        Committed { offset: checkpoint.offset, metadata: checkpoint.metadata() }
    }

    fn observe(&mut self) {
        let now = self.shared.now();
        self.observed.look(&self.protocol, self.shared.config.window, &self.claim.lease, now);
        if let Some(since) = self.protocol.oldest_open() {
            self.shared.metrics.prefix_seconds.observe(now.since(since).as_secs_f64());
        }
    }

    /// The journal may go below the snapshot that a takeover would start from: the one that the group has, not the newest.
    fn ask_for_committed(&mut self) {
        self.trim.running = true;
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move { Step::Committed(committed_snapshot(&shared, partition).await) });
    }

    pub(super) fn trim_below(&mut self, snapshot: Option<Place>) {
        let before = self.protocol.trim_before(snapshot).filter(|before| *before > self.trim.below);
        let Some(before) = before else {
            self.trim = Trim { below: self.trim.below, ..Trim::default() };
            return;
        };
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            Step::Trimmed(before, shared.log.trim(&shared.config.journal_topic, partition, before).await)
        });
    }

    pub(super) fn trimmed(&mut self, before: Place, done: &Result<(), LogError>) {
        let below = if done.is_ok() { before } else { self.trim.below };
        if let Err(error) = done {
            tracing::warn!(partition = self.claim.partition, %error, "the journal was not trimmed; tried again later");
        }
        self.trim = Trim { below, ..Trim::default() };
    }

    /// The set-up changed: whoever waits for it is asked again, where it is not paused any more.
    pub(super) fn look_at_setup(&mut self) {
        self.setup = self.shared.directory.seq();
        let directory = self.shared.directory.clone();
        self.protocol.wake(self.shared.now(), |mailbox, reason| {
            reason != HoldReason::Paused || !is_paused(&directory, mailbox)
        });
    }
}

/// Whether the endpoint of this mailbox is paused. One that is gone is not: its deliveries end.
fn is_paused(directory: &Arc<mailrail_store::Directory>, mailbox: &MailboxKey) -> bool {
    let Some(mailbox) = Mailbox::from_key(mailbox.as_str()) else { return false };
    let tenant = directory.tenant(&mailbox.tenant);
    tenant.and_then(|view| view.endpoints.get(&mailbox.endpoint).map(|e| e.paused)).unwrap_or(false)
}

/// The snapshot that the group's position names.
async fn committed_snapshot(shared: &Shared, partition: u32) -> Option<Place> {
    let (group, topic) = (&shared.config.group, &shared.config.deliveries_topic);
    match shared.log.committed(group, topic, partition).await {
        Ok(committed) => {
            committed.and_then(|committed| Checkpoint::read(committed.offset, &committed.metadata).snapshot)
        }
        Err(_) => None,
    }
}
