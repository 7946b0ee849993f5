//! One process's ownership of one partition, as the driver keeps it around the protocol.

use std::collections::{BTreeMap, BTreeSet};

use mailrail_mailbox::{Checkpoint, OrderKey, Place, Protocol, Source};
use mailrail_types::Timestamp;

use super::event::OwnerId;

/// A delivery at hand. Its body is left out; its size is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) mailbox: usize,
    pub(super) attempts: u32,
    pub(super) bytes: usize,
    pub(super) key: Option<OrderKey>,
    pub(super) poison: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// Its claim is on the way to the journal.
    Claiming,
    /// Its claim is in the journal: what was committed is asked for.
    Asking {
        tries: u32,
    },
    /// The journal is read through its claim.
    Reading,
    Working,
    /// It is to give the partition up and waits for its attempts.
    Draining,
    /// Its last word is on the way.
    HandingOff,
    /// Its last commit is on the way.
    LastCommit,
    /// Nothing can be said any more; it stays until its attempts are over.
    WaitingOut,
}

pub(super) struct Owner {
    pub(super) id: OwnerId,
    pub(super) process: usize,
    pub(super) partition: usize,
    pub(super) phase: Phase,
    pub(super) epoch: Place,
    pub(super) from: Checkpoint,
    /// What it knows to be done from what it read: it must not send that.
    pub(super) known_done: BTreeSet<Source>,
    /// Nothing was ever committed, or the group forgot it.
    pub(super) first: bool,
    pub(super) protocol: Option<Protocol>,
    pub(super) contents: BTreeMap<Source, Content>,
    /// Next offset of the deliveries, and up to where they are seen.
    pub(super) fetch: u64,
    pub(super) deliveries_seen: u64,
    /// Next place of the journal, and up to where it is seen.
    pub(super) tail: Place,
    pub(super) journal_seen: Place,
    /// Where a pass over the journal is.
    pub(super) scan: Option<Place>,
    /// The batch that is on its way.
    pub(super) batch: Option<u64>,
    /// Snapshot that an accepted commit points at.
    pub(super) accepted_snapshot: Option<Place>,
    /// The mutation I9: a snapshot that nobody has read back.
    pub(super) hasty_pointer: Option<Place>,
    /// The commit on its way, and how many there were.
    pub(super) commit: Option<u64>,
    pub(super) commits: u64,
    pub(super) last_commit: Option<(Checkpoint, Timestamp)>,
    pub(super) timer: Option<Timestamp>,
    /// Deliveries that run, of which mailbox, and until when at the latest.
    pub(super) flying: BTreeMap<Source, (usize, Timestamp)>,
    /// Where the commit stands with something open behind it, and since when, produces working.
    pub(super) pinned: Option<(u64, Timestamp)>,
    /// For which suspect everything else of the process was last stopped, and when, until that one is attempted.
    pub(super) alone_for: Option<(Source, Timestamp)>,
}

impl Owner {
    pub(super) fn new(id: OwnerId, process: usize, partition: usize) -> Self {
        Self {
            id,
            process,
            partition,
            phase: Phase::Claiming,
            epoch: 0,
            from: Checkpoint::at(0),
            known_done: BTreeSet::new(),
            first: false,
            protocol: None,
            contents: BTreeMap::new(),
            fetch: 0,
            deliveries_seen: 0,
            tail: 0,
            journal_seen: 0,
            scan: None,
            batch: None,
            accepted_snapshot: None,
            hasty_pointer: None,
            commit: None,
            commits: 0,
            last_commit: None,
            timer: None,
            flying: BTreeMap::new(),
            pinned: None,
            alone_for: None,
        }
    }

    /// Whether an attempt of the mailbox runs.
    pub(super) fn runs(&self, mailbox: usize) -> bool {
        self.flying.values().any(|(of, _)| *of == mailbox)
    }
}
