//! The delivery protocol of one partition: what an owner does from its claim to its hand-over.
//!
//! Inputs are records of the deliveries, entries of the journal read back, results of attempts, and the time. Outputs are
//! deliveries to start, entries to append, places to scan, and the checkpoint to commit. It does none of this itself.

mod backlog;
mod entries;
mod flight;
mod isolation;
mod offer;
mod park;
mod pass;
mod scan;
mod snapshot;
mod start;
mod timer;
mod watch;

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::time::Duration;

use mailrail_types::{HoldReason, MailboxKey, Timestamp};

use crate::checkpoint::{Checkpoint, Mark};
use crate::entry::{Entry, Hold, Place, Source, Unfinished};
use crate::flying::Flying;
use crate::fold::Fold;
use crate::lane::{Lane, Traits};
use crate::ready::{Item, PassedOver, Ready};
use crate::rules::Rules;
use crate::window::{Limits, Window};

use flight::{Flight, LiveAside};
use isolation::Isolation;
use scan::Scan;
use snapshot::{PART_MAX, SnapshotClock};
use timer::Timers;

pub use entries::Fenced;
pub use flight::Settlement;
pub use isolation::{ISOLATED_ATTEMPTS, SUSPECT_PAUSE, UNCLEAN_MAX};
pub use offer::Offered;
pub use scan::Scanned;
pub use start::Started;
pub use watch::AtHand;

/// What has taken so long takes long: it must hold nothing up any more (I8).
pub const PARK_AFTER: Duration = Duration::from_secs(2);

/// What bounds an owner of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// What its window may hold.
    pub window: Limits,
    /// Deliveries of one mailbox that wait in a window that is half full; more are parked (kafka.md, defect 6).
    pub queue_max: usize,
    /// How long an attempt, or what a mailbox waits for, may hold the prefix before it is parked (I8).
    pub park_after: Duration,
    /// Total time of one attempt.
    pub attempt_timeout: Duration,
    /// Ended deliveries of a backlog between two entries about it.
    pub save_every: u32,
    /// Longest time between an end and the entry about it.
    pub save_after: Duration,
    /// Bytes of parked content kept at hand for one mailbox.
    pub mailbox_content_max: usize,
    /// Bytes of parked content kept at hand for the partition.
    pub content_max: usize,
    /// Content whose time is further off than this is not kept at hand.
    pub keep_for: Duration,
    /// Deliveries set aside for one mailbox.
    pub mailbox_asides_max: usize,
    /// Deliveries set aside in the partition.
    pub asides_max: usize,
    /// Mailboxes, and deliveries aside, of one part of a snapshot.
    pub snapshot_part_max: usize,
    /// Journal bytes that are read back between two snapshots.
    pub snapshot_bytes: usize,
    /// Longest time between two snapshots while the journal grows.
    pub snapshot_after: Duration,
}

impl Config {
    /// The limits of kafka.md section 2, for attempts of at most `attempt_timeout`.
    #[must_use]
    pub fn new(window: Limits, attempt_timeout: Duration) -> Self {
        Self {
            window,
            attempt_timeout,
            queue_max: 64,
            park_after: PARK_AFTER,
            save_every: 50,
            save_after: Duration::from_millis(200),
            mailbox_content_max: 64 << 10,
            content_max: 8 << 20,
            keep_for: Duration::from_secs(10),
            mailbox_asides_max: 256,
            asides_max: 8192,
            snapshot_part_max: PART_MAX,
            snapshot_bytes: 1 << 20,
            snapshot_after: Duration::from_secs(60),
        }
    }
}

/// An owner of a partition, from the moment it has read the journal through its own claim.
#[derive(Debug)]
pub struct Protocol {
    config: Config,
    rules: Rules,
    /// Place of our claim.
    epoch: Place,
    fold: Fold,
    window: Window,
    lanes: BTreeMap<MailboxKey, Lane>,
    /// What mailboxes wait for, as this owner knows it; goes before what the fold says.
    holds: BTreeMap<MailboxKey, Hold>,
    /// Since when a mailbox with open records waits.
    held_since: BTreeMap<MailboxKey, Timestamp>,
    ready: Ready,
    passed_over: PassedOver,
    timers: Timers,
    /// Attempts that run or whose end is not recorded yet.
    flights: BTreeMap<Source, Flight>,
    /// Attempts that run.
    flying: Flying,
    asides: BTreeMap<Source, LiveAside>,
    /// Deliveries aside whose entry is on the way.
    asides_sent: usize,
    outbox: Vec<Entry>,
    /// An append runs.
    appending: bool,
    /// Entries that were taken to be appended and were not read back yet.
    unread: usize,
    sent_parks: Vec<Source>,
    wanting: BTreeSet<MailboxKey>,
    wanting_asides: BTreeMap<Place, Source>,
    scan: Option<Scan>,
    /// Mailboxes whose head, or whose end, lies where the deliveries were not read yet (I7).
    unfetched: BTreeMap<Source, BTreeSet<MailboxKey>>,
    forgotten: Vec<Source>,
    content: usize,
    snapshots: SnapshotClock,
    isolation: Isolation,
    /// Where the deliveries were done at the takeover.
    taken_from: Source,
    /// Attempts that an owner before may still run. No snapshot is written while there are any: it would hide them.
    inherited: Vec<Unfinished>,
    /// Newest snapshot of the journal that was read whole.
    pointer: Option<Place>,
    stopping: bool,
    mark: Option<Mark>,
}

