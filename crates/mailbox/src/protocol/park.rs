//! Out of the window, into the journal.

use mailrail_types::{HoldReason, MailboxKey, Timestamp};

use super::Protocol;
use crate::entry::{Aside, Entry, Head, Hold, Kind, Link, Park, Place, Source};
use crate::lane::Turn;
use crate::window::{Meanwhile, Slot};

impl Protocol {
    /// Sends one record of the window to its backlog. It stays open until its entry was read back (I5).
    pub(super) fn park(&mut self, source: Source, mailbox: &MailboxKey, link: Link, hold: Hold) {
        let slot = self.window.get_mut(source).map(|open| &mut open.slot);
        let was = slot.map(|slot| std::mem::replace(slot, Slot::Parking(Meanwhile::default())));
        let lane = self.lane(mailbox);
        lane.parking += 1;
        if was == Some(Slot::Running) {
            lane.parked_running.push(source);
        }
        match link {
            Link::First => lane.stretches.push((source, source)),
            Link::Before(_) => lane.stretches.insert(0, (source, source)),
            Link::After(last) => {
                if let Some(stretch) = lane.stretches.iter_mut().find(|(_, end)| *end == last) {
                    stretch.1 = source;
                }
            }
        }
        self.send(Kind::Park(Park { mailbox: mailbox.clone(), source, link, hold }));
    }

    pub(super) fn send(&mut self, kind: Kind) {
        self.outbox.push(Entry { epoch: self.epoch, kind });
    }

    /// Parks all that the window holds of a mailbox, in order; the first of it waits for `hold`, the others for their turn.
    /// What a stretch covers is in it or has ended: while something that it would cover is on its way elsewhere, it is put
    /// off until that is certain.
    pub(super) fn block(&mut self, mailbox: &MailboxKey, hold: Hold) {
        let lane = self.lane(mailbox);
        if lane.must_wait_to_park() {
            lane.block_next = Some(hold);
            return;
        }
        lane.block_next = None;
        // Older than what is parked: only after a takeover, so that there are few stretches.
        let first = lane.stretches.first().map_or(Link::First, |(first, _)| Link::Before(*first));
        let mut link = first;
        for source in lane.queue.take() {
            let hold = match link {
                Link::After(_) => Hold { reason: HoldReason::BehindHead, until: hold.until },
                Link::First | Link::Before(_) => hold,
            };
            self.park(source, mailbox, link, hold);
            link = Link::After(source);
        }
    }

    /// Parks what was to be parked and had to wait.
    pub(super) fn block_if_put_off(&mut self, mailbox: &MailboxKey) {
        let Some(lane) = self.lanes.get_mut(mailbox) else { return };
        match lane.block_next.take() {
            Some(hold) if !lane.queue.is_empty() => self.block(mailbox, hold),
            // What was put off has ended since; what is behind it was not looked at meanwhile.
            Some(_) => self.make_ready(mailbox),
            None => {}
        }
    }

    /// Whether another delivery of the mailbox may be set aside.
    pub(super) fn has_room_aside(&self, mailbox: &MailboxKey) -> bool {
        let of_mailbox = self.fold.backlog(mailbox).map_or(0, |backlog| backlog.asides.len());
        let leaving = self.lanes.get(mailbox).map_or(0, |lane| lane.leaving);
        of_mailbox + leaving < self.config.mailbox_asides_max
            && self.fold.asides() + self.asides_sent < self.config.asides_max
    }

    /// Sets a record of the window aside: the mailbox goes on without it.
    pub(super) fn set_aside(&mut self, source: Source, mailbox: &MailboxKey, head: Head) {
        if let Some(open) = self.window.get_mut(source) {
            open.slot = Slot::Parking(Meanwhile::default());
        }
        self.asides_sent += 1;
        let lane = self.lane(mailbox);
        lane.queue.leave(source);
        lane.leaving += 1;
        self.send(Kind::Aside(Aside { mailbox: mailbox.clone(), content: None, head }));
    }

    /// Sets a delivery of the backlog aside, whose content is at `place` and stays there. The backlog passes over it once this was
    /// read back.
    pub(super) fn leave_backlog(&mut self, mailbox: &MailboxKey, place: Place, head: Head) {
        self.asides_sent += 1;
        let lane = self.lane(mailbox);
        lane.leaving += 1;
        if let Some(ahead) = lane.turn_of(head.source) {
            ahead.turn = Turn::Ended { recorded: false };
        }
        self.send(Kind::Aside(Aside { mailbox: mailbox.clone(), content: Some(place), head }));
    }

    /// Parks what a tolerant mailbox has in the window when some of it can only wait for an attempt that has taken long:
    /// because that is about the same, or because as many of them run as may (I8).
    pub(super) fn park_what_is_stuck(&mut self, mailbox: &MailboxKey, now: Timestamp) {
        let (long, parks) = (self.config.park_after, self.rules.slow_parks);
        let lane = self.lanes.get(mailbox).filter(|lane| lane.traits.tolerant && parks);
        let Some(lane) = lane.filter(|lane| lane.queue.has_waiting()) else { return };
        let full = self.flying.count(mailbox) >= lane.traits.flights_max(self.has_room_aside(mailbox));
        let all = full && self.flying.all_for(mailbox, long, now);
        let has_waiting_of = |key| lane.queue.has_waiting_of(key);
        if all || self.flying.keys_for(mailbox, long, now).any(has_waiting_of) {
            self.block(mailbox, Hold { reason: HoldReason::Slow, until: now });
        }
    }

    /// The window's part of a mailbox waits for `hold`. What waits for long is parked (I8).
    pub(super) fn hold(&mut self, mailbox: &MailboxKey, hold: Hold, now: Timestamp) {
        self.holds.insert(mailbox.clone(), hold);
        self.timers.due(hold.until, mailbox);
        let since = *self.held_since.entry(mailbox.clone()).or_insert(now);
        if !self.lane(mailbox).queue.is_empty() && self.rules.slow_parks {
            let limit = since.plus(self.config.park_after);
            if hold.until > limit || now >= limit {
                self.block(mailbox, hold);
            }
        }
    }
}
