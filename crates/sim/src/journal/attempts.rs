//! Requests to receivers, and what becomes of them.

use mailrail_mailbox::{Hold, Settlement, Source};
use mailrail_types::{History, HoldReason, Timestamp};

use super::event::{AttemptId, Event, OwnerId};
use super::oracle::Flying;
use super::owner::{Content, Owner};
use super::scenario::ATTEMPT;
use super::world::{World, say};

/// What a request came to, as its sender learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Delivered,
    Failed,
    None,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) process: usize,
    pub(super) owner: OwnerId,
    pub(super) partition: usize,
    pub(super) source: Source,
    mailbox: usize,
    answer: Answer,
}

/// When to ask again whether an attempt is over that should be.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(100);
/// How long a person may leave an endpoint paused.
const PAUSED: std::time::Duration = std::time::Duration::from_hours(24);

impl World<'_> {
    /// Attempts a started delivery, unless something says "not now".
    pub(super) fn attempt(&mut self, owner: &mut Owner, source: Source, content: Content) {
        if let Some(hold) = self.held(owner, content) {
            say!(self, "owner {}: {source} is held, {hold:?}", owner.id);
            return self.settle(owner, source, Settlement::Held(hold));
        }
        if content.attempts >= self.plan.attempts_max {
            return self.end_dead(owner, source);
        }
        owner.alone_for = owner.alone_for.filter(|(alone, _)| *alone != source);
        let (id, now) = (self.id(), self.now);
        let deadline = now.plus(ATTEMPT);
        let slow = !self.calm && {
            let slow = self.plan.receivers[self.plan.mailboxes[content.mailbox].endpoint].slow;
            self.chance.happens(slow)
        };
        let takes = if slow { self.chance.millis(1000, 12_000) } else { self.chance.millis(5, 300) };
        // Whatever happens to its sender, the receiver is rid of it then.
        let ends = now.plus(takes).min(deadline);
        let arrives = now.plus(self.chance.millis(0, ends.since(now).as_millis() as u64));
        say!(
            self,
            "owner {}: attempt {id} of {source}, number {}, ends {ends:?}",
            owner.id,
            content.attempts + 1
        );
        if owner.known_done.contains(&source) {
            let failure = super::failure::Failure::SentAgain { partition: owner.partition, delivery: source };
            self.oracle.fail(failure);
        }
        self.oracle.started(owner.partition, Flying { source, owner: owner.id, attempt: id, ends }, now);
        let attempt = Attempt {
            process: owner.process,
            owner: owner.id,
            partition: owner.partition,
            source,
            mailbox: content.mailbox,
            answer: Answer::None,
        };
        self.attempts.insert(id, attempt);
        owner.flying.insert(source, (content.mailbox, deadline));
        self.processes[owner.process].flying.insert(id, (content.mailbox, deadline));
        if content.poison {
            let soon = self.chance.millis(0, 20);
            return self.agenda.put(now.plus(soon), Event::Kill(id));
        }
        self.agenda.put(arrives, Event::Arrive(id));
        self.agenda.put(ends, Event::Reply(id));
    }

    /// What keeps a mailbox from sending now.
    fn held(&mut self, owner: &Owner, Content { mailbox, poison, .. }: Content) -> Option<Hold> {
        let plan = self.plan.mailboxes[mailbox];
        let mut flying = self.processes[owner.process].flying.values().filter(|(of, _)| *of == mailbox);
        if !plan.traits.tolerant
            && self.rules.driver.flights_outlive
            && let Some((_, until)) = flying.next()
            && !owner.runs(mailbox)
        {
            let until = (*until).max(self.now.plus(AGAIN));
            return Some(Hold { reason: HoldReason::Unfinished, until });
        }
        if self.receivers[plan.endpoint].paused {
            return Some(Hold { reason: HoldReason::Paused, until: self.now.plus(PAUSED) });
        }
        let limited = self.plan.receivers[plan.endpoint].limited;
        // What kills its process is mostly found out when all other trouble is over.
        let is_limited = if poison { self.chance.happens(limited) } else { self.faulty(limited) };
        if !is_limited {
            return None;
        }
        let reasons = [HoldReason::Rate, HoldReason::Circuit, HoldReason::Concurrency];
        let reason = reasons[self.chance.index(reasons.len())];
        let most = if reason == HoldReason::Concurrency { 500 } else { 8000 };
        Some(Hold { reason, until: self.now.plus(self.chance.millis(20, most)) })
    }

    /// A request reaches its receiver.
    pub(super) fn arrive(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let (partition, source, owner) = (attempt.partition, attempt.source, attempt.owner);
        let endpoint = self.plan.mailboxes[attempt.mailbox].endpoint;
        let down = self.receivers[endpoint].down;
        let reply_lost = self.faulty(self.plan.receivers[endpoint].reply_lost);
        let answer = match (down, reply_lost) {
            (true, _) => Answer::Failed,
            (false, true) => Answer::None,
            (false, false) => Answer::Delivered,
        };
        if !down {
            say!(self, "received {partition}/{source}, reply lost {reply_lost}");
            self.oracle.received(partition, source, owner);
        }
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.answer = answer;
        }
    }

    /// The sender learns what came of an attempt.
    pub(super) fn reply(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        self.processes[attempt.process].flying.remove(&id);
        let Some(mut owner) = self.owners.remove(&attempt.owner) else { return };
        owner.flying.remove(&attempt.source);
        say!(self, "owner {}: attempt {id} of {}: {:?}", owner.id, attempt.source, attempt.answer);
        if owner.protocol.is_some() {
            self.answered(&mut owner, &attempt);
        }
        if let Some(protocol) = owner.protocol.as_mut().filter(|_| self.rules.driver.calls_again) {
            protocol.call(self.keys[attempt.mailbox].recipient());
        }
        let owner_id = owner.id;
        self.owners.insert(owner_id, owner);
        self.pump(owner_id);
    }

    fn answered(&mut self, owner: &mut Owner, attempt: &Attempt) {
        let source = attempt.source;
        if attempt.answer == Answer::Delivered {
            self.oracle.confirmed(attempt.partition, source, owner.id);
            self.settle(owner, source, Settlement::Ended);
            return self.record(owner.id, source, false);
        }
        let Some(content) = owner.contents.get_mut(&source) else {
            let failure =
                super::failure::Failure::NoContent { partition: attempt.partition, delivery: source };
            return self.oracle.fail(failure);
        };
        content.attempts += 1;
        let attempts = content.attempts;
        if attempts >= self.plan.attempts_max {
            return self.end_dead(owner, source);
        }
        let most = self.plan.backoff.as_millis() as u64;
        let due: Timestamp = self.now.plus(self.chance.millis(200, most));
        let history = History { attempts, ..History::default() };
        self.settle(owner, source, Settlement::Retry { due, history });
    }

    /// Every attempt failed: it is given up, and that is recorded before its mailbox goes on.
    pub(super) fn end_dead(&mut self, owner: &mut Owner, source: Source) {
        if !self.rules.driver.dead_is_recorded_first {
            self.settle(owner, source, Settlement::Ended);
        }
        self.record(owner.id, source, true);
    }

    fn settle(&mut self, owner: &mut Owner, source: Source, settlement: Settlement) {
        if let Some(protocol) = &mut owner.protocol {
            protocol.settle(source, settlement, self.now);
        }
    }

    /// An end is recorded, or could not be.
    pub(super) fn recorded(&mut self, id: OwnerId, source: Source, dead: bool, written: bool) {
        let now = self.now;
        let Some(owner) = self.owners.get_mut(&id) else { return };
        let Some(protocol) = &mut owner.protocol else { return };
        if !written {
            return self.owner_fails(id, "an end could not be recorded");
        }
        say!(self, "owner {id}: {source} is recorded, dead {dead}");
        self.oracle.ended(owner.partition, source, dead);
        if dead && self.rules.driver.dead_is_recorded_first {
            protocol.settle(source, Settlement::Ended, now);
        }
        protocol.recorded(source, now);
        self.pump(id);
    }
}