impl Protocol {
    /// The owner whose claim stands at `epoch`: `fold` has taken the journal through it, and `from` was committed when that
    /// claim was written (I3).
    #[must_use]
    pub fn new(config: Config, fold: Fold, epoch: Place, from: Checkpoint, now: Timestamp) -> Self {
        Self::with_rules(config, fold, epoch, from, now, Rules::ALL)
    }

    /// As [`Protocol::new`], with rules switched off: for the simulation alone.
    #[must_use]
    pub fn with_rules(
        config: Config,
        fold: Fold,
        epoch: Place,
        from: Checkpoint,
        now: Timestamp,
        rules: Rules,
    ) -> Self {
        debug_assert_eq!(
            fold.epoch(),
            epoch,
            "a claim is restored when the journal was read through it (I3)"
        );
        let mut fold = fold;
        let unclean = Self::unclean_takeovers(&fold, &from);
        let isolation = Isolation::at_takeover(&mut fold, &from, unclean, rules);
        let mut new = Self {
            config,
            rules,
            epoch,
            pointer: fold.snapshot().or(from.snapshot),
            window: Window::new(config.window, from.offset, from.done, rules.gaps_are_done),
            fold,
            lanes: BTreeMap::new(),
            holds: BTreeMap::new(),
            held_since: BTreeMap::new(),
            ready: Ready::default(),
            passed_over: PassedOver::default(),
            timers: Timers::default(),
            flights: BTreeMap::new(),
            flying: Flying::default(),
            asides: BTreeMap::new(),
            asides_sent: 0,
            outbox: Vec::new(),
            appending: false,
            unread: 0,
            sent_parks: Vec::new(),
            wanting: BTreeSet::new(),
            wanting_asides: BTreeMap::new(),
            scan: None,
            unfetched: BTreeMap::new(),
            forgotten: Vec::new(),
            content: 0,
            snapshots: SnapshotClock::new(now, unclean),
            isolation,
            taken_from: from.offset,
            inherited: Vec::new(),
            stopping: false,
            mark: from.mark,
        };
        new.set_timers(now);
        new.end_left_trial();
        new
    }

    /// How often in a row the partition was taken over from an owner whose process had died, with no progress.
    fn unclean_takeovers(fold: &Fold, from: &Checkpoint) -> u32 {
        // Nobody got as far as a first snapshot, or no further than to the newest.
        let stood_still = fold.done_below().is_none_or(|done| done == from.offset);
        if stood_still { fold.unclean() } else { 0 }
    }

    /// Everything parked gets its timer; a timer is all that a mailbox at rest needs.
    fn set_timers(&mut self, now: Timestamp) {
        for (mailbox, backlog) in self.fold.backlogs() {
            if backlog.is_blocked() {
                let due = backlog.head.as_ref().map_or(Timestamp::ZERO, |head| head.hold.until);
                self.timers.due(due, mailbox);
            }
            for (source, aside) in &backlog.asides {
                self.timers.aside(aside.head.hold.until, mailbox, *source);
            }
        }
        self.inherit(self.fold.unfinished().to_vec(), now);
    }

    /// Attempts of owners before this one that may still run where they were started: nothing of their mailboxes goes out
    /// before they are over (I12). What the journal tells of is known; this is for what it does not. Before the first
    /// [`Protocol::start`].
    pub fn inherit(&mut self, unfinished: Vec<Unfinished>, now: Timestamp) {
        for left in unfinished.into_iter().filter(|left| left.until > now) {
            let held = self.holds.get(&left.mailbox).map(|hold| hold.until);
            let until = held.map_or(left.until, |held| held.max(left.until));
            self.holds.insert(left.mailbox.clone(), Hold { reason: HoldReason::Unfinished, until });
            self.timers.due(until, &left.mailbox);
            self.inherited.push(left);
        }
    }

    /// The lane of a mailbox, made from the fold when there is none.
    fn lane(&mut self, mailbox: &MailboxKey) -> &mut Lane {
        match self.lanes.entry(mailbox.clone()) {
            btree_map::Entry::Occupied(lane) => lane.into_mut(),
            btree_map::Entry::Vacant(place) => {
                place.insert(Lane::new(Traits::STRICT, self.fold.backlog(mailbox)))
            }
        }
    }

