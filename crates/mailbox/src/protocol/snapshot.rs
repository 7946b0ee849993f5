//! Snapshots: so that a takeover reads a little of the journal, however long an outage lasts (I9).

use std::time::Duration;

use mailrail_types::{MailboxKey, Timestamp};

use super::Protocol;
use crate::backlog::Backlog;
use crate::entry::{Entry, Kind, Snapshot, Unfinished};

/// Mailboxes, and deliveries aside, of one part: with keys of a few hundred bytes far below what a record may have.
pub(super) const PART_MAX: usize = 1000;

/// A snapshot is due when the journal grew by this many times its size.
const GROWTH: usize = 4;

/// About how many bytes a mailbox takes in a snapshot.
const MAILBOX_BYTES: usize = 160;

/// When the next snapshot is due.
#[derive(Debug)]
pub(super) struct SnapshotClock {
    last: Timestamp,
    wrote: usize,
    size: usize,
    unclean: u32,
    /// The first one proves the takeover, and is written whatever there is.
    first: bool,
}

impl SnapshotClock {
    /// The deaths before have another cause than a delivery.
    pub(super) fn forgive(&mut self) {
        self.unclean = 0;
    }

    pub(super) fn new(now: Timestamp, unclean: u32) -> Self {
        Self { last: now, wrote: 0, size: 0, unclean, first: true }
    }

    pub(super) fn wrote(&mut self, bytes: usize) {
        self.wrote += bytes;
    }

    fn is_due(&self, now: Timestamp, bytes: usize, after: Duration) -> bool {
        self.first
            || self.wrote > bytes.max(self.size * GROWTH)
            || (self.wrote > 0 && now.since(self.last) >= after)
    }
}

impl Protocol {
    pub(super) fn snapshot_is_due(&self, now: Timestamp) -> bool {
        !self.stopping
            && self.inherited.is_empty()
            && self.snapshots.is_due(now, self.config.snapshot_bytes, self.config.snapshot_after)
    }

    /// The state as it was read back. Nothing of ours may be on its way: it would stand before the snapshot and not be in it.
    /// What is still to be sent comes behind it.
    pub(super) fn take_snapshot(&mut self, now: Timestamp) -> Vec<Entry> {
        let mut chunks: Vec<Vec<(MailboxKey, Backlog)>> = vec![Vec::new()];
        let (mut units, mut total) = (0, 0);
        for (mailbox, backlog) in self.fold.backlogs() {
            if units >= self.config.snapshot_part_max {
                chunks.push(Vec::new());
                units = 0;
            }
            units += 1 + backlog.asides.len();
            total += 1 + backlog.asides.len();
            if let Some(chunk) = chunks.last_mut() {
                chunk.push((mailbox.clone(), backlog.clone()));
            }
        }
        self.snapshots = SnapshotClock {
            last: now,
            wrote: 0,
            size: total * MAILBOX_BYTES,
            first: false,
            ..self.snapshots
        };
        let parts = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let (done_below, mark) = (self.window.floor(), self.mark);
        // What was done since the takeover is progress.
        let unclean = if done_below > self.taken_from { 0 } else { self.snapshots.unclean };
        let trials = self.fold.trials();
        let part = |(part, backlogs)| {
            let trials = trials.clone();
            Snapshot { part, parts, done_below, mark, unclean, trials, backlogs }
        };
        (0..)
            .zip(chunks)
            .map(|chunk| Entry { epoch: self.epoch, kind: Kind::Snapshot(part(chunk)) })
            .collect()
    }

    pub(super) fn snapshot_applied(&mut self) {
        // Its own bytes are no reason for the next one.
        self.snapshots.wrote = 0;
        self.pointer = self.fold.snapshot().or(self.pointer);
    }

    /// The last word of an owner that stops: which attempts may still run, its own and those that it was told of. Take it with [`Protocol::take_batch`].
    pub fn hand_off(&mut self, now: Timestamp) {
        let running = self.flights.iter().filter(|(_, flight)| !flight.ended);
        // Its request may have gone out just now: what comes before it has no part in its own time.
        let latest = now.plus(self.config.attempt_timeout);
        let unfinished = running.map(|(source, flight)| Unfinished {
            mailbox: flight.mailbox.clone(),
            source: *source,
            until: flight.deadline.max(latest),
        });
        let mut unfinished: Vec<Unfinished> = unfinished.chain(self.inherited.iter().cloned()).collect();
        unfinished.sort_by_key(|unfinished| unfinished.source);
        if self.is_written() && unfinished.is_empty() {
            // A second record of the position that the last commit carries: a group may forget it.
            let last = self.take_snapshot(now);
            self.outbox.extend(last);
        }
        self.send(Kind::HandOff(unfinished));
    }

    /// Unclean takeovers of this partition in a row, this one counted.
    #[must_use]
    pub fn unclean(&self) -> u32 {
        self.snapshots.unclean
    }
}
