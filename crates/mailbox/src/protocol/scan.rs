//! Reading parked deliveries again: one pass over the journal serves all mailboxes that are due.

use std::collections::BTreeSet;

use mailrail_types::{MailboxKey, Timestamp};

use super::Protocol;
use super::entries::after;
use crate::entry::{Cursor, Entry, Kind, Link, Park, Place, Source};
use crate::lane::{Ahead, Rest, Shape, Turn};
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
        // With no room for what it finds a pass would be made again and again.
        if self.scan.is_some() || self.stopping || !self.has_content_room() {
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

    /// Takes the entry at `place` of a pass, and what its content is when it holds one.
    pub fn scanned(&mut self, place: Place, entry: &Entry, shape: Option<Shape>, now: Timestamp) -> Scanned {
        let Some(mut scan) = self.scan.take() else { return Scanned::Passed };
        let mut wanted = None;
        if let Some(shape) = shape
            && let Some(source) = self.wanting_asides.remove(&place)
        {
            wanted = self.aside_scanned(place, source, shape, now);
        }
        match &entry.kind {
            Kind::Claim(_) => scan.epoch = place,
            Kind::Park(park) => {
                scan.epoch = scan.epoch.max(entry.epoch);
                if let Some(shape) = shape
                    && entry.epoch == scan.epoch
                    && self.is_next(&scan, park, place)
                {
                    let found = Ahead {
                        source: park.source,
                        after: after(park.link),
                        at: place,
                        epoch: entry.epoch,
                        bytes: shape.bytes,
                        key: shape.key,
                        turn: Turn::Queued { until: Timestamp::ZERO },
                    };
                    wanted = self.park_scanned(&mut scan, park, found, shape, now).or(wanted);
                }
            }
            _ => scan.epoch = scan.epoch.max(entry.epoch),
        }
        let asides_over = self.wanting_asides.first_key_value().is_none_or(|(first, _)| *first >= scan.end);
        let is_over = (scan.wanting.is_empty() && asides_over) || place + 1 >= scan.end;
        if is_over || !self.has_content_room() {
            // Whoever got nothing asks again.
            for mailbox in scan.wanting {
                self.lane(&mailbox).wants = false;
                self.make_ready(&mailbox);
            }
        } else {
            self.scan = Some(scan);
        }
        let Some(source) = wanted else { return Scanned::Passed };
        self.forgotten.retain(|forgotten| *forgotten != source);
        Scanned::Wanted(source)
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

    /// The next of a wanting mailbox; gives it when its content is needed.
    fn park_scanned(
        &mut self,
        scan: &mut Scan,
        park: &Park,
        found: Ahead,
        shape: Shape,
        now: Timestamp,
    ) -> Option<Source> {
        let mailbox = &park.mailbox;
        let (source, next) = (found.source, Cursor { at: found.at + 1, epoch: found.epoch });
        // The end of the stretch as the fold knows it; what is still on its way comes by itself.
        let backlog = self.fold.backlog(mailbox);
        let last = backlog.and_then(|b| b.stretches.first()).map_or(source, |stretch| stretch.last);
        // It stands beside its mailbox already: the backlog passes over it, whatever there is room for.
        let is_aside = backlog.is_some_and(|b| b.asides.contains_key(&source) || b.passed.contains(&source));
        self.lane(mailbox).traits = shape.traits;
        let found =
            if is_aside { Ahead { bytes: 0, turn: Turn::Ended { recorded: true }, ..found } } else { found };
        let kept = self.keep_content(mailbox, found, is_aside, now);
        let lane = self.lane(mailbox);
        if kept {
            lane.rest = if source >= last { Rest::None } else { Rest::From { next, after: Some(source) } };
        }
        if !kept || lane.rest == Rest::None {
            lane.wants = false;
            scan.wanting.remove(mailbox);
        }
        if is_aside {
            self.advance_past(mailbox, now, Some(source));
        }
        self.make_ready(mailbox);
        (kept && !is_aside).then_some(source)
    }

    /// The content of a delivery aside; gives it when it is needed.
    fn aside_scanned(
        &mut self,
        place: Place,
        source: Source,
        shape: Shape,
        now: Timestamp,
    ) -> Option<Source> {
        if !self.has_content_room() {
            self.wanting_asides.insert(place, source);
            return None;
        }
        let aside = self.asides.get_mut(&source)?;
        (aside.traits, aside.key) = (shape.traits, shape.key);
        if aside.bytes.is_none() {
            aside.bytes = Some(shape.bytes);
            self.content += shape.bytes;
        }
        if aside.hold.until <= now && !aside.running {
            let priority = aside.traits.priority;
            self.push_ready(priority, Item::Aside(source));
        } else {
            let (until, mailbox) = (aside.hold.until, aside.mailbox.clone());
            self.timers.aside(until, &mailbox, source);
        }
        Some(source)
    }
}
