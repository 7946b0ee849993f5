//! Entries go to the journal and come back from it. What they say holds once they were read back, not before (I5).

use mailrail_types::{HoldReason, MailboxKey, Timestamp};
use thiserror::Error;

use super::Protocol;
use super::flight::{LiveAside, Settlement};
use crate::entry::{Aside, Entry, Head, Kind, Link, Park, Place, Source, State};
use crate::fold::Verdict;
use crate::lane::{Ahead, Lane, Rest, Turn};
use crate::window::{Meanwhile, Slot};

/// The journal says that this owner is none any more, or that not all it wrote arrived. Everything is dropped, and the
/// partition is claimed again if the group still gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fenced {
    /// Another claim follows ours.
    #[error("another member claimed the partition")]
    Claimed,
    /// An entry of ours is void: one before it is missing.
    #[error("an entry of this owner is missing from the journal")]
    Gap,
}

impl Protocol {
    /// Entries to append, in this order and as one batch; `None` when there are none, or while a batch is on its way. The
    /// caller gives the content of each parked delivery.
    pub fn take_batch(&mut self, entries_max: usize, now: Timestamp) -> Option<Vec<Entry>> {
        if self.appending {
            return None;
        }
        let batch = if self.snapshot_is_due(now) {
            // Nothing overtakes a snapshot that is due: under a load of entries it would never have its turn.
            if self.unread > 0 && self.rules.quiet_snapshot {
                return None;
            }
            self.take_snapshot(now)
        } else {
            let count = self.outbox.len().min(entries_max);
            self.outbox.drain(..count).collect::<Vec<_>>()
        };
        if batch.is_empty() {
            return None;
        }
        self.appending = true;
        self.unread += batch.len();
        if !self.rules.read_back {
            let parks = batch.iter().filter_map(|entry| match &entry.kind {
                Kind::Park(park) => Some(park.source),
                _ => None,
            });
            self.sent_parks = parks.collect();
        }
        Some(batch)
    }

    /// The batch is in the journal.
    pub fn appended(&mut self) {
        self.appending = false;
        // The mutation: taken as done although nobody saw that it is valid.
        for source in std::mem::take(&mut self.sent_parks) {
            self.window.remove(source);
        }
    }

    /// Takes the entry at `place`, read back from the journal; `bytes` is its size there. Every entry is given once, in order.
    ///
    /// # Errors
    /// [`Fenced`]: this owner is over.
    pub fn applied(
        &mut self,
        place: Place,
        entry: &Entry,
        bytes: usize,
        now: Timestamp,
    ) -> Result<(), Fenced> {
        if matches!(entry.kind, Kind::Claim(_)) && place > self.epoch && self.rules.fence {
            return Err(Fenced::Claimed);
        }
        let ours = entry.epoch == self.epoch && !matches!(entry.kind, Kind::Claim(_));
        let verdict = self.fold.apply(place, entry);
        if !ours {
            return Ok(());
        }
        self.unread = self.unread.saturating_sub(1);
        self.snapshots.wrote(bytes);
        if verdict == Verdict::Void {
            return if self.rules.fence { Err(Fenced::Gap) } else { Ok(()) };
        }
        match &entry.kind {
            Kind::Park(park) => self.park_applied(place, park, now),
            Kind::State(state) => self.state_applied(state, now),
            Kind::Clear { mailbox } => self.clear_applied(mailbox),
            Kind::Aside(aside) => self.aside_applied(place, aside, now),
            Kind::Snapshot(_) => self.snapshot_applied(),
            Kind::AsideEnded { source, .. } => self.aside_ended(*source),
            Kind::Trial { source } => self.trial_applied(*source),
            Kind::Claim(_) | Kind::HandOff(_) | Kind::TrialEnded { .. } | Kind::IsolationEnded => {}
        }
        self.leave_isolation_when_done();
        Ok(())
    }

    fn park_applied(&mut self, place: Place, park: &Park, now: Timestamp) {
        let (source, mailbox) = (park.source, &park.mailbox);
        let open = self.window.remove(source);
        let bytes = open.as_ref().map_or(0, |open| open.bytes);
        let key = open.as_ref().and_then(|open| open.key);
        let meanwhile = match open.map(|open| open.slot) {
            Some(Slot::Parking(meanwhile)) => meanwhile,
            _ => Meanwhile::default(),
        };
        let flies = self.flights.get(&source).is_some_and(|flight| !flight.ended);
        if matches!(park.link, Link::Before(_)) {
            // What is at hand belongs to a stretch that is not the lowest any more.
            self.drop_content(mailbox);
        }
        let lowest = self.fold.backlog(mailbox).and_then(|backlog| backlog.stretches.first().copied());
        let epoch = self.epoch;
        let lane = self.lane(mailbox);
        lane.parking = lane.parking.saturating_sub(1);
        lane.parked_running.retain(|running| *running != source);
        if lowest.is_some_and(|stretch| stretch.first == source) {
            lane.rest = Rest::None;
            lane.through = None;
        }
        let turn = match () {
            () if meanwhile.ended => Turn::Ended { recorded: meanwhile.recorded },
            () if flies || meanwhile.again.is_some() => Turn::Running,
            () => Turn::Queued { until: Timestamp::ZERO },
        };
        // What follows one that runs is found only behind it.
        let must = !matches!(turn, Turn::Queued { .. }) || !lane.parked_running.is_empty();
        let ahead = Ahead { source, after: after(park.link), at: place, epoch, bytes, key, turn };
        let mut kept = false;
        if lowest.is_some_and(|stretch| stretch.covers(source)) {
            lane.stretch_ended = false;
            kept = lane.rest == Rest::None && self.keep_content(mailbox, ahead, must, now);
        }
        if !kept {
            self.forgotten.push(source);
        }
        if let Some(head) = meanwhile.again {
            self.settle_backlog(source, mailbox, came(head), now);
        }
        self.after_read_back(mailbox, now);
    }

