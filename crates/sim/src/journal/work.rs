//! An owner at work: what a driver does around the protocol each time something happened.

use mailrail_mailbox::{Entry, Kind, Offered, Scanned, Shape, Source};

use super::event::{Event, OwnerId, Stored};
use super::failure::Failure;
use super::owner::{Content, Owner, Phase};
use super::world::{Record, World, say};

/// Bytes of an entry beside its content.
const ENTRY_BYTES: usize = 60;
/// Starts in one go that no honest run needs.
const STARTS_MAX: usize = 10_000;

/// What ends an owner.
pub(super) type Over = &'static str;

impl World<'_> {
    /// The owner sees what its logs hold by now, and goes on.
    pub(super) fn wake(&mut self, id: OwnerId) {
        if let Some(owner) = self.owners.get_mut(&id) {
            let partition = &self.partitions[owner.partition];
            owner.deliveries_seen = partition.deliveries.high();
            owner.journal_seen = partition.journal.high();
            if let Some(protocol) = owner.protocol.as_mut().filter(|_| self.rules.driver.calls_again) {
                let crowded = if self.calm { 0.0 } else { self.plan.crowded };
                protocol.call_all(self.now, |_| self.chance.happens(crowded));
            }
        }
        self.pump(id);
    }

    /// Does all that an owner can do now.
    pub(super) fn pump(&mut self, id: OwnerId) {
        let Some(mut owner) = self.owners.remove(&id) else { return };
        let over = self.work(&mut owner).err();
        self.owners.insert(id, owner);
        if let Some(over) = over {
            self.owner_fails(id, over);
        }
    }

    fn work(&mut self, owner: &mut Owner) -> Result<(), Over> {
        if owner.protocol.is_none() {
            return Ok(());
        }
        self.read_back(owner)?;
        self.take_deliveries(owner);
        self.start_attempts(owner);
        self.be_alone(owner);
        self.send_entries(owner);
        self.start_scan(owner);
        self.step_hand_over(owner);
        self.forget(owner);
        self.set_timer(owner);
        self.check_owner(owner);
        Ok(())
    }

    fn read_back(&mut self, owner: &mut Owner) -> Result<(), Over> {
        let now = self.now;
        let Some(protocol) = &mut owner.protocol else { return Ok(()) };
        let journal = &self.partitions[owner.partition].journal;
        while let Some((place, stored)) = journal.read(owner.tail).filter(|(p, _)| *p < owner.journal_seen) {
            owner.tail = place + 1;
            if let Err(fenced) = protocol.applied(place, &stored.entry, stored.bytes, now) {
                say!(self, "owner {}: {fenced} at {place}", owner.id);
                return Err("fenced");
            }
        }
        Ok(())
    }

    fn take_deliveries(&mut self, owner: &mut Owner) {
        let now = self.now;
        let (partition, id) = (owner.partition, owner.id);
        let Some(protocol) = &mut owner.protocol else { return };
        let deliveries = &self.partitions[partition].deliveries;
        let mut ended = Vec::new();
        while protocol.has_room() {
            let Some((source, record)) = deliveries.read(owner.fetch) else { break };
            if source >= owner.deliveries_seen {
                break;
            }
            owner.fetch = source + 1;
            let Some(mailbox) = record.mailbox else {
                if protocol.offer_ended(source, record.bytes, now) == Offered::Taken {
                    ended.push(source);
                }
                continue;
            };
            let traits = self.plan.mailboxes[mailbox].traits;
            let shape = Shape { bytes: record.bytes, key: record.key, traits };
            let offered = protocol.offer(source, &self.keys[mailbox], shape, now);
            if offered == Offered::Taken {
                let Record { bytes, key, poison, .. } = *record;
                let content = Content { mailbox, attempts: 0, bytes, key, poison };
                owner.contents.insert(source, content);
            }
            say!(self, "owner {id}: {source} of m{mailbox} is {offered:?}");
        }
        for source in ended {
            self.record(id, source, false);
        }
    }

    fn start_attempts(&mut self, owner: &mut Owner) {
        let now = self.now;
        let lease = self.processes[owner.process].lease > now;
        if !self.may_try(owner) {
            return;
        }
        for _ in 0..STARTS_MAX {
            let Some(protocol) = &mut owner.protocol else { return };
            let (crowded, mut passed) = (if self.calm { 0.0 } else { self.plan.crowded }, false);
            let started = protocol.start(now, lease, |_| {
                let may = !self.chance.happens(crowded);
                passed |= !may;
                may
            });
            if passed {
                self.after(10, 500, Event::Wake(owner.id));
            }
            let Some(started) = started else { return };
            let source = started.source;
            let Some(content) = owner.contents.get_mut(&source) else {
                return self.oracle.fail(Failure::NoContent { partition: owner.partition, delivery: source });
            };
            if let Some(history) = started.history {
                content.attempts = history.attempts;
            }
            let content = *content;
            if started.condemned {
                self.quarantine(owner, source, content);
            } else {
                self.attempt(owner, source, content);
            }
        }
        self.oracle.fail(Failure::Spin { partition: owner.partition });
    }

    pub(super) fn send_entries(&mut self, owner: &mut Owner) {
        if owner.batch.is_some() {
            return;
        }
        let now = self.now;
        let Some(protocol) = &mut owner.protocol else { return };
        let Some(mut batch) = protocol.take_batch(self.plan.batch_max, now) else { return };
        for entry in &mut batch {
            if let Kind::HandOff(unfinished) = &mut entry.kind
                && !self.rules.driver.unfinished_is_said
            {
                unfinished.clear();
            }
        }
        if batch.iter().any(|entry| matches!(entry.kind, Kind::Snapshot(_))) {
            owner.hasty_pointer = Some(self.partitions[owner.partition].journal.high());
        }
        let entries: Vec<Stored> = batch.into_iter().filter_map(|entry| self.stored(owner, entry)).collect();
        self.append(owner, entries);
    }

    /// An entry with the content that it carries.
    fn stored(&mut self, owner: &Owner, entry: Entry) -> Option<Stored> {
        let source = match &entry.kind {
            Kind::Park(park) => Some(park.source),
            Kind::Aside(aside) if aside.content.is_none() => Some(aside.head.source),
            _ => None,
        };
        let content = source.and_then(|source| owner.contents.get(&source)).copied();
        if let Some(source) = source.filter(|_| content.is_none()) {
            self.oracle.fail(Failure::NoContent { partition: owner.partition, delivery: source });
            return None;
        }
        let more = match &entry.kind {
            Kind::Snapshot(part) => part.backlogs.len() * ENTRY_BYTES,
            _ => 0,
        };
        let bytes = ENTRY_BYTES + more + content.map_or(0, |content| content.bytes);
        Some(Stored { entry, content, bytes })
    }

    fn start_scan(&mut self, owner: &mut Owner) {
        let Some(protocol) = &mut owner.protocol else { return };
        let Some(place) = protocol.start_scan() else { return };
        say!(self, "owner {}: scan from {place}", owner.id);
        owner.scan = Some(place);
        let low = self.partitions[owner.partition].journal.low();
        if place < low && self.oracle.epoch(owner.partition) == owner.epoch {
            self.oracle.fail(Failure::Hole { partition: owner.partition, from: place, low });
        }
        self.after(1, 100, Event::Scan(owner.id));
    }

    /// Reads a part of a pass over the journal.
    pub(super) fn scan(&mut self, id: OwnerId) {
        let now = self.now;
        let count = self.chance.within(1, 20);
        let fails = self.faulty(self.plan.faults.scan_lost);
        let Some(owner) = self.owners.get_mut(&id) else { return };
        let (Some(protocol), Some(mut at)) = (&mut owner.protocol, owner.scan.take()) else { return };
        let low = self.partitions[owner.partition].journal.low();
        // A pass that is under way may be overtaken by the trim: of its own owner, for what comes next is further on, or of
        // a successor, which a zombie learns of when it reads the journal on.
        if fails || at < low {
            protocol.scan_failed();
            return self.after(100, 1000, Event::Wake(id));
        }
        for _ in 0..count {
            if !protocol.is_scanning() {
                break;
            }
            let Some((place, stored)) = self.partitions[owner.partition].journal.read(at) else { break };
            at = place + 1;
            let shape = stored.content.map(|content| Shape {
                bytes: content.bytes,
                key: content.key,
                traits: self.plan.mailboxes[content.mailbox].traits,
            });
            if let Scanned::Wanted(source) = protocol.scanned(place, &stored.entry, shape, now) {
                match stored.content {
                    Some(content) => drop(owner.contents.insert(source, content)),
                    None => {
                        self.oracle.fail(Failure::NoContent { partition: owner.partition, delivery: source });
                    }
                }
            }
        }
        if protocol.is_scanning() {
            owner.scan = Some(at);
            self.after(1, 100, Event::Scan(id));
        }
        self.pump(id);
    }

    fn forget(&mut self, owner: &mut Owner) {
        let Some(protocol) = &mut owner.protocol else { return };
        for source in protocol.take_forgotten() {
            owner.contents.remove(&source);
        }
    }

    fn set_timer(&mut self, owner: &mut Owner) {
        let Some(wake) = owner.protocol.as_ref().and_then(|protocol| protocol.next_wake()) else { return };
        let wake = wake.max(self.now);
        if owner.timer.is_none_or(|timer| wake < timer) {
            owner.timer = Some(wake);
            self.agenda.put(wake, Event::Timer(owner.id));
        }
    }

    pub(super) fn timer(&mut self, id: OwnerId) {
        let now = self.now;
        let Some(owner) = self.owners.get_mut(&id) else { return };
        if owner.timer.is_some_and(|timer| timer <= now) {
            owner.timer = None;
        }
        if let Some(protocol) = &mut owner.protocol {
            protocol.tick(now);
        }
        self.pump(id);
    }

    /// Records an end: the delivery is done when that arrived.
    pub(super) fn record(&mut self, owner: OwnerId, source: Source, dead: bool) {
        let written = !self.faulty(self.plan.faults.record_lost);
        self.after(1, 200, Event::Recorded { owner, source, dead, written });
    }

    /// Ends an owner that cannot go on. Its process claims the partition again while the group still gives it.
    pub(super) fn owner_fails(&mut self, id: OwnerId, why: Over) {
        let Some(mut owner) = self.owners.remove(&id) else { return };
        say!(self, "owner {id}: over, {why}");
        let (process, partition) = (owner.process, owner.partition);
        if owner.phase == Phase::Working {
            self.processes[process].owners.remove(&partition);
            let gives = self.processes[process].member.is_some();
            if gives {
                self.new_owner(process, partition);
            }
            return;
        }
        // It is to give the partition up: it stays, silent, until nothing of it runs.
        owner.protocol = None;
        self.wait_out(owner);
    }
}
