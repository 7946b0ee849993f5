//! Giving a partition up: attempts may end, the rest is said, and the last commit is made.

use mailrail_types::Timestamp;

use super::attempts::Attempt;
use super::event::{Event, OwnerId};
use super::owner::{Owner, Phase};
use super::scenario::{HAND_OVER, PRODUCE};
use super::world::{World, say};

impl World<'_> {
    /// The owner is to give its partition up.
    pub(super) fn hand_over(&mut self, id: OwnerId) {
        let Some(mut owner) = self.owners.remove(&id) else { return };
        if Self::gives_up(&owner.phase) {
            self.owners.insert(id, owner);
            return;
        }
        let is_at_work = owner.phase == Phase::Working;
        say!(self, "owner {id}: hands over, at work {is_at_work}");
        if !is_at_work {
            // It started nothing. A claim that still lands is followed by another one.
            return self.wait_out(owner);
        }
        if let Some(protocol) = &mut owner.protocol {
            protocol.stop();
        }
        owner.phase = Phase::Draining;
        self.owners.insert(id, owner);
        self.agenda.put(self.now.plus(HAND_OVER), Event::HandOver(id));
        self.pump(id);
    }

    /// The next step of a hand-over, when its time has come.
    pub(super) fn step_hand_over(&mut self, owner: &mut Owner) {
        let Some(protocol) = &mut owner.protocol else { return };
        match owner.phase {
            Phase::Draining if protocol.is_quiet() && owner.flying.is_empty() => self.say_last(owner),
            Phase::HandingOff if protocol.is_written() && owner.batch.is_none() => {
                let checkpoint = protocol.checkpoint();
                owner.phase = Phase::LastCommit;
                say!(self, "owner {}: handed off", owner.id);
                self.commit(owner, checkpoint);
                self.agenda.put(self.now.plus(HAND_OVER), Event::HandOver(owner.id));
            }
            _ => {}
        }
    }

    fn say_last(&mut self, owner: &mut Owner) {
        let Some(protocol) = &mut owner.protocol else { return };
        protocol.save_all();
        protocol.hand_off(self.now);
        owner.phase = Phase::HandingOff;
        self.send_entries(owner);
        self.agenda.put(self.now.plus(PRODUCE), Event::HandOver(owner.id));
    }

    /// A step of a hand-over took long enough.
    pub(super) fn hand_over_ends(&mut self, id: OwnerId) {
        let Some(mut owner) = self.owners.remove(&id) else { return };
        match owner.phase {
            Phase::Draining => {
                self.say_last(&mut owner);
                self.owners.insert(id, owner);
                self.pump(id);
            }
            Phase::LastCommit => self.release_said(owner),
            Phase::WaitingOut => self.wait_out(owner),
            // Its last word is still on the way, and is waited for: an entry arrives, or fails, in bounded time.
            _ => drop(self.owners.insert(id, owner)),
        }
    }

    pub(super) fn last_commit_answered(&mut self, id: OwnerId) {
        let over = self.owners.get(&id).is_some_and(|o| o.phase == Phase::LastCommit && o.commit.is_none());
        if over && let Some(owner) = self.owners.remove(&id) {
            self.release_said(owner);
        }
    }

    /// Gives the partition up: what this owner left running is in its last word. What owners before it in this process left
    /// running is not, and is waited for.
    fn release_said(&mut self, owner: Owner) {
        let others = self.flies_until(&owner, |attempt| attempt.owner != owner.id);
        self.release_at(owner, others);
    }

    /// Gives the partition up when nothing runs any more: the next owner is not told of it.
    pub(super) fn wait_out(&mut self, owner: Owner) {
        let all = self.flies_until(&owner, |_| true);
        self.release_at(owner, all);
    }

    /// When the last attempt of the process in the owner's partition is over.
    fn flies_until(&self, owner: &Owner, counts: impl Fn(&Attempt) -> bool) -> Option<Timestamp> {
        let flying = self.processes[owner.process].flying.iter();
        let of_partition = flying.filter(|(id, (mailbox, _))| {
            self.plan.mailboxes[*mailbox].partition == owner.partition
                && self.attempts.get(id).is_some_and(&counts)
        });
        of_partition.map(|(_, (_, until))| *until).max()
    }

    fn release_at(&mut self, mut owner: Owner, until: Option<Timestamp>) {
        match until.filter(|until| *until > self.now && self.rules.driver.unfinished_is_said) {
            Some(until) => {
                say!(self, "owner {}: waits for its attempts", owner.id);
                (owner.protocol, owner.phase) = (None, Phase::WaitingOut);
                let id = owner.id;
                self.owners.insert(id, owner);
                self.agenda.put(until, Event::HandOver(id));
            }
            None => self.release(owner.process, owner.partition),
        }
    }
}
