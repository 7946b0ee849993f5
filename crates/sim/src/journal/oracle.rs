//! What must hold, watched from outside: the ledger of what was accepted against what was received.

use std::collections::{BTreeMap, BTreeSet};

use mailrail_mailbox::{Backlog, Checkpoint, Fold, OrderKey, Source, TRIALS_MAX, Traits};
use mailrail_types::{MailboxKey, Timestamp};

use super::event::{AttemptId, OwnerId, Stored};
use super::failure::Failure;
use super::world::Record;

/// Duplicates by what caused them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// The receiver had it, and its answer was lost.
    pub reply_lost: u64,
    /// A new owner did not know of it: in flight, or not recorded and committed, when the owner before ended.
    pub takeover: u64,
}

/// One delivery.
#[derive(Debug, Default)]
struct Life {
    /// `None`: a record that cannot be read, or a repetition.
    mailbox: Option<usize>,
    key: Option<OrderKey>,
    /// It takes the process down that attempts it; how often it did so to an owner that was isolated.
    poison: bool,
    deaths: u32,
    received: u32,
    /// Its end is recorded.
    ended: bool,
    dead: bool,
    /// Committed as done and owed by no backlog: from here on nobody may send it.
    closed: bool,
    /// Attempts since it last ended.
    attempts: u32,
    /// Takeovers of its partition before the first of them.
    takeovers: u32,
    /// Who made its last attempt that arrived, and whether that owner knows.
    last: Option<(OwnerId, bool)>,
}

struct Partition {
    lives: BTreeMap<Source, Life>,
    unclosed: BTreeSet<Source>,
    committed: Checkpoint,
    /// What the journal says to whoever reads it.
    truth: Fold,
    takeovers: u32,
}

struct Mailbox {
    key: MailboxKey,
    traits: Traits,
    sources: Vec<Source>,
    /// How many of them were received or are dead, from the first.
    passed: usize,
    flying: BTreeMap<AttemptId, Flying>,
}

/// An attempt that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flying {
    pub(super) source: Source,
    pub(super) owner: OwnerId,
    pub(super) attempt: AttemptId,
    /// It is over by then wherever its owner is.
    pub(super) ends: Timestamp,
}

pub(super) struct Oracle {
    partitions: Vec<Partition>,
    mailboxes: Vec<Mailbox>,
    attempts_max: u32,
    pub(super) duplicates: Duplicates,
    pub(super) failure: Option<Failure>,
}

impl Oracle {
    pub(super) fn new(partitions: usize, mailboxes: Vec<(MailboxKey, Traits)>, attempts_max: u32) -> Self {
        let partition = |_| Partition {
            lives: BTreeMap::new(),
            unclosed: BTreeSet::new(),
            committed: Checkpoint::at(0),
            truth: Fold::new(0),
            takeovers: 0,
        };
        let mailbox =
            |(key, traits)| Mailbox { key, traits, sources: Vec::new(), passed: 0, flying: BTreeMap::new() };
        Self {
            partitions: (0..partitions).map(partition).collect(),
            mailboxes: mailboxes.into_iter().map(mailbox).collect(),
            attempts_max,
            duplicates: Duplicates::default(),
            failure: None,
        }
    }

