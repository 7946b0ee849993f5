//! Commits: what they carry, what comes back, and the trim that an accepted one allows.

use std::time::Duration;

use mailrail_mailbox::Checkpoint;

use super::event::{CommitAnswer, CommitRequest, Event, OwnerId};
use super::owner::{Owner, Phase};
use super::scenario::{ATTEMPT, LEASE_MARGIN, SESSION};
use super::world::{World, say};

/// A commit goes out at least this often, whether anything changed or not: it is what renews the lease (I10).
const RENEW: Duration = Duration::from_secs(5);
/// An answer that takes longer is none.
const ANSWER: Duration = Duration::from_secs(3);

impl World<'_> {
    pub(super) fn commit_tick(&mut self, id: OwnerId) {
        let Some(mut owner) = self.owners.remove(&id) else { return };
        if self.may_commit(&owner) && owner.commit.is_none() {
            let checkpoint = self.checkpoint(&owner);
            let is_same = owner
                .last_commit
                .as_ref()
                .is_some_and(|(last, at)| *last == checkpoint && self.now.since(*at) < RENEW);
            if !is_same {
                self.commit(&mut owner, checkpoint);
            }
        }
        let on = owner.protocol.is_some();
        self.owners.insert(id, owner);
        if on {
            self.after(400, 1000, Event::CommitTick(id));
        }
    }

    fn may_commit(&self, owner: &Owner) -> bool {
        owner.protocol.is_some() && matches!(owner.phase, Phase::Working | Phase::Draining)
    }

    fn checkpoint(&self, owner: &Owner) -> Checkpoint {
        let checkpoint = owner.protocol.as_ref().map_or_else(|| Checkpoint::at(0), |p| p.checkpoint());
        if self.rules.driver.pointer_read_back {
            return checkpoint;
        }
        let snapshot = owner.hasty_pointer.max(checkpoint.snapshot);
        Checkpoint { snapshot, ..checkpoint }
    }

    pub(super) fn commit(&mut self, owner: &mut Owner, checkpoint: Checkpoint) {
        let process = &self.processes[owner.process];
        let Some(member) = process.member else { return };
        owner.commits += 1;
        owner.commit = Some(owner.commits);
        owner.last_commit = Some((checkpoint.clone(), self.now));
        self.last_sent.insert(owner.partition, checkpoint.clone());
        let request = Box::new(CommitRequest {
            owner: owner.id,
            member,
            generation: process.generation,
            partition: owner.partition,
            checkpoint,
            sent: self.now,
            number: owner.commits,
        });
        if !self.rules.driver.trim_accepted {
            self.trim(owner, &request.checkpoint);
        }
        let faults = self.plan.faults;
        if self.faulty(faults.commit_lost) {
            let at = self.now.plus(ANSWER);
            return self.agenda.put(at, Event::CommitAnswered { request, answer: CommitAnswer::TimedOut });
        }
        let answer_lost = self.faulty(faults.answer_lost);
        // One connection: what was sent first arrives first.
        let soonest = self.now.plus(self.chance.millis(1, 200));
        let last = self.processes[owner.process].commit_arrives.entry(owner.partition).or_insert(soonest);
        *last = soonest.max(*last);
        self.agenda.put(*last, Event::CommitArrives { request, answer_lost });
    }

    /// The mutation I11: a task of an owner that is gone commits once more. The group takes it from any member.
    pub(super) fn commit_late(&mut self, at: usize, owner: OwnerId, partition: usize) {
        let Some(member) = self.processes[at].member else { return };
        let Some(checkpoint) = self.last_sent.get(&partition).cloned() else { return };
        let (generation, sent) = (CommitRequest::ANY_GENERATION, self.now);
        let request = CommitRequest { owner, member, generation, partition, checkpoint, sent, number: 0 };
        self.after(1000, 20_000, Event::CommitArrives { request: Box::new(request), answer_lost: true });
    }

    pub(super) fn commit_arrives(&mut self, request: Box<CommitRequest>, answer_lost: bool) {
        let mut answer = CommitAnswer::Refused;
        let is_garbled = self.faulty(self.plan.faults.garbled);
        if !self.faulty(self.plan.faults.refused) {
            let metadata = request.checkpoint.metadata();
            let metadata = if is_garbled { garble(&metadata) } else { metadata };
            answer = self.group.commit(&request, metadata, self.now);
        }
        say!(self, "commit of owner {} {:?}: {answer:?}", request.owner, request.checkpoint);
        if answer == CommitAnswer::Accepted {
            let readable = self.plan.faults.garbled == 0.0;
            self.oracle.committed(request.partition, &request.checkpoint, readable);
        }
        if answer_lost {
            let at = request.sent.plus(ANSWER);
            self.agenda.put(at, Event::CommitAnswered { request, answer: CommitAnswer::TimedOut });
        } else {
            self.after(1, 200, Event::CommitAnswered { request, answer });
        }
    }

    pub(super) fn commit_answered(&mut self, request: &CommitRequest, answer: CommitAnswer) {
        let Some(owner) = self.owners.get_mut(&request.owner) else { return };
        let (id, at) = (owner.id, owner.process);
        if owner.commit == Some(request.number) {
            owner.commit = None;
        }
        if self.processes[at].member != Some(request.member) {
            return;
        }
        match answer {
            CommitAnswer::Accepted => {
                // The group knew the member when it took this, and counts its session from there.
                let until = request.sent.plus(SESSION - ATTEMPT - LEASE_MARGIN);
                let process = &mut self.processes[at];
                process.lease = process.lease.max(until);
                let owners: Vec<OwnerId> = process.owners.values().copied().collect();
                if let Some(mut owner) = self.owners.remove(&id) {
                    self.trim(&mut owner, &request.checkpoint);
                    self.owners.insert(id, owner);
                }
                for owner in owners {
                    self.after(0, 20, Event::Wake(owner));
                }
            }
            CommitAnswer::UnknownMember => return self.member_is_lost(at),
            CommitAnswer::Refused | CommitAnswer::TimedOut => {
                if let Some(owner) = self.owners.get_mut(&id) {
                    owner.last_commit = None;
                }
            }
        }
        self.last_commit_answered(id);
    }

    /// Trims the journal below what the accepted commit, and what is owed, leave to be read.
    fn trim(&mut self, owner: &mut Owner, checkpoint: &Checkpoint) {
        owner.accepted_snapshot = owner.accepted_snapshot.max(checkpoint.snapshot);
        let Some(protocol) = &owner.protocol else { return };
        if let Some(before) = protocol.trim_before(owner.accepted_snapshot) {
            self.partitions[owner.partition].journal.trim(before);
        }
    }
}

/// What another program, or a hand, leaves of the metadata.
fn garble(metadata: &str) -> String {
    metadata.chars().rev().collect()
}
