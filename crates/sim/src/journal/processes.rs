//! Processes: members of the group that crash, stop, come back and are moved about.

use std::collections::BTreeMap;
use std::time::Duration;

use mailrail_types::Timestamp;

use super::event::{AttemptId, Event, MemberId, OwnerId};
use super::owner::Phase;
use super::world::{World, say};

const HEARTBEAT: u64 = 3000;

#[derive(Debug, Default)]
pub(super) struct Process {
    /// Which run of the program it is: another one after each crash.
    pub(super) run: u64,
    pub(super) up: bool,
    pub(super) member: Option<MemberId>,
    pub(super) generation: u64,
    /// Until when its ownership is sure enough to start an attempt (I10).
    pub(super) lease: Timestamp,
    pub(super) stopped: bool,
    /// What it could not take while it was stopped.
    pub(super) kept: Vec<Event>,
    pub(super) owners: BTreeMap<usize, OwnerId>,
    /// When the last commit of a partition arrives. What is asked afterwards is answered afterwards.
    pub(super) commit_arrives: BTreeMap<usize, Timestamp>,
    /// Attempts that run, whoever started them (I12).
    pub(super) flying: BTreeMap<AttemptId, (usize, Timestamp)>,
    /// The owner whose isolated partition may try a delivery.
    pub(super) tries: Option<OwnerId>,
    /// The owner that waits until nothing else of the process runs, or has its trial then.
    pub(super) alone: Option<OwnerId>,
    /// It leaves when its partitions are handed over.
    pub(super) leaving: bool,
}