    /// Notes what went wrong first.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    pub(super) fn appended(&mut self, partition: usize, source: Source, record: &Record) {
        let Record { mailbox, key, poison, .. } = *record;
        let life = Life { mailbox, key, poison, ..Life::default() };
        self.partitions[partition].lives.insert(source, life);
        self.partitions[partition].unclosed.insert(source);
        if let Some(mailbox) = mailbox {
            self.mailboxes[mailbox].sources.push(source);
        }
    }

    pub(super) fn taken_over(&mut self, partition: usize) {
        self.partitions[partition].takeovers += 1;
    }

    /// An attempt starts.
    pub(super) fn started(&mut self, partition: usize, attempt: Flying, now: Timestamp) {
        let source = attempt.source;
        let part = &mut self.partitions[partition];
        let Some(life) = part.lives.get_mut(&source) else { return };
        if life.closed {
            self.failure.get_or_insert(Failure::SentAgain { partition, delivery: source });
        }
        if life.attempts == 0 {
            life.takeovers = part.takeovers;
        }
        life.attempts += 1;
        if life.attempts > self.attempts_max + (part.takeovers - life.takeovers) {
            let attempts = life.attempts;
            self.failure.get_or_insert(Failure::Attempts { partition, delivery: source, attempts });
        }
        let Some(mailbox) = life.mailbox else { return };
        let key = life.key;
        let mailbox = &mut self.mailboxes[mailbox];
        mailbox.flying.retain(|_, flying| flying.ends > now);
        if let Some(failure) = beside(partition, attempt, key, mailbox, &self.partitions[partition].lives) {
            self.failure.get_or_insert(failure);
        }
        mailbox.flying.insert(attempt.attempt, attempt);
    }

    /// A delivery took the process of its owner down, which was isolated: it must be found out.
    pub(super) fn killed(&mut self, partition: usize, source: Source) {
        let Some(life) = self.partitions[partition].lives.get_mut(&source) else { return };
        life.deaths += 1;
        if life.deaths > TRIALS_MAX {
            let deaths = life.deaths;
            self.fail(Failure::NotFound { partition, delivery: source, deaths });
        }
    }

    /// A delivery goes to quarantine because it is said to take its process down.
    pub(super) fn condemned(&mut self, partition: usize, source: Source) {
        if self.partitions[partition].lives.get(&source).is_some_and(|life| !life.poison) {
            self.fail(Failure::Innocent { partition, delivery: source });
        }
    }

    /// A receiver has taken a delivery.
    pub(super) fn received(&mut self, partition: usize, source: Source, owner: OwnerId) {
        let Some(life) = self.partitions[partition].lives.get_mut(&source) else { return };
        life.received += 1;
        match life.last.replace((owner, false)) {
            None => {}
            Some((before, true)) if before == owner => {
                self.failure.get_or_insert(Failure::SentTwice { partition, delivery: source });
            }
            Some((_, true)) => self.duplicates.takeover += 1,
            Some((before, false)) if before == owner => self.duplicates.reply_lost += 1,
            Some((_, false)) => self.duplicates.takeover += 1,
        }
        if life.received == 1
            && let Some(mailbox) = life.mailbox
        {
            self.check_order(partition, mailbox, source);
        }
    }

    fn check_order(&mut self, partition: usize, mailbox: usize, source: Source) {
        let lives = &self.partitions[partition].lives;
        let mailbox = &mut self.mailboxes[mailbox];
        let through = |source: &Source| lives.get(source).is_some_and(|l| l.received > 0 || l.dead);
        while mailbox.sources.get(mailbox.passed).is_some_and(through) {
            mailbox.passed += 1;
        }
        if let Some(older) = mailbox.sources.get(mailbox.passed).filter(|older| **older < source)
            && !mailbox.traits.tolerant
        {
            self.failure.get_or_insert(Failure::Disorder { partition, older: *older, delivery: source });
        }
    }

    /// The owner knows that the receiver has it.
    pub(super) fn confirmed(&mut self, partition: usize, source: Source, owner: OwnerId) {
        if let Some(life) = self.partitions[partition].lives.get_mut(&source) {
            life.last = Some((owner, true));
        }
    }

    /// An end is recorded.
    pub(super) fn ended(&mut self, partition: usize, source: Source, dead: bool) {
        if let Some(life) = self.partitions[partition].lives.get_mut(&source) {
            life.ended = true;
            life.dead |= dead;
            life.attempts = 0;
        }
    }

    /// An entry reached the journal.
    pub(super) fn journaled(&mut self, partition: usize, place: u64, stored: &Stored) {
        self.partitions[partition].truth.apply(place, &stored.entry);
        self.close(partition);
    }

    /// The group took a commit; `readable`: what reads it gets its metadata too.
    pub(super) fn committed(&mut self, partition: usize, checkpoint: &Checkpoint, readable: bool) {
        let before = self.partitions[partition].committed.offset;
        if checkpoint.offset < before {
            self.fail(Failure::CommitWentBack { partition, from: before, to: checkpoint.offset });
        }
        self.partitions[partition].committed =
            if readable { checkpoint.clone() } else { Checkpoint::at(checkpoint.offset) };
        if let Some(source) = self.undone_below(partition, checkpoint) {
            self.fail(Failure::CommittedOpen { partition, delivery: source });
        }
        self.close(partition);
    }

    /// The group forgot what was committed.
    pub(super) fn forgotten(&mut self, partition: usize) {
        let part = &mut self.partitions[partition];
        part.committed = Checkpoint::at(0);
        for (source, life) in &mut part.lives {
            life.closed = false;
            part.unclosed.insert(*source);
        }
    }

    /// A delivery that was committed and has neither ended nor is parked (I1).
    fn undone_below(&self, partition: usize, checkpoint: &Checkpoint) -> Option<Source> {
        let part = &self.partitions[partition];
        let open = part.unclosed.iter().copied().filter(|source| {
            let covered = *source < checkpoint.offset || checkpoint.done.contains(*source);
            covered && part.lives.get(source).is_some_and(|life| !life.ended)
        });
        let mut open = open;
        open.find(|source| !self.is_owed(partition, *source))
    }

    /// Whether a reader of the journal knows that the delivery waits.
    fn is_owed(&self, partition: usize, source: Source) -> bool {
        let truth = &self.partitions[partition].truth;
        self.backlog(truth, partition, source).is_some_and(|backlog| owes(backlog, source))
    }

    fn backlog<'f>(&self, fold: &'f Fold, partition: usize, source: Source) -> Option<&'f Backlog> {
        let mailbox = self.partitions[partition].lives.get(&source)?.mailbox?;
        fold.backlog(&self.mailboxes[mailbox].key)
    }

    /// What a new owner knows to be done, from the commit and the journal that it read.
    pub(super) fn known_done(&self, partition: usize, from: &Checkpoint, fold: &Fold) -> BTreeSet<Source> {
        let done = self.partitions[partition].lives.iter().filter(|(source, life)| {
            let backlog = self.backlog(fold, partition, **source);
            let committed = **source < from.offset || from.done.contains(**source);
            let drained = backlog.is_some_and(|b| b.stretches.iter().any(|s| s.covers(**source)));
            life.ended && (committed || drained) && !backlog.is_some_and(|backlog| owes(backlog, **source))
        });
        done.map(|(source, _)| *source).collect()
    }

    fn close(&mut self, partition: usize) {
        let part = &self.partitions[partition];
        let committed = &part.committed;
        let covered = |source: &Source| *source < committed.offset || committed.done.contains(*source);
        let ended = |source: &Source| part.lives.get(source).is_some_and(|life| life.ended);
        let done = part.unclosed.iter().copied().filter(|s| covered(s) && ended(s));
        let closed: Vec<Source> = done.filter(|source| !self.is_owed(partition, *source)).collect();
        let part = &mut self.partitions[partition];
        for source in closed {
            part.unclosed.remove(&source);
            if let Some(life) = part.lives.get_mut(&source) {
                life.closed = true;
            }
        }
    }

    /// Whether everything that was accepted has its end on record, and that end is committed.
    pub(super) fn is_drained(&self) -> bool {
        self.partitions.iter().all(|part| part.unclosed.is_empty())
    }

    /// The first delivery that nobody received and nobody gave up.
    pub(super) fn lost(&self) -> Option<Failure> {
        self.partitions.iter().enumerate().find_map(|(partition, part)| {
            let lost = |life: &Life| life.mailbox.is_some() && life.received == 0 && !life.dead;
            let (source, _) = part.lives.iter().find(|(_, life)| lost(life))?;
            Some(Failure::Lost { partition, delivery: *source })
        })
    }

    /// The latest claim.
    pub(super) fn epoch(&self, partition: usize) -> u64 {
        self.partitions[partition].truth.epoch()
    }

    /// What is not closed, for a person.
    pub(super) fn open(&self) -> String {
        let open = self.partitions.iter().enumerate();
        let open: Vec<String> = open.map(|(at, part)| format!("{at}: {:?}", part.unclosed)).collect();
        open.join("; ")
    }

    pub(super) fn takeovers(&self) -> u64 {
        self.partitions.iter().map(|part| u64::from(part.takeovers)).sum()
    }
}

