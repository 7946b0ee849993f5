//! The endpoints: up, down, slow, paused by a person.

use mailrail_types::HoldReason;

use super::event::Event;
use super::owner::Owner;
use super::world::{World, say};

#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) down: bool,
    pub(super) paused: bool,
}

impl World<'_> {
    pub(super) fn receiver_changes(&mut self, at: usize) {
        if self.calm {
            return;
        }
        let plan = self.plan.receivers[at];
        let down = self.chance.happens(plan.down);
        let paused = self.chance.happens(plan.paused);
        let was_paused = self.receivers[at].paused;
        (self.receivers[at].down, self.receivers[at].paused) = (down, paused);
        say!(self, "receiver {at}: down {down}, paused {paused}");
        if was_paused && !paused {
            self.tell_resumed(at);
        }
        self.after(2000, 60_000, Event::Receiver(at));
    }

    pub(super) fn receiver_recovers(&mut self, at: usize) {
        let was_paused = self.receivers[at].paused;
        (self.receivers[at].down, self.receivers[at].paused) = (false, false);
        if was_paused {
            self.tell_resumed(at);
        }
    }

    /// Tells every owner that an endpoint is not paused any more.
    fn tell_resumed(&mut self, endpoint: usize) {
        let owners: Vec<u64> = self.owners.keys().copied().collect();
        for id in owners {
            let Some(mut owner) = self.owners.remove(&id) else { continue };
            self.wake_what_may_go(&mut owner, |of| of == endpoint);
            self.owners.insert(id, owner);
            self.after(1, 100, Event::Wake(id));
        }
    }

    /// Wakes what waits for endpoints that are not paused any more. A new owner does so once: it missed what happened before.
    pub(super) fn wake_what_may_go(&self, owner: &mut Owner, concerns: impl Fn(usize) -> bool) {
        let Some(protocol) = &mut owner.protocol else { return };
        protocol.wake(self.now, |key, reason| {
            let mailbox = self.keys.iter().position(|known| known == key);
            let endpoint = mailbox.map(|mailbox| self.plan.mailboxes[mailbox].endpoint);
            reason == HoldReason::Paused
                && endpoint.is_some_and(|endpoint| concerns(endpoint) && !self.receivers[endpoint].paused)
        });
    }
}
