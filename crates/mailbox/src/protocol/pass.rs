//! What is ready and lets others pass (I17): it waits for nothing of its own, so it is neither held nor parked, unless its recipient is
//! slow and the window is pressed.

use std::collections::BTreeSet;

use mailrail_types::{HoldReason, MailboxKey, Timestamp};

use super::Protocol;
use crate::entry::Hold;
use crate::ready::Item;

impl Protocol {
    /// Its recipient has what it may have.
    pub(super) fn pass_over(&mut self, mailbox: &MailboxKey, priority: u8, item: Item) {
        // What it waited for before is over.
        self.held_since.remove(mailbox);
        self.passed_over.put(mailbox.recipient(), priority, item);
    }

    /// There may be room for one more of a recipient, of which something had to let others pass.
    pub fn call(&mut self, recipient: &str) {
        while let Some((priority, item)) = self.passed_over.call(recipient) {
            if self.mailbox_of(&item).is_some() {
                self.ready.push(priority, item);
                return;
            }
            self.passed_over.went(recipient, &item);
        }
    }

    /// The same for every recipient. To be called now and then: a recipient may have more too when others take less, of which nobody tells.
    pub fn call_all(&mut self, now: Timestamp) {
        self.park_behind_slow(now);
        let recipients: Vec<Box<str>> = self.passed_over.recipients().map(Into::into).collect();
        for recipient in recipients {
            self.call(&recipient);
        }
    }

    /// In a window of which half is used, mail that waits for recipients whose attempts take long would stop what is behind it (I8). Behind
    /// quick ones it is lag.
    fn park_behind_slow(&mut self, now: Timestamp) {
        if self.passed_over.is_empty() || !self.window.is_pressed() || !self.rules.slow_parks {
            return;
        }
        let is_slow =
            |deadline: Timestamp| deadline.since(now) + self.config.park_after <= self.config.attempt_timeout;
        let slow = self.flights.values().filter(|flight| !flight.ended && is_slow(flight.deadline));
        let recipients: BTreeSet<&str> = slow.map(|flight| flight.mailbox.recipient()).collect();
        let waiting = recipients.into_iter().flat_map(|recipient| self.passed_over.mailboxes(recipient));
        let mailboxes: Vec<MailboxKey> = waiting.cloned().collect();
        for mailbox in mailboxes {
            if self.lanes.get(&mailbox).is_some_and(|lane| !lane.queue.is_empty()) {
                self.block(&mailbox, Hold { reason: HoldReason::Slow, until: now });
            }
        }
    }

    /// Something may start when its turn comes.
    pub(super) fn push_ready(&mut self, priority: u8, item: Item) {
        let behind = match &item {
            Item::Mailbox(mailbox) => self.passed_over.behind(mailbox.recipient()),
            Item::Aside(source) => {
                let Some(aside) = self.asides.get_mut(source).filter(|aside| !aside.is_ready) else { return };
                aside.is_ready = true;
                self.passed_over.behind(aside.mailbox.recipient())
            }
        };
        behind.unwrap_or(&mut self.ready).push(priority, item);
    }

    pub(super) fn mailbox_of(&self, item: &Item) -> Option<MailboxKey> {
        match item {
            Item::Mailbox(mailbox) => Some(mailbox.clone()),
            Item::Aside(source) => self.asides.get(source).map(|aside| aside.mailbox.clone()),
        }
    }
}