impl World<'_> {
    pub(super) fn boot(&mut self, at: usize) {
        if self.processes[at].up && self.processes[at].member.is_some() {
            return;
        }
        let member = self.group.join(at, self.now, &mut self.chance);
        say!(self, "process {at}: joins as member {member}");
        let run = self.id();
        let process = &mut self.processes[at];
        if process.run == 0 {
            process.run = run;
        }
        (process.up, process.member, process.leaving) = (true, Some(member), false);
        self.after(0, HEARTBEAT, Event::Heartbeat { process: at, member });
        self.tell_members();
    }

    /// Every member learns the generation, and what is its.
    pub(super) fn tell_members(&mut self) {
        for (member, process) in self.group.members() {
            self.after(0, 500, Event::Sync { process, member });
        }
    }

    pub(super) fn heartbeat(&mut self, at: usize, member: MemberId) {
        if self.processes[at].member != Some(member) {
            return;
        }
        if self.group.heartbeat(member, self.now) {
            self.after(HEARTBEAT, HEARTBEAT, Event::Heartbeat { process: at, member });
        } else {
            self.member_is_lost(at);
        }
    }

    /// The group put the process out: it is silent at once, and joins again.
    pub(super) fn member_is_lost(&mut self, at: usize) {
        say!(self, "process {at}: put out of the group");
        self.processes[at].member = None;
        let owners = std::mem::take(&mut self.processes[at].owners);
        for owner in owners.values() {
            self.owners.remove(owner);
        }
        self.after(100, 3000, Event::Boot(at));
    }

    pub(super) fn sessions(&mut self) {
        if self.group.expire(self.now, &mut self.chance) {
            say!(self, "the group put members out");
            self.tell_members();
        }
        self.after(1000, 1000, Event::Sessions);
    }

    pub(super) fn sync(&mut self, at: usize, member: MemberId) {
        let process = &self.processes[at];
        if process.member != Some(member) || process.leaving || !self.group.knows(member) {
            return;
        }
        self.processes[at].generation = self.group.generation();
        let assigned = self.group.assigned(member);
        for (partition, is_revoked) in assigned {
            match self.processes[at].owners.get(&partition).copied() {
                None if is_revoked => self.release(at, partition),
                None => self.new_owner(at, partition),
                Some(owner) if is_revoked => self.hand_over(owner),
                Some(_) => {}
            }
        }
        self.leave_if_done(at);
    }

    /// Something goes wrong with a process, or with the group.
    pub(super) fn trouble(&mut self) {
        if self.calm {
            return;
        }
        let at = self.chance.index(self.processes.len());
        let faults = self.plan.faults;
        if self.chance.happens(faults.rebalance) {
            say!(self, "rebalance");
            self.group.rebalance(self.now, &mut self.chance);
            self.tell_members();
        }
        let process = &self.processes[at];
        let (up, stopped) = (process.up && process.member.is_some(), process.stopped);
        if up && self.chance.happens(faults.crash) {
            self.crash(at);
        } else if up && !stopped && self.chance.happens(faults.short_stop) {
            self.stop(at, 500, 25_000);
        } else if up && !stopped && self.chance.happens(faults.long_stop) {
            self.stop(at, 31_000, 70_000);
        } else if up && !stopped && self.chance.happens(faults.restart) {
            self.restart(at);
        } else if self.chance.happens(faults.forget) {
            let partition = self.chance.index(self.partitions.len());
            say!(self, "the group forgets what was committed of {partition}");
            self.group.forget(partition);
            self.oracle.forgotten(partition);
        }
        let mean = self.plan.trouble_every.as_millis() as u64;
        self.after(mean / 10, mean * 2, Event::Trouble);
    }

    pub(super) fn crash(&mut self, at: usize) {
        say!(self, "process {at}: crashes");
        let of_process: Vec<u64> = self.buffered.iter().filter(|(_, p)| **p == at).map(|(b, _)| *b).collect();
        for batch in of_process {
            // What lies in its memory dies with it; what is on the wire may arrive.
            if self.chance.happens(0.5) {
                self.dropped.insert(batch);
            }
            self.buffered.remove(&batch);
        }
        self.owners.retain(|_, owner| owner.process != at);
        self.processes[at] = Process::default();
        self.after(500, 20_000, Event::Boot(at));
    }

    fn stop(&mut self, at: usize, low: u64, high: u64) {
        say!(self, "process {at}: stops");
        self.processes[at].stopped = true;
        let of_process: Vec<u64> = self.buffered.iter().filter(|(_, p)| **p == at).map(|(b, _)| *b).collect();
        for batch in of_process {
            if self.chance.happens(0.5) {
                self.buffered.remove(&batch);
            }
        }
        self.after(low, high, Event::Resume(at));
    }

    pub(super) fn resume(&mut self, at: usize) {
        if !self.processes[at].stopped {
            return;
        }
        say!(self, "process {at}: goes on");
        self.processes[at].stopped = false;
        for owner in self.owners.values_mut().filter(|owner| owner.process == at) {
            owner.pinned = None;
        }
        let mut kept = std::mem::take(&mut self.processes[at].kept);
        // What it finds first is not what came first.
        for last in (1..kept.len()).rev() {
            if self.chance.happens(0.3) {
                let other = self.chance.index(last + 1);
                if !keeps_order(&kept[last]) && !keeps_order(&kept[other]) {
                    kept.swap(last, other);
                }
            }
        }
        let mut at = self.now;
        for event in kept {
            at = at.plus(Duration::from_millis(self.chance.within(0, 20)));
            self.agenda.put(at, event);
        }
    }

    /// A restart that hands its partitions over.
    fn restart(&mut self, at: usize) {
        say!(self, "process {at}: leaves");
        self.processes[at].leaving = true;
        let owners: Vec<OwnerId> = self.processes[at].owners.values().copied().collect();
        for owner in owners {
            self.hand_over(owner);
        }
        self.leave_if_done(at);
    }

    pub(super) fn leave_if_done(&mut self, at: usize) {
        let process = &self.processes[at];
        if !process.leaving || !process.owners.is_empty() {
            return;
        }
        if let Some(member) = process.member {
            say!(self, "process {at}: left");
            self.group.leave(member, self.now, &mut self.chance);
            self.tell_members();
        }
        self.processes[at] = Process::default();
        self.after(500, 5000, Event::Boot(at));
    }

    /// A partition was given up.
    pub(super) fn release(&mut self, at: usize, partition: usize) {
        if let Some(owner) = self.processes[at].owners.remove(&partition)
            && !self.rules.driver.revoked_is_silent
        {
            self.commit_late(at, owner, partition);
        }
        if self.processes[at].leaving {
            return self.leave_if_done(at);
        }
        if let Some(member) = self.processes[at].member {
            self.group.released(member, partition);
            self.tell_members();
        }
    }

    /// Whether an owner has begun to give its partition up.
    pub(super) fn gives_up(phase: &Phase) -> bool {
        matches!(phase, Phase::Draining | Phase::HandingOff | Phase::LastCommit | Phase::WaitingOut)
    }
}

/// The entries of a batch, and its acknowledgement behind them.
fn keeps_order(event: &Event) -> bool {
    matches!(event, Event::Land { .. } | Event::Appended { .. })
}
