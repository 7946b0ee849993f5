//! Reading parked deliveries again: one pass over the journal serves all mailboxes that are due.

use std::collections::BTreeSet;

use mailrail_types::{MailboxKey, Timestamp};

use super::Protocol;
use crate::entry::{Cursor, Entry, Kind, Link, Park, Place, Source};
use crate::lane::{Ahead, Rest, Traits, Turn};
use crate::ready::Item;

/// A pass over the journal.
#[derive(Debug)]
pub(super) struct Scan {
    /// The epoch that is valid where the pass is.
    epoch: Place,
    /// Mailboxes that want what comes.
    wanting: BTreeSet<MailboxKey>,
    /// One past the last place that can matter.
    end: Place,
}

/// What a scanned entry is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scanned {
    /// Its content is needed: keep it until it is forgotten.
    Wanted(Source),
    /// Nothing.
    Passed,
}

impl Protocol {
    /// Starts a pass over the journal: where to read from. `None` when nobody wants one, or one runs. Give each entry to
    /// [`Protocol::scanned`] until [`Protocol::is_scanning`] says that it is over.
    pub fn start_scan(&mut self) -> Option<Place> {
        if self.scan.is_some() || self.stopping {
            return None;
        }
        let mut from: Option<Cursor> = None;
        let mut wanting = BTreeSet::new();
        for mailbox in std::mem::take(&mut self.wanting) {
            let Some(lane) = self.lanes.get_mut(&mailbox) else { continue };
            let Rest::From { next, .. } = lane.rest else {
                lane.wants = false;
                continue;
            };
            if from.is_none_or(|from| next.at < from.at) {
                from = Some(next);
            }
            wanting.insert(mailbox);
        }
        let mut at = from.map(|from| from.at);
        if let Some((first, _)) = self.wanting_asides.first_key_value() {
            at = Some(at.map_or(*first, |at| at.min(*first)));
        }
        let at = at?;
        // Before the first cursor only content aside is read, by its place: no epoch is needed for that.
        let epoch = from.map_or(0, |from| from.epoch);
        self.scan = Some(Scan { epoch, wanting, end: self.fold.next() });
        Some(at)
    }

    /// Whether a pass over the journal goes on.
    #[must_use]
    pub fn is_scanning(&self) -> bool {
        self.scan.is_some()
    }

    /// The pass is over, whatever it found: it cannot be read on. What is still wanted is wanted again.
    pub fn scan_failed(&mut self) {
        if let Some(scan) = self.scan.take() {
            self.wanting.extend(scan.wanting);
        }
    }

    /// Takes the entry at `place` of a pass. `bytes`: the size of its content; `traits`: how its mailbox is drained.
    pub fn scanned(
        &mut self,
        place: Place,
        entry: &Entry,
        bytes: usize,
        traits: Option<Traits>,
        now: Timestamp,
    ) -> Scanned {
        let Some(mut scan) = self.scan.take() else { return Scanned::Passed };
        let mut scanned = Scanned::Passed;
        if let Some(source) = self.wanting_asides.remove(&place) {
            scanned = self.aside_scanned(source, bytes, now);
        }
        match &entry.kind {
            Kind::Claim(_) => scan.epoch = place,
            Kind::Park(park) => {
                scan.epoch = scan.epoch.max(entry.epoch);
                if entry.epoch == scan.epoch && self.is_next(&scan, park, place) {
                    let found = Ahead {
                        source: park.source,
                        at: place,
                        epoch: entry.epoch,
                        bytes,
                        turn: Turn::Queued { until: Timestamp::ZERO },
                    };
                    scanned = self.park_scanned(&mut scan, park, found, traits, now);
                }
            }
            _ => scan.epoch = scan.epoch.max(entry.epoch),
        }
        let asides_over = self.wanting_asides.first_key_value().is_none_or(|(first, _)| *first >= scan.end);
        if (scan.wanting.is_empty() && asides_over) || place + 1 >= scan.end {
            // Whoever got nothing asks again.
            for mailbox in scan.wanting {
                self.lane(&mailbox).wants = false;
                self.make_ready(&mailbox);
            }
        } else {
            self.scan = Some(scan);
        }
        scanned
    }

    /// Whether a park entry is the one that a wanting mailbox's chain goes on with.
    fn is_next(&self, scan: &Scan, park: &Park, place: Place) -> bool {
        if !scan.wanting.contains(&park.mailbox) {
            return false;
        }
        let Some(lane) = self.lanes.get(&park.mailbox) else { return false };
        let Rest::From { next, after } = lane.rest else { return false };
        let continues = match (after, park.link) {
            (Some(after), Link::After(last)) => after == last,
            (None, Link::First | Link::Before(_)) => {
                lane.stretches.first().is_some_and(|(first, _)| *first == park.source)
            }
            (Some(after), _) if !self.rules.chain => park.source > after,
            _ => false,
        };
        place >= next.at && continues
    }

    fn park_scanned(
        &mut self,
        scan: &mut Scan,
        park: &Park,
        found: Ahead,
        traits: Option<Traits>,
        now: Timestamp,
    ) -> Scanned {
        let mailbox = &park.mailbox;
        let (source, at, epoch) = (found.source, found.at, found.epoch);
        // The end of the stretch as the fold knows it; what is still on its way comes by itself.
        let backlog = self.fold.backlog(mailbox);
        let last = backlog.and_then(|b| b.stretches.first()).map_or(source, |stretch| stretch.last);
        let is_aside = backlog.is_some_and(|b| b.asides.contains_key(&source));
        let first = self.lane(mailbox).ahead.is_empty();
        if let Some(traits) = traits {
            self.lane(mailbox).traits = traits;
        }
        self.keep_content(mailbox, found, park.link, first, now);
        let lane = self.lane(mailbox);
        let kept = lane.ahead.back().is_some_and(|ahead| ahead.source == source);
        if !kept {
            lane.wants = false;
            scan.wanting.remove(mailbox);
            self.forgotten.retain(|forgotten| *forgotten != source);
            self.make_ready(mailbox);
            return Scanned::Passed;
        }
        lane.rest = if source >= last {
            Rest::None
        } else {
            Rest::From { next: Cursor { at: at + 1, epoch }, after: Some(source) }
        };
        if lane.rest == Rest::None {
            lane.wants = false;
            scan.wanting.remove(mailbox);
        }
        if is_aside {
            // It stands beside its mailbox already; the backlog passes over it.
            if let Some(ahead) = lane.turn_of(source) {
                ahead.turn = Turn::Ended { recorded: true };
            }
            self.advance_past(mailbox, now, None);
            self.forgotten.retain(|forgotten| *forgotten != source);
            self.make_ready(mailbox);
            return Scanned::Passed;
        }
        self.make_ready(mailbox);
        Scanned::Wanted(source)
    }

    fn aside_scanned(&mut self, source: Source, bytes: usize, now: Timestamp) -> Scanned {
        let Some(aside) = self.asides.get_mut(&source) else { return Scanned::Passed };
        if aside.bytes.is_none() {
            aside.bytes = Some(bytes);
            self.content += bytes;
        }
        if aside.hold.until <= now && !aside.running {
            self.ready.push(aside.priority, Item::Aside(source));
        } else {
            let (until, mailbox) = (aside.hold.until, aside.mailbox.clone());
            self.timers.aside(until, &mailbox, source);
        }
        Scanned::Wanted(source)
    }
}
