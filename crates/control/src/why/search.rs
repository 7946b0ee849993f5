//! Looking for a delivery in one partition: in its journal, its deliveries and its attempts.

use std::collections::{BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use mailrail_log::{Bounds, Readers, StoredRecord};
use mailrail_mailbox::{Backlog, Fold, Kind, Source};
use mailrail_types::{Attempt, Delivery, DeliveryId, MailboxKey, TenantId, Timestamp};
use mailrail_wire::{decode_attempt, decode_delivery, decode_entry};
use tokio::time::Instant;

use super::Looked;
use crate::config::Pipeline;
use crate::journal::{Journal, JournalHead, first_place};
use crate::reading::{Budget, Ended, Part, may_hold, read};
use crate::status::Ask;
use crate::waiting::{Head, Subject, head, is_parked};

/// Attempts are read backwards in steps of so many: the last one of a delivery tells.
const ATTEMPTS_STEP: u64 = 4_000;

/// A partition of a pipeline, and the mailbox that the delivery is known to be in.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) partition: u32,
    pub(super) mailbox: Option<MailboxKey>,
}

/// What was found of the delivery.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) parked: Option<Parked>,
    pub(super) queued: Option<Queued>,
    /// Its last attempt, and when that was written.
    pub(super) last: Option<(Timestamp, Attempt)>,
}

/// It is owed in the journal.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) delivery: Delivery,
    pub(super) source: Source,
    pub(super) written_at: Timestamp,
    pub(super) backlog: Backlog,
    /// Deliveries of its mailbox that go before it.
    pub(super) before: Option<u64>,
    /// The one that goes first.
    pub(super) head: Option<DeliveryId>,
}

/// It is on its way in the deliveries.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) delivery: Delivery,
    pub(super) written_at: Timestamp,
    /// Deliveries of its mailbox that go before it, the parked ones included.
    pub(super) before: u64,
    /// What is parked of its mailbox.
    pub(super) backlog: Option<Backlog>,
}

impl Found {
    pub(super) fn is_any(&self) -> bool {
        self.tenant().is_some()
    }

    pub(super) fn tenant(&self) -> Option<&TenantId> {
        let tried = || self.last.as_ref().map(|(_, attempt)| &attempt.tenant);
        self.delivery().map(|delivery| &delivery.event.tenant).or_else(tried)
    }

    /// The delivery itself, when it was found waiting.
    pub(super) fn delivery(&self) -> Option<&Delivery> {
        let queued = || self.queued.as_ref().map(|it| &it.delivery);
        self.parked.as_ref().map(|it| &it.delivery).or_else(queued)
    }
}

/// A look for one delivery.
pub(super) struct Search<'a> {
    pub(super) id: DeliveryId,
    pub(super) ask: Ask<'a>,
    pub(super) readers: &'a dyn Readers,
    /// Records of one topic of one partition.
    pub(super) records_max: u64,
    pub(super) deadline: Instant,
}

/// What is parked in a record of the journal.
struct Content {
    mailbox: MailboxKey,
    source: Source,
    delivery: Delivery,
    written_at: Timestamp,
}

