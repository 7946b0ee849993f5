//! Working a backlog off: what has ended, what was written about it, and its end.

use mailrail_types::{MailboxKey, Timestamp};

use super::Protocol;
use crate::entry::{Cursor, Drained, Kind, Source};
use crate::lane::{Ahead, Rest, Turn};

impl Protocol {
    /// Takes what has ended off the front of a backlog; writes about it, and clears the backlog at its end.
    pub(super) fn advance(&mut self, mailbox: &MailboxKey, now: Timestamp) {
        self.advance_past(mailbox, now, None);
    }

    /// As [`Protocol::advance`]; `kept`: its content stays, because it stands aside now.
    pub(super) fn advance_past(&mut self, mailbox: &MailboxKey, now: Timestamp, kept: Option<Source>) {
        let Some(lane) = self.lanes.get_mut(mailbox) else { return };
        let was_saved = lane.unsaved.is_none();
        let was_crowded =
            lane.is_crowded && lane.ahead.front().is_some_and(|a| a.turn == Turn::Ended { recorded: true });
        while lane.ahead.front().is_some_and(|ahead| ahead.turn == Turn::Ended { recorded: true }) {
            let Some(ended) = lane.ahead.pop_front() else { break };
            lane.ahead_bytes = lane.ahead_bytes.saturating_sub(ended.bytes);
            self.content = self.content.saturating_sub(ended.bytes);
            let aside = kept == Some(ended.source) || self.asides.contains_key(&ended.source);
            if !aside {
                self.forgotten.push(ended.source);
            }
            let count = lane.unsaved.map_or(0, |drained| drained.count) + 1;
            let next = Cursor { at: ended.at + 1, epoch: ended.epoch };
            (lane.through, lane.follows) = (Some(ended.source), Some(next));
            lane.unsaved = Some(Drained { through: ended.source, next, count });
        }
        if was_crowded {
            // There may be a place for what follows now.
            lane.is_crowded = false;
            self.make_ready(mailbox);
        }
        let Some(lane) = self.lanes.get_mut(mailbox) else { return };
        let Some(unsaved) = lane.unsaved else {
            self.end_backlog_now(mailbox);
            return;
        };
        if lane.ahead.is_empty() && lane.rest == Rest::None {
            lane.stretch_ended = true;
        }
        if self.end_backlog_now(mailbox) {
            return;
        }
        let lane = self.lane(mailbox);
        let more_stretches = lane.stretch_ended && lane.stretches.len() > 1;
        if unsaved.count >= self.config.save_every || more_stretches {
            self.save(mailbox);
        } else if was_saved {
            self.timers.save(now.plus(self.config.save_after), mailbox);
        }
    }

    /// Writes how far a backlog was worked off.
    pub(super) fn save(&mut self, mailbox: &MailboxKey) {
        let Some(lane) = self.lanes.get_mut(mailbox) else { return };
        if lane.clearing {
            return;
        }
        if let Some(drained) = lane.unsaved.take() {
            let mut state = Self::state_of(mailbox);
            state.drained = Some(drained);
            lane.states += 1;
            self.send(Kind::State(state));
        }
    }

    /// Writes all that has ended and was not written: the next owner need not repeat it.
    pub fn save_all(&mut self) {
        let unsaved: Vec<MailboxKey> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.unsaved.is_some())
            .map(|(mailbox, _)| mailbox.clone())
            .collect();
        for mailbox in unsaved {
            self.save(&mailbox);
        }
    }

    /// Declares the backlog empty when nothing of it is left, here or in the deliveries (I7).
    pub(super) fn end_backlog_now(&mut self, mailbox: &MailboxKey) -> bool {
        let fetched = self.window.next();
        let no_overtaking = self.rules.no_overtaking;
        let Some(lane) = self.lanes.get_mut(mailbox) else { return false };
        let over = lane.stretch_ended
            && lane.stretches.len() == 1
            && lane.ahead.is_empty()
            && lane.rest == Rest::None
            && lane.parking == 0
            && lane.saving == 0
            && lane.running == 0
            && !lane.clearing
            && (lane.queue.is_empty() || !no_overtaking);
        if !over {
            return false;
        }
        let last = lane.stretches.first().map_or(0, |(_, last)| *last);
        if fetched <= last {
            self.unfetched.entry(last).or_default().insert(mailbox.clone());
            return false;
        }
        lane.clearing = true;
        lane.unsaved = None;
        self.send(Kind::Clear { mailbox: mailbox.clone() });
        true
    }

    /// The lowest stretch ended and its end was read back: the next one is the lowest now.
    pub(super) fn next_stretch(&mut self, mailbox: &MailboxKey) {
        let Some(backlog) = self.fold.backlog(mailbox) else { return };
        let Some(lowest) = backlog.stretches.first().copied() else { return };
        let Some(lane) = self.lanes.get_mut(mailbox) else { return };
        if lane.stretch_ended && lane.stretches.first().is_some_and(|(first, _)| *first < lowest.first) {
            lane.stretches.retain(|(first, _)| *first >= lowest.first);
            (lane.through, lane.follows) = (lowest.drained, Some(lowest.next));
            lane.stretch_ended = lowest.is_drained();
            lane.rest = if lowest.is_drained() {
                Rest::None
            } else {
                Rest::From { next: lowest.next, after: lowest.drained }
            };
        }
    }

    /// Whether more content may be kept (I14). One always may, however large: else it could never be delivered.
    pub(super) fn has_content_room(&self) -> bool {
        self.content == 0 || self.content < self.config.content_max
    }

    /// Keeps the content of the next delivery of the lowest stretch, if there is room for it or it `must` be; else the backlog
    /// is read on from there later. Says whether it was kept.
    pub(super) fn keep_content(
        &mut self,
        mailbox: &MailboxKey,
        ahead: Ahead,
        must: bool,
        now: Timestamp,
    ) -> bool {
        let far = self.hold_of(mailbox).is_some_and(|hold| hold.until > now.plus(self.config.keep_for));
        let fits = self.has_content_room();
        let of_mailbox = self.config.mailbox_content_max;
        let lane = self.lane(mailbox);
        let is_fair = lane.ahead.is_empty() || lane.ahead_bytes + ahead.bytes <= of_mailbox;
        let keep = must || (!far && fits && is_fair);
        lane.is_crowded = !keep && !is_fair;
        if keep {
            lane.ahead_bytes += ahead.bytes;
            let bytes = ahead.bytes;
            lane.ahead.push_back(ahead);
            self.content += bytes;
        } else {
            lane.rest = Rest::From { next: Cursor { at: ahead.at, epoch: ahead.epoch }, after: ahead.after };
        }
        keep
    }

    /// Drops the content at hand of a backlog whose time is far off, that is not the next to go, or that others need the room of.
    pub(super) fn drop_content(&mut self, mailbox: &MailboxKey) {
        let Some(lane) = self.lanes.get_mut(mailbox) else { return };
        let idle = lane.ahead.iter().all(|ahead| matches!(ahead.turn, Turn::Queued { .. }));
        let Some(first) = lane.ahead.front().filter(|_| idle) else { return };
        let next = Cursor { at: first.at, epoch: first.epoch };
        lane.rest = Rest::From { next, after: first.after };
        for ahead in lane.ahead.drain(..) {
            self.content = self.content.saturating_sub(ahead.bytes);
            self.forgotten.push(ahead.source);
        }
        lane.ahead_bytes = 0;
        lane.is_crowded = false;
    }
}
