//! What is ready and lets others pass (I17): it waits for nothing of its own, so it is neither held nor parked, unless its recipient is
//! slow and the window is pressed (I8).

use mailrail_types::{HoldReason, MailboxKey, Timestamp};

use super::Protocol;
use crate::entry::Hold;
use crate::lane::Lane;
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
    /// `is_slow`: whether what runs of a recipient, anywhere in the process, has mostly run for [`PARK_AFTER`](super::PARK_AFTER).
    pub fn call_all(&mut self, now: Timestamp, is_slow: impl FnMut(&str) -> bool) {
        if self.stopping {
            // What was parked now would stand behind the last word.
            return;
        }
        self.make_room_behind_slow(now, is_slow);
        let recipients: Vec<Box<str>> = self.passed_over.recipients().map(Into::into).collect();
        for recipient in recipients {
            self.call(&recipient);
        }
    }

    /// In a window of which half is used, mail that waits for slow recipients would stop what is behind it (I8): it is parked. Behind quick
    /// ones it is lag. Its content at hand would stop that of others in the same way: it is dropped, and read again when it may go.
    fn make_room_behind_slow(&mut self, now: Timestamp, is_slow: impl FnMut(&str) -> bool) {
        let is_pressed = self.window.is_pressed() && self.rules.slow_parks;
        if self.passed_over.is_empty() || !(is_pressed || self.is_content_pressed()) {
            return;
        }
        let waiting: Vec<Item> = self.passed_over.items_of(is_slow).cloned().collect();
        for item in waiting.iter().filter(|_| is_pressed) {
            if let Item::Mailbox(mailbox) = item
                && self.lanes.get(mailbox).is_some_and(|lane| !lane.queue.is_empty())
            {
                self.block(mailbox, Hold { reason: HoldReason::Slow, until: now });
            }
        }
        // From the end: whose turn is next keeps what it needs for it.
        for item in waiting.iter().rev() {
            if !self.is_content_pressed() {
                break;
            }
            self.drop_content_of(item);
        }
    }

    /// Whether more than half of the room for content is used. The rest is not for what waits for slow recipients.
    fn is_content_pressed(&self) -> bool {
        self.content * 2 > self.config.content_max
    }

    fn drop_content_of(&mut self, item: &Item) {
        match item {
            Item::Mailbox(mailbox) => {
                // What runs and is still on its way into the backlog must find its place behind what is at hand.
                let is_followed = |lane: &Lane| !lane.parked_running.is_empty();
                if !self.lanes.get(mailbox).is_some_and(is_followed) {
                    self.drop_content(mailbox);
                }
            }
            Item::Aside(source) => {
                let aside = self.asides.get_mut(source).filter(|aside| !aside.running);
                let bytes = aside.and_then(|aside| aside.bytes.take());
                self.forget_aside(*source, bytes);
            }
        }
    }

    /// Something may start when its turn comes.
    pub(super) fn push_ready(&mut self, priority: u8, item: Item) {
        let (recipient, has_turn) = match &item {
            Item::Mailbox(mailbox) => {
                let lane = self.lanes.get_mut(mailbox);
                (mailbox.recipient(), lane.is_some_and(|lane| std::mem::take(&mut lane.has_turn)))
            }
            Item::Aside(source) => {
                let Some(aside) = self.asides.get_mut(source).filter(|aside| !aside.is_ready) else { return };
                aside.is_ready = true;
                (aside.mailbox.recipient(), std::mem::take(&mut aside.has_turn))
            }
        };
        let behind = self.passed_over.behind(recipient).filter(|_| !has_turn);
        behind.unwrap_or(&mut self.ready).push(priority, item);
    }

    pub(super) fn mailbox_of(&self, item: &Item) -> Option<MailboxKey> {
        match item {
            Item::Mailbox(mailbox) => Some(mailbox.clone()),
            Item::Aside(source) => self.asides.get(source).map(|aside| aside.mailbox.clone()),
        }
    }
}