    fn state_applied(&mut self, state: &State, now: Timestamp) {
        let lane = self.lane(&state.mailbox);
        lane.states = lane.states.saturating_sub(1);
        if state.head.is_some() {
            lane.saving = lane.saving.saturating_sub(1);
        }
        self.next_stretch(&state.mailbox);
        self.after_read_back(&state.mailbox, now);
    }

    fn clear_applied(&mut self, mailbox: &MailboxKey) {
        self.holds.remove(mailbox);
        let lane = self.lane(mailbox);
        let fresh = Lane::new(lane.traits, None);
        let was = std::mem::replace(lane, fresh);
        debug_assert!(was.ahead.is_empty() && was.running == 0, "cleared with work under way (I7)");
        lane.queue = was.queue;
        lane.leaving = was.leaving;
        lane.is_ready = was.is_ready;
        if let Some(hold) = was.block_next {
            self.block(mailbox, hold);
        }
        self.make_ready(mailbox);
    }

    fn aside_applied(&mut self, place: Place, aside: &Aside, now: Timestamp) {
        let (source, mailbox) = (aside.head.source, &aside.mailbox);
        if let Some(live) = self.asides.get_mut(&source) {
            live.saving = live.saving.saturating_sub(1);
            self.timers.aside(live.hold.until.max(now), mailbox, source);
            return;
        }
        self.asides_sent = self.asides_sent.saturating_sub(1);
        let lane = self.lane(mailbox);
        lane.leaving = lane.leaving.saturating_sub(1);
        let traits = lane.traits;
        let mut live = LiveAside {
            mailbox: mailbox.clone(),
            content: aside.content.unwrap_or(place),
            bytes: None,
            hold: aside.head.hold,
            running: false,
            is_ready: false,
            has_turn: false,
            saving: 0,
            key: None,
            traits,
        };
        if aside.content.is_some() {
            self.left_backlog(source, mailbox, &mut live, now);
        } else {
            self.left_window(source, mailbox, &mut live);
        }
        let keep = live.hold.until <= now.plus(self.config.keep_for) || live.running;
        if live.bytes.is_some() && !keep {
            self.forget_aside(source, live.bytes.take());
        }
        let due = live.hold.until;
        let meanwhile =
            self.window.get_mut(source).map(|open| std::mem::replace(&mut open.slot, Slot::Ended));
        self.window.remove(source);
        self.asides.insert(source, live);
        if let Some(Slot::Parking(meanwhile)) = meanwhile {
            self.aside_meanwhile(source, meanwhile, now);
        }
        self.timers.aside(due, mailbox, source);
        self.after_read_back(mailbox, now);
    }

    /// A delivery of the backlog stands beside it now; the backlog goes on behind it.
    fn left_backlog(&mut self, source: Source, mailbox: &MailboxKey, live: &mut LiveAside, now: Timestamp) {
        let lane = self.lane(mailbox);
        if let Some(ahead) = lane.turn_of(source) {
            ahead.turn = Turn::Ended { recorded: true };
            // The content goes with it.
            live.key = ahead.key;
            live.bytes = Some(std::mem::take(&mut ahead.bytes));
            lane.ahead_bytes = lane.ahead_bytes.saturating_sub(live.bytes.unwrap_or(0));
        }
        self.advance_past(mailbox, now, Some(source));
    }

    fn left_window(&mut self, source: Source, mailbox: &MailboxKey, live: &mut LiveAside) {
        let open = self.window.get(source);
        let bytes = open.map_or(0, |open| open.bytes);
        live.key = open.and_then(|open| open.key);
        self.content += bytes;
        live.bytes = Some(bytes);
        let Some(flight) = self.flights.get(&source) else { return };
        live.running = true;
        if !flight.ended {
            let lane = self.lane(mailbox);
            lane.running = lane.running.saturating_sub(1);
        }
    }

    /// What came of an attempt while its delivery was on the way out of the window.
    fn aside_meanwhile(&mut self, source: Source, meanwhile: Meanwhile, now: Timestamp) {
        if meanwhile.recorded {
            self.recorded(source, now);
        } else if let Some(head) = meanwhile.again {
            self.settle_again_aside(source, head, now);
        }
    }

    fn settle_again_aside(&mut self, source: Source, head: Head, now: Timestamp) {
        let Some(aside) = self.asides.get_mut(&source) else { return };
        aside.hold = head.hold;
        let (mailbox, content) = (aside.mailbox.clone(), aside.content);
        self.timers.aside(head.hold.until.max(now), &mailbox, source);
        if head.history.is_some() {
            aside.saving += 1;
            self.send(Kind::Aside(Aside { mailbox, content: Some(content), head }));
        }
    }

    fn after_read_back(&mut self, mailbox: &MailboxKey, now: Timestamp) {
        self.block_if_put_off(mailbox);
        self.advance(mailbox, now);
        self.make_ready(mailbox);
    }
}

/// The one before in its stretch.
pub(super) fn after(link: Link) -> Option<Source> {
    match link {
        Link::After(last) => Some(last),
        Link::First | Link::Before(_) => None,
    }
}

/// The settlement that a head stands for.
fn came(head: Head) -> Settlement {
    match head.history {
        Some(history) => Settlement::Retry { due: head.hold.until, history },
        None if head.hold.reason == HoldReason::BehindHead => Settlement::NotStarted,
        None => Settlement::Held(head.hold),
    }
}
