//! Deliveries that take their process down, and what an isolated owner does about them.

use mailrail_mailbox::{Protocol, SUSPECT_PAUSE, Source};

use super::event::{AttemptId, Event, OwnerId};
use super::failure::Failure;
use super::owner::{Content, Owner};
use super::world::{World, say};

impl World<'_> {
    /// Whether an owner may start something: not while another one of its process must be alone; and when its partition is
    /// isolated, only while no other isolated one tries a delivery.
    pub(super) fn may_try(&mut self, owner: &mut Owner) -> bool {
        if !self.rules.driver.one_tries {
            if let Some(protocol) = &mut owner.protocol {
                protocol.is_alone();
            }
            return true;
        }
        let process = &self.processes[owner.process];
        let (is_isolated, is_trying) =
            owner.protocol.as_ref().map_or((false, false), |p| (p.is_isolated(), p.is_trying()));
        let waits = self.tries(process.alone, owner)
            || (is_isolated && !is_trying && self.tries(process.tries, owner));
        if waits {
            if owner.protocol.as_ref().is_some_and(Protocol::has_ready) {
                self.after(50, 300, Event::Wake(owner.id));
            }
            return false;
        }
        if is_isolated {
            self.processes[owner.process].tries = Some(owner.id);
        }
        true
    }

    /// Whether another owner is at a trial.
    fn tries(&self, other: Option<OwnerId>, owner: &Owner) -> bool {
        let other = other.filter(|other| *other != owner.id);
        let other = other.and_then(|other| self.owners.get(&other)?.protocol.as_ref());
        other.is_some_and(Protocol::is_trying)
    }

    /// A trial that must be alone begins when nothing else runs.
    pub(super) fn be_alone(&mut self, owner: &mut Owner) {
        let Some(protocol) = &mut owner.protocol else { return };
        let Some(source) = protocol.wants_to_be_alone() else { return };
        self.processes[owner.process].alone = Some(owner.id);
        if !self.processes[owner.process].flying.is_empty() {
            return self.after(50, 300, Event::Wake(owner.id));
        }
        protocol.is_alone();
        let before = owner.alone_for.replace((source, self.now));
        let apart = before.map(|(_, before)| self.now.since(before));
        if let Some(apart) = apart.filter(|apart| *apart < SUSPECT_PAUSE) {
            let (partition, millis) = (owner.partition, apart.as_millis() as u64);
            self.oracle.fail(Failure::StoppedAgain { partition, delivery: source, millis });
        }
    }

    /// A delivery takes the process down that attempts it.
    pub(super) fn kill(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        let (process, partition, source) = (attempt.process, attempt.partition, attempt.source);
        if !self.processes[process].flying.contains_key(&id) {
            // It died before.
            return;
        }
        say!(self, "{partition}/{source} kills process {process}");
        let owner = self.owners.get(&attempt.owner).and_then(|owner| owner.protocol.as_ref());
        if owner.is_some_and(Protocol::is_isolated) {
            self.oracle.killed(partition, source);
        }
        self.crash(process);
    }

    /// A delivery is to blame: it goes to quarantine, and its mailbox goes on.
    pub(super) fn quarantine(&mut self, owner: &mut Owner, source: Source, content: Content) {
        say!(self, "owner {}: {source} of m{} goes to quarantine", owner.id, content.mailbox);
        self.oracle.condemned(owner.partition, source);
        self.end_dead(owner, source);
    }
}
