//! The group coordinator: who is a member, who has which partition, and what was committed.

use std::collections::BTreeMap;

use mailrail_types::Timestamp;

use super::chance::Chance;
use super::event::{CommitAnswer, CommitRequest, MemberId};
use super::scenario::{REBALANCE, SESSION};

struct Member {
    process: usize,
    /// Its last heartbeat or commit.
    seen: Timestamp,
}

struct Partition {
    target: Option<MemberId>,
    owned: Option<MemberId>,
    /// Since when its owner is to give it up.
    revoked: Option<Timestamp>,
    committed: Option<(u64, String)>,
}

/// The coordinator. It fences members, not partitions: a member may commit what is another's (I11).
pub(super) struct Group {
    members: BTreeMap<MemberId, Member>,
    partitions: Vec<Partition>,
    generation: u64,
    next_member: MemberId,
}

impl Group {
    pub(super) fn new(partitions: usize) -> Self {
        let partition = |_| Partition { target: None, owned: None, revoked: None, committed: None };
        Self {
            members: BTreeMap::new(),
            partitions: (0..partitions).map(partition).collect(),
            generation: 0,
            next_member: 1,
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Members and their processes.
    pub(super) fn members(&self) -> Vec<(MemberId, usize)> {
        self.members.iter().map(|(id, member)| (*id, member.process)).collect()
    }

    pub(super) fn knows(&self, member: MemberId) -> bool {
        self.members.contains_key(&member)
    }

    pub(super) fn join(&mut self, process: usize, now: Timestamp, chance: &mut Chance) -> MemberId {
        let id = self.next_member;
        self.next_member += 1;
        self.members.insert(id, Member { process, seen: now });
        self.rebalance(now, chance);
        id
    }

    pub(super) fn leave(&mut self, member: MemberId, now: Timestamp, chance: &mut Chance) {
        if self.members.remove(&member).is_some() {
            for partition in &mut self.partitions {
                if partition.owned == Some(member) {
                    (partition.owned, partition.revoked) = (None, None);
                }
            }
            self.rebalance(now, chance);
        }
    }

    /// Gives the partitions out anew. Whoever has one that is another's now must give it up first.
    pub(super) fn rebalance(&mut self, now: Timestamp, chance: &mut Chance) {
        self.generation += 1;
        let members: Vec<MemberId> = self.members.keys().copied().collect();
        for partition in &mut self.partitions {
            let stays = partition.owned.filter(|_| chance.happens(0.4));
            let any = members.get(chance.index(members.len())).copied();
            partition.target = stays.or(any);
            if partition.owned.is_none() {
                partition.owned = partition.target;
            }
            partition.revoked =
                (partition.owned != partition.target).then(|| partition.revoked.unwrap_or(now));
        }
    }

    /// What a member has, and whether it is to give it up.
    pub(super) fn assigned(&self, member: MemberId) -> Vec<(usize, bool)> {
        let of_member = self.partitions.iter().enumerate().filter(|(_, p)| p.owned == Some(member));
        of_member.map(|(at, p)| (at, p.target != Some(member))).collect()
    }

    /// A member has given a partition up.
    pub(super) fn released(&mut self, member: MemberId, at: usize) {
        let partition = &mut self.partitions[at];
        if partition.owned == Some(member) {
            (partition.owned, partition.revoked) = (partition.target, None);
            self.generation += 1;
        }
    }

    pub(super) fn heartbeat(&mut self, member: MemberId, now: Timestamp) -> bool {
        match self.members.get_mut(&member) {
            Some(known) => {
                known.seen = now;
                true
            }
            None => false,
        }
    }

    /// Puts out whoever was silent for a session, or did not give a partition up in time; says whether anybody was.
    pub(super) fn expire(&mut self, now: Timestamp, chance: &mut Chance) -> bool {
        let silent = self.members.iter().filter(|(_, m)| now.since(m.seen) > SESSION).map(|(id, _)| *id);
        let late = self.partitions.iter().filter(|p| p.revoked.is_some_and(|at| now.since(at) > REBALANCE));
        let out: Vec<MemberId> = silent.chain(late.filter_map(|p| p.owned)).collect();
        for member in &out {
            self.leave(*member, now, chance);
        }
        !out.is_empty()
    }

    /// Takes a commit. What it accepts also shows that the member is there.
    pub(super) fn commit(
        &mut self,
        request: &CommitRequest,
        metadata: String,
        now: Timestamp,
    ) -> CommitAnswer {
        if !self.heartbeat(request.member, now) {
            return CommitAnswer::UnknownMember;
        }
        if request.generation != self.generation && request.generation != CommitRequest::ANY_GENERATION {
            return CommitAnswer::Refused;
        }
        self.partitions[request.partition].committed = Some((request.checkpoint.offset, metadata));
        CommitAnswer::Accepted
    }

    pub(super) fn committed(&self, partition: usize) -> Option<&(u64, String)> {
        self.partitions[partition].committed.as_ref()
    }

    pub(super) fn forget(&mut self, partition: usize) {
        self.partitions[partition].committed = None;
    }
}