/// What is wrong with an attempt beside those that run. A strict mailbox has one at a time, whoever made it; of a tolerant one
/// an owner makes as many at a time as may be, and no two about one thing.
fn beside(
    partition: usize,
    attempt: Flying,
    key: Option<OrderKey>,
    mailbox: &Mailbox,
    lives: &BTreeMap<Source, Life>,
) -> Option<Failure> {
    let second = attempt.source;
    if !mailbox.traits.tolerant {
        let (_, first) = mailbox.flying.first_key_value()?;
        return Some(Failure::TwoAtATime { partition, first: first.source, second });
    }
    let of_owner = mailbox.flying.values().filter(|other| other.owner == attempt.owner);
    let same = |other: &&Flying| key.is_some() && lives.get(&other.source).is_some_and(|l| l.key == key);
    if let Some(first) = of_owner.clone().find(same) {
        return Some(Failure::TwoOfAKey { partition, first: first.source, second });
    }
    let count = of_owner.count() + 1;
    let most = mailbox.traits.threads;
    (count > most).then_some(Failure::ManyAtATime { partition, delivery: second, count, most })
}

fn owes(backlog: &Backlog, source: Source) -> bool {
    backlog.asides.contains_key(&source)
        || (backlog.stretches.iter().any(|s| s.owes(source)) && !backlog.passed.contains(&source))
}
