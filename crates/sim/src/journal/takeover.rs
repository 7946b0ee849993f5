//! From an assignment to an owner at work.

use std::time::Duration;

use mailrail_mailbox::{Checkpoint, Claim, Entry, Fold, Kind, Protocol};

use super::event::{Event, OwnerId, Stored};
use super::failure::Failure;
use super::owner::{Owner, Phase};
use super::scenario::PRODUCE;
use super::world::{World, say};

/// How often a driver asks again when the group says that nothing was committed.
const ASK_MAX: u32 = 4;

/// An answer comes behind the commit that was sent before it was asked for.
const ASK_BEHIND: Duration = Duration::from_millis(1);

impl World<'_> {
    /// A partition was given to a process.
    pub(super) fn new_owner(&mut self, process: usize, partition: usize) {
        let id = self.id();
        let mut owner = Owner::new(id, process, partition);
        if !self.rules.driver.claim_first {
            owner.from = self.read_committed(partition).unwrap_or_else(|| Checkpoint::at(0));
        }
        say!(self, "owner {id}: process {process} is given partition {partition}");
        self.owners.insert(id, owner);
        self.processes[process].owners.insert(partition, id);
        self.after(0, 200, Event::TakeOver(id));
    }

    pub(super) fn take_over(&mut self, id: OwnerId) {
        let Some(mut owner) = self.owners.remove(&id) else { return };
        match owner.phase {
            Phase::Claiming if owner.batch.is_none() => self.send_claim(&mut owner),
            Phase::Asking { tries } => self.ask(&mut owner, tries),
            Phase::Reading => self.restore(&mut owner),
            _ => {}
        }
        self.owners.insert(id, owner);
        self.pump(id);
    }

    fn send_claim(&mut self, owner: &mut Owner) {
        let nonce = self.id();
        let claim = Claim {
            member: format!("process {}", owner.process),
            nonce,
            process: self.processes[owner.process].run,
        };
        let entry = Entry { epoch: 0, kind: Kind::Claim(claim) };
        self.append(owner, vec![Stored { entry, content: None, bytes: 40 }]);
    }

    fn read_committed(&mut self, partition: usize) -> Option<Checkpoint> {
        let (offset, metadata) = self.group.committed(partition)?.clone();
        let read = Checkpoint::read(offset, &metadata);
        if read.metadata() != metadata && !self.rules.driver.unreadable_is_nothing {
            // The mutation: as one consumer did, the committed offset itself is taken as done.
            return Some(Checkpoint::at(offset + 1));
        }
        Some(read)
    }

    fn ask(&mut self, owner: &mut Owner, tries: u32) {
        let id = owner.id;
        let arrives = self.processes[owner.process].commit_arrives.get(&owner.partition).copied();
        if let Some(arrives) = arrives.filter(|arrives| *arrives >= self.now && self.rules.driver.claim_first)
        {
            // A commit of the owner before, in this process, is on its way: the answer would be older than that.
            return self.agenda.put(arrives.plus(ASK_BEHIND), Event::TakeOver(id));
        }
        // A coordinator that is on its way out says so for a moment, never as long as a driver asks.
        let nothing = tries < ASK_MAX - 1 && self.faulty(self.plan.faults.no_offset);
        let found = if nothing { None } else { self.read_committed(owner.partition) };
        match found {
            Some(found) if self.rules.driver.claim_first => owner.from = found,
            Some(_) => {}
            None if tries < ASK_MAX => {
                owner.phase = Phase::Asking { tries: tries + 1 };
                return self.after(500, 1500, Event::TakeOver(id));
            }
            None => owner.first = true,
        }
        owner.phase = Phase::Reading;
        self.after(1, 500, Event::TakeOver(id));
    }

    fn restore(&mut self, owner: &mut Owner) {
        let (partition, id) = (owner.partition, owner.id);
        let journal = &self.partitions[partition].journal;
        let low = journal.low();
        let start = owner.from.snapshot.unwrap_or(low);
        let mut fold = Fold::with_rules(start.max(low), self.rules.protocol);
        while let Some((place, stored)) = journal.read(fold.next()).filter(|(place, _)| *place <= owner.epoch)
        {
            fold.apply(place, &stored.entry);
        }
        if start < low || (start > 0 && fold.snapshot().is_none()) {
            if self.oracle.epoch(partition) == owner.epoch {
                return self.oracle.fail(Failure::Hole { partition, from: start, low });
            }
            // Its successor has trimmed what it was about to read: it claims again.
            owner.phase = Phase::Claiming;
            return self.after(100, 1000, Event::TakeOver(id));
        }
        if owner.first
            && let Some(done_below) = fold.done_below()
        {
            owner.from = Checkpoint::at(done_below);
        }
        say!(self, "owner {id}: epoch {} from {:?} start {start} fold {:?}", owner.epoch, owner.from, fold);
        owner.known_done = self.oracle.known_done(partition, &owner.from, &fold);
        owner.fetch = owner.from.offset;
        owner.tail = owner.epoch + 1;
        let (config, rules) = (self.plan.config, self.rules.protocol);
        let from = owner.from.clone();
        owner.protocol = Some(Protocol::with_rules(config, fold, owner.epoch, from, self.now, rules));
        self.wake_what_may_go(owner, |_| true);
        owner.phase = Phase::Working;
        self.oracle.taken_over(partition);
        self.after(0, 50, Event::Wake(id));
        self.after(0, 50, Event::CommitTick(id));
    }

    /// Sends entries to the journal as one batch.
    pub(super) fn append(&mut self, owner: &mut Owner, entries: Vec<Stored>) {
        let batch = self.id();
        owner.batch = Some(batch);
        let (id, partition) = (owner.id, owner.partition);
        let late = self.faulty(self.plan.faults.entry_late);
        let at =
            self.now.plus(if late { self.chance.millis(500, 20_000) } else { self.chance.millis(2, 80) });
        self.buffered.insert(batch, owner.process);
        self.batches.insert(batch, Vec::new());
        let mut lost = false;
        for (number, stored) in entries.into_iter().enumerate() {
            if self.faulty(self.plan.faults.entry_lost) {
                say!(self, "owner {id}: lost in batch {batch}: {:?}", stored.entry);
                lost = true;
                continue;
            }
            let stored = Box::new(stored);
            self.agenda.put(at, Event::Land { partition, batch, at: number, stored });
        }
        let gives_up = self.now.plus(PRODUCE);
        let learns = at.plus(self.chance.millis(1, 100));
        if lost || learns > gives_up {
            self.agenda.put(gives_up, Event::Appended { owner: id, batch, arrived: false });
        } else {
            self.agenda.put(learns, Event::Appended { owner: id, batch, arrived: true });
        }
    }

    /// An entry reaches the journal.
    pub(super) fn land(&mut self, partition: usize, batch: u64, at: usize, stored: Stored) {
        if self.dropped.contains(&batch) {
            return;
        }
        if at == 0 {
            // Its first entry has left the process.
            self.buffered.remove(&batch);
        }
        let gap = if self.faulty(self.plan.faults.gap) { self.chance.within(1, 3) } else { 0 };
        if self.plan.healthy && !matches!(stored.entry.kind, Kind::Claim(_) | Kind::Snapshot(_)) {
            self.oracle.fail(Failure::Written { partition, entry: format!("{:?}", stored.entry) });
        }
        let place = self.partitions[partition].journal.append(stored, gap);
        if let Some(stored) = self.partitions[partition].journal.get(place) {
            self.oracle.journaled(partition, place, stored);
            say!(self, "J{partition}/{place} (batch {batch}): {:?}", stored.entry);
        }
        self.batches.entry(batch).or_default().push(place);
        self.show(partition);
    }

    pub(super) fn appended(&mut self, id: OwnerId, batch: u64, arrived: bool) {
        if arrived && self.batches.get(&batch).is_some_and(Vec::is_empty) && !self.dropped.contains(&batch) {
            // It still lies in the memory of a process that was stopped: first it arrives, then that is known.
            return self.after(10, 50, Event::Appended { owner: id, batch, arrived });
        }
        let places = self.batches.remove(&batch).unwrap_or_default();
        let Some(owner) = self.owners.get_mut(&id).filter(|owner| owner.batch == Some(batch)) else { return };
        owner.batch = None;
        if owner.phase == Phase::Claiming {
            if let Some(epoch) = places.first().filter(|_| arrived) {
                owner.epoch = *epoch;
                owner.phase = Phase::Asking { tries: 0 };
            }
            return self.after(1, 300, Event::TakeOver(id));
        }
        if !arrived && self.rules.driver.errors_end {
            return self.owner_fails(id, "an entry did not arrive");
        }
        if let Some(protocol) = &mut owner.protocol {
            protocol.appended();
        }
        self.pump(id);
    }
}