    /// Forgets what a mailbox at rest does not need.
    fn settle_down(&mut self, mailbox: &MailboxKey) {
        if self.lanes.get(mailbox).is_some_and(Lane::is_at_rest) {
            self.lanes.remove(mailbox);
            self.held_since.remove(mailbox);
            let is_blocked = self.fold.backlog(mailbox).is_some_and(crate::backlog::Backlog::is_blocked);
            if !is_blocked && !self.inherited.iter().any(|left| left.mailbox == *mailbox) {
                self.holds.remove(mailbox);
            }
        }
    }

    /// What the mailbox waits for, if it does.
    fn hold_of(&self, mailbox: &MailboxKey) -> Option<Hold> {
        self.holds.get(mailbox).copied().or_else(|| {
            let head = self.fold.backlog(mailbox)?.head.as_ref()?;
            // The fold lags behind: a head that has ended since holds nothing.
            let lane = self.lanes.get(mailbox);
            let ended = lane.is_some_and(|lane| lane.has_ended(head.source));
            (!ended).then_some(head.hold)
        })
    }

    fn make_ready(&mut self, mailbox: &MailboxKey) {
        let one_flight = self.rules.one_flight;
        let lane = self.lane(mailbox);
        // What runs makes it ready again when it is settled; asked before, it would only take a permit and give it back.
        let waits_for_flight = one_flight && !lane.traits.tolerant && lane.running > 0;
        if !lane.is_ready && !waits_for_flight {
            lane.is_ready = true;
            let priority = lane.traits.priority;
            self.push_ready(priority, Item::Mailbox(mailbox.clone()));
        }
    }

    /// How far the partition is done, for the commit.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        if !self.rules.terminal_before_commit {
            return Checkpoint { snapshot: self.pointer, ..Checkpoint::at(self.window.next()) };
        }
        Checkpoint {
            offset: self.window.floor(),
            done: self.window.done(),
            snapshot: self.pointer,
            mark: self.mark,
        }
    }

    /// The newest record of the deliveries below the checkpoint that was read, as far as it is known.
    pub fn set_mark(&mut self, mark: Option<Mark>) {
        self.mark = mark;
    }

    /// Up to where the journal may be trimmed, given the snapshot of the last commit that the group took (I9).
    #[must_use]
    pub fn trim_before(&self, committed_snapshot: Option<Place>) -> Option<Place> {
        let pointer = committed_snapshot?;
        if !self.rules.trim_below_pins {
            return Some(pointer);
        }
        Some(self.fold.pin().map_or(pointer, |pin| pin.min(pointer)))
    }

    /// Deliveries whose content may be dropped.
    pub fn take_forgotten(&mut self) -> Vec<Source> {
        std::mem::take(&mut self.forgotten)
    }

    /// Wakes one mailbox that waits for an event; `false` when it does not (yet).
    pub fn wake_mailbox(&mut self, mailbox: &MailboxKey, now: Timestamp) -> bool {
        let hold = self.hold_of(mailbox).filter(|hold| hold.until > now);
        let waits = hold.is_some_and(crate::fold::waits_for_event);
        if waits {
            self.holds.insert(mailbox.clone(), Hold { reason: HoldReason::BehindHead, until: now });
            self.make_ready(mailbox);
        }
        waits
    }

    /// Wakes the mailboxes, and what was set aside, that wait for an event, where `is_over` says that it came. They are asked
    /// again; one that must still wait is held again.
    pub fn wake(&mut self, now: Timestamp, mut is_over: impl FnMut(&MailboxKey, HoldReason) -> bool) {
        let mut woken: Vec<MailboxKey> = Vec::new();
        for (mailbox, hold) in &self.holds {
            if crate::fold::waits_for_event(*hold) && is_over(mailbox, hold.reason) {
                woken.push(mailbox.clone());
            }
        }
        for (mailbox, backlog) in self.fold.backlogs() {
            let hold = backlog.head.as_ref().map(|head| head.hold).filter(|hold| hold.until > now);
            let waits = hold.filter(|hold| crate::fold::waits_for_event(*hold));
            if waits.is_some_and(|hold| !self.holds.contains_key(mailbox) && is_over(mailbox, hold.reason)) {
                woken.push(mailbox.clone());
            }
        }
        for mailbox in woken {
            self.holds.insert(mailbox.clone(), Hold { reason: HoldReason::BehindHead, until: now });
            self.make_ready(&mailbox);
        }
        self.wake_asides(now, is_over);
    }

    /// From here on nothing starts. What runs may finish.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.give_up_trial();
    }

    /// What the window holds: records, their bytes, and the offsets from the lowest that is not done to its end.
    #[must_use]
    pub fn window_use(&self) -> (usize, usize, u64) {
        (self.window.records(), self.window.bytes(), self.window.next() - self.window.floor())
    }

    /// Since when the mailbox waits that has waited for the longest with records in the window.
    #[must_use]
    pub fn held_longest(&self) -> Option<Timestamp> {
        self.held_since.values().copied().min()
    }
}
