//! Records of the deliveries come in.

use mailrail_types::{HoldReason, MailboxKey, Timestamp};

use super::Protocol;
use crate::entry::{Hold, Link, Source};
use crate::lane::Shape;
use crate::window::{Open, Slot};

/// What became of an offered record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// Its content is needed: keep it until it is forgotten.
    Taken,
    /// It is done, or parked already: its content is not needed.
    Known,
}

/// Where a record of a mailbox belongs.
enum Way {
    /// Into the window, behind what stands there of its mailbox.
    Window,
    /// Into the backlog.
    Park(Link),
    /// It is in the backlog, or was.
    Known,
}

impl Protocol {
    /// Whether another record may be offered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.stopping && (self.window.has_room() || !self.rules.bounded)
    }

    /// Takes the next record of the deliveries. Offsets grow; those left out count as done (I2b).
    pub fn offer(&mut self, source: Source, mailbox: &MailboxKey, shape: Shape, now: Timestamp) -> Offered {
        let fresh = self.window.admit(source);
        self.fetched_past(source);
        if !fresh {
            return Offered::Known;
        }
        if self.fold.backlog(mailbox).is_some_and(|backlog| backlog.asides.contains_key(&source)) {
            return Offered::Known;
        }
        let way = self.way_of(source, mailbox);
        if matches!(way, Way::Known) {
            self.settle_down(mailbox);
            return Offered::Known;
        }
        self.lane(mailbox).traits = shape.traits;
        let open = Open { bytes: shape.bytes, key: shape.key, since: now, slot: Slot::Queued };
        self.window.insert(source, open);
        match way {
            Way::Park(link) => {
                let reason = if link == Link::First { HoldReason::Overflow } else { HoldReason::BehindHead };
                self.park(source, mailbox, link, Hold { reason, until: now });
            }
            Way::Window | Way::Known => {
                self.lane(mailbox).queue.push(source, shape.key);
                self.make_ready(mailbox);
            }
        }
        Offered::Taken
    }

    /// Takes the next record of the deliveries when there is nothing to attempt: it cannot be read, or is a repetition. It
    /// is done once [`Protocol::recorded`].
    pub fn offer_ended(&mut self, source: Source, bytes: usize, now: Timestamp) -> Offered {
        let fresh = self.window.admit(source);
        self.fetched_past(source);
        if !fresh {
            return Offered::Known;
        }
        self.window.insert(source, Open { bytes, key: None, since: now, slot: Slot::Ended });
        Offered::Taken
    }

    fn way_of(&mut self, source: Source, mailbox: &MailboxKey) -> Way {
        let pressed = self.window.is_pressed();
        let queue_max = self.config.queue_max;
        let blocked_parks = self.rules.blocked_parks;
        let lane = self.lane(mailbox);
        if lane.clearing {
            // Whatever comes now stands behind the end of the backlog, which is a moment away.
            return Way::Window;
        }
        let below = lane.stretches.iter().rev().find(|(first, _)| *first <= source);
        match below {
            Some((_, last)) if source <= *last => Way::Known,
            Some(_) if !blocked_parks => Way::Window,
            Some((_, last)) => Way::Park(Link::After(*last)),
            // Older than the whole backlog: only after a takeover. It goes out before the backlog does (I7).
            None if lane.is_blocked() => Way::Window,
            None if lane.queue.len() >= queue_max && pressed => Way::Park(Link::First),
            None => Way::Window,
        }
    }

    /// What waited until the deliveries were read past a place may go on (I7).
    fn fetched_past(&mut self, source: Source) {
        while let Some(entry) = self.unfetched.first_entry()
            && *entry.key() <= source
        {
            for mailbox in entry.remove() {
                self.make_ready(&mailbox);
            }
        }
    }
}