impl Search<'_> {
    /// Looks in one partition. Says how far, too.
    pub(super) async fn look_in(&self, place: &Place<'_>) -> (Found, Looked) {
        let (mut found, mut looked) = (Found::default(), Looked { complete: true, ..Looked::default() });
        let Pipeline { deliveries, journal, attempts, deliver_group, .. } = place.pipeline;
        let subject = Subject { topic: deliveries, group: deliver_group, journal: Some(journal) };
        // Asked for first: what is done meanwhile is in the attempts, which are looked at last.
        let answers = async {
            let head = head(self.ask, subject, place.partition).await?;
            Ok((head, self.ask.bounds(&attempts.name, place.partition).await?))
        };
        match answers.await {
            Ok((head, attempts_bounds)) => {
                self.look_in_journal(place, &head, &mut found, &mut looked).await;
                self.look_in_attempts(place, attempts_bounds, &mut found, &mut looked).await;
            }
            Err(error) => looked.failed(error),
        }
        (found, looked)
    }

    fn budget(&self) -> Budget {
        Budget { left: self.records_max, deadline: self.deadline }
    }

    fn note(&self, budget: Budget, ended: Ended, looked: &mut Looked) {
        looked.records += self.records_max - budget.left;
        match ended {
            Ended::Whole => {}
            Ended::Cut => looked.complete = false,
            Ended::Failed(error) => looked.failed(error),
        }
    }

    /// The journal first, and then the deliveries that are not parked there.
    async fn look_in_journal(&self, place: &Place<'_>, head: &Head, found: &mut Found, looked: &mut Looked) {
        let mut budget = self.budget();
        let (mut fold, mut ended) = (Fold::new(0), Ended::Whole);
        if let Some(at) = &head.journal {
            let mut contents = Vec::new();
            let take = |record: &StoredRecord| contents.extend(self.content(record));
            let (journal, read) = Journal::read(self.readers, at, place.partition, &mut budget, take).await;
            (fold, ended) = (journal.fold, read);
            let mut content = contents.into_iter().find(|content| is_owed(&fold, content));
            if content.is_none() && ended == Ended::Whole {
                (content, ended) = self.look_further_back(place, at, &fold, &mut budget).await;
            }
            if let Some(content) = content {
                let parked = self.place_in_mailbox(place, at, &fold, content, &mut budget).await;
                found.parked = parked;
            }
        }
        self.note(budget, ended, looked);
        if found.parked.is_none() {
            self.look_in_deliveries(place, head, &fold, found, looked).await;
        }
    }

    /// Most of what is parked was parked before the snapshot.
    async fn look_further_back(
        &self,
        place: &Place<'_>,
        at: &JournalHead,
        fold: &Fold,
        budget: &mut Budget,
    ) -> (Option<Content>, Ended) {
        let from = match &place.mailbox {
            Some(mailbox) => fold.backlog(mailbox).and_then(first_place),
            None => fold.pin(),
        };
        let Some(from) = from.map(|from| from.max(at.bounds.low)) else { return (None, Ended::Whole) };
        let mut content = None;
        let part = Part { topic: &at.topic, partition: place.partition };
        let ended = read(self.readers, part, from..at.from, budget, |record| {
            content = self.content(record).filter(|content| is_owed(fold, content));
            if content.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let ended = ended.await;
        (content, ended)
    }

    /// The content of a journal record, when it is this delivery's.
    fn content(&self, record: &StoredRecord) -> Option<Content> {
        if !may_hold(&record.value, self.id.as_bytes()) {
            return None;
        }
        let (mailbox, source, delivery) = parked_in(record)?;
        let written_at = record.appended_at;
        (delivery.id == self.id).then_some(Content { mailbox, source, delivery, written_at })
    }

    /// Counts what goes before a parked delivery, and finds the one that goes first.
    async fn place_in_mailbox(
        &self,
        place: &Place<'_>,
        at: &JournalHead,
        fold: &Fold,
        content: Content,
        budget: &mut Budget,
    ) -> Option<Parked> {
        let Content { mailbox, source, delivery, written_at } = content;
        let backlog = fold.backlog(&mailbox)?.clone();
        let mut parked =
            Parked { delivery, source, written_at, backlog, before: Some(0), head: Some(self.id) };
        if parked.backlog.asides.contains_key(&source) {
            return Some(parked);
        }
        let from = parked.backlog.stretches.iter().map(|stretch| stretch.next.at).min()?.max(at.bounds.low);
        let (mut before, mut first): (BTreeSet<Source>, Option<(Source, DeliveryId)>) =
            (BTreeSet::new(), None);
        let part = Part { topic: &at.topic, partition: place.partition };
        let one_stretch = parked.backlog.stretches.len() == 1;
        let ended = read(self.readers, part, from..at.bounds.high, budget, |record| {
            if record.key == mailbox.as_str().as_bytes()
                && let Some((other, id)) = park_of(record)
                && parked.backlog.owes(other)
                && !parked.backlog.asides.contains_key(&other)
            {
                if other < source {
                    before.insert(other);
                }
                if first.is_none_or(|(lowest, _)| other < lowest) {
                    first = Some((other, id));
                }
                if other == source && one_stretch {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        let whole = ended.await == Ended::Whole;
        parked.before = whole.then_some(before.len() as u64);
        parked.head = first.map(|(_, id)| id).filter(|_| whole);
        Some(parked)
    }

    async fn look_in_deliveries(
        &self,
        place: &Place<'_>,
        head: &Head,
        fold: &Fold,
        found: &mut Found,
        looked: &mut Looked,
    ) {
        let mut budget = self.budget();
        let part = Part { topic: &head.topic, partition: place.partition };
        let mut counts: HashMap<Bytes, u64> = HashMap::new();
        let ended = read(self.readers, part, head.from.offset..head.end, &mut budget, |record| {
            if head.from.done.contains(record.offset) || is_parked(fold, record) {
                return ControlFlow::Continue(());
            }
            let mine = || decode_delivery(&record.value).ok().filter(|delivery| delivery.id == self.id);
            let mine = if may_hold(&record.value, self.id.as_bytes()) { mine() } else { None };
            let before = counts.entry(record.key.clone()).or_default();
            let Some(delivery) = mine else {
                *before += 1;
                return ControlFlow::Continue(());
            };
            let backlog = fold.backlog(&delivery.mailbox.key()).cloned();
            let before = *before + backlog.as_ref().map_or(0, Backlog::queued);
            found.queued = Some(Queued { delivery, written_at: record.appended_at, before, backlog });
            ControlFlow::Break(())
        });
        let ended = ended.await;
        self.note(budget, ended, looked);
    }

    /// The last attempt of the delivery, the newest attempts first.
    async fn look_in_attempts(
        &self,
        place: &Place<'_>,
        bounds: Bounds,
        found: &mut Found,
        looked: &mut Looked,
    ) {
        let mut budget = self.budget();
        let part = Part { topic: &place.pipeline.attempts.name, partition: place.partition };
        let (mut end, mut oldest) = (bounds.high, None);
        let mut ended = Ended::Whole;
        while end > bounds.low && found.last.is_none() {
            let step: Range<u64> =
                end.saturating_sub(ATTEMPTS_STEP.min(budget.left.max(1))).max(bounds.low)..end;
            let mut first = None;
            ended = read(self.readers, part, step.clone(), &mut budget, |record| {
                first.get_or_insert(record.appended_at);
                if may_hold(&record.value, self.id.as_bytes())
                    && let Ok(attempt) = decode_attempt(&record.value)
                    && attempt.delivery == self.id
                {
                    found.last = Some((record.appended_at, attempt));
                }
                ControlFlow::Continue(())
            })
            .await;
            if ended != Ended::Whole {
                break;
            }
            (end, oldest) = (step.start, first.or(oldest));
        }
        if ended != Ended::Whole && found.last.is_none() {
            looked.attempts_since_ms = oldest.map(Timestamp::millis);
        }
        if found.is_any() && ended == Ended::Cut {
            // Where it waits is known; only what came back last is not.
            ended = Ended::Whole;
        }
        self.note(budget, ended, looked);
    }
}

/// Whether it is parked still: its entry may be void, or its end may be written.
fn is_owed(fold: &Fold, content: &Content) -> bool {
    fold.backlog(&content.mailbox).is_some_and(|backlog| backlog.owes(content.source))
}

/// Mailbox, source and delivery of a record that holds a content.
fn parked_in(record: &StoredRecord) -> Option<(MailboxKey, Source, Delivery)> {
    let (entry, content) = decode_entry(&record.value).ok()?;
    let delivery = decode_delivery(&content?).ok()?;
    match entry.kind {
        Kind::Park(park) => Some((park.mailbox, park.source, delivery)),
        Kind::Aside(aside) => Some((aside.mailbox, aside.head.source, delivery)),
        _ => None,
    }
}

/// Source and id of a delivery that is parked behind others.
fn park_of(record: &StoredRecord) -> Option<(Source, DeliveryId)> {
    let (entry, content) = decode_entry(&record.value).ok()?;
    let Kind::Park(park) = entry.kind else { return None };
    Some((park.source, decode_delivery(&content?).ok()?.id))
}
