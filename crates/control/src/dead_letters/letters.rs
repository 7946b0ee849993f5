//! Dead letters and quarantined records, looked at: lists, one of them, counts.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use mailrail_log::StoredRecord;
use mailrail_types::{
    DeadLetter, DeadReason, DeliveryId, EndpointId, LetterFilter, Mailbox, SourceMailbox, TenantId, Timestamp,
};
use mailrail_wire::decode_dead_letter;

use super::describe::{as_payload, more, quarantined, summary};
use super::follow::Follower;
use super::ledger::Standing;
use super::scan::{Cursor, Page, Scan};
use super::shapes::{LetterCount, LetterDetail, LetterList, QuarantineList, QuarantinedRecord};
use super::{DeadLetters, Trouble};
use crate::config::Topic;
use crate::reading::may_hold;

/// Letters of a page when the caller names no number, and the most.
pub(super) const PAGE_DEFAULT: usize = 100;
pub(super) const PAGE_MAX: usize = 1000;
/// Endpoints that a count tells apart.
const ENDPOINTS_MAX: usize = 1000;
const OTHERS: &str = "…";

/// A record of the dead letters: what it says, or why it cannot be read.
pub(super) type Read = Result<Box<DeadLetter>, String>;

impl DeadLetters {
    /// A page of the letters that `filter` takes, the newest first.
    ///
    /// # Errors
    /// [`Trouble`] when the log does not answer or `after` is no place.
    pub async fn list(
        &self,
        filter: &LetterFilter,
        limit: Option<usize>,
        after: Option<&str>,
    ) -> Result<LetterList, Trouble> {
        let topic = &self.inner.pipeline.dead_letters;
        let page = self.page(topic, after, limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX), |record| {
            let letter = read_if(filter, record)?;
            Some((record.appended_at, record.value.len(), letter.map(without_body)))
        });
        let page = page.await?;
        let ledger = self.ledger_or_not().await;
        let items = page.items.into_iter().map(|(partition, offset, (at, bytes, letter))| {
            let standing = |letter: &DeadLetter| ledger.as_ref().map(|it| standing(it, letter));
            summary((partition, offset), at, bytes, &letter, standing)
        });
        let items = items.collect();
        let (pipeline, next) = (self.pipeline().to_owned(), page.next.map(|next| next.text()));
        Ok(LetterList { pipeline, items, looked: page.looked, next, error: page.error })
    }

    /// One letter: by its position, or the newest one of a delivery. With its payload if `payload`.
    ///
    /// # Errors
    /// [`Trouble::NotFound`] when there is none, within what is looked at; [`Trouble::Log`].
    pub async fn show(&self, name: &str, payload: bool) -> Result<LetterDetail, Trouble> {
        let topic = &self.inner.pipeline.dead_letters;
        let (place, record) = match position(name) {
            Some(place) => (place, self.record(topic, place, name).await?),
            None => {
                let id: DeliveryId = name.parse().map_err(|_| Trouble::NotFound(name.to_owned()))?;
                let found = self.find(topic, id).await?;
                found.ok_or_else(|| Trouble::NotFound(name.to_owned()))?
            }
        };
        let letter = decode_dead_letter(&record.value).map(Box::new).map_err(|error| error.to_string());
        let ledger = self.ledger_or_not().await;
        let standing = |letter: &DeadLetter| ledger.as_ref().map(|it| standing(it, letter));
        let summary = summary(place, record.appended_at, record.value.len(), &letter, standing);
        let shown = match &letter {
            Ok(letter) => &letter.delivery.event.body,
            Err(_) => &record.value,
        };
        let more = letter.as_deref().ok().map(|letter| more(letter, payload));
        let payload = payload.then(|| as_payload(shown));
        let pipeline = self.pipeline().to_owned();
        Ok(LetterDetail { pipeline, summary, more, payload })
    }

    /// How many letters `filter` takes: of all of them, or as many as are looked at at once, from `after` on.
    ///
    /// # Errors
    /// As [`DeadLetters::list`].
    pub async fn count(&self, filter: &LetterFilter, after: Option<&str>) -> Result<LetterCount, Trouble> {
        let topic = &self.inner.pipeline.dead_letters;
        let page = self.page(topic, after, usize::MAX, |record| Some(Counted::of(read_if(filter, record)?)));
        let page = page.await?;
        let ledger = self.ledger_or_not().await;
        let mut count = LetterCount {
            pipeline: self.pipeline().to_owned(),
            redriven: ledger.as_ref().map(|_| 0),
            looked: page.looked,
            next: page.next.map(|next| next.text()),
            error: page.error,
            ..LetterCount::default()
        };
        let mut seen = HashSet::new();
        for (.., counted) in page.items {
            match counted {
                None => count.unreadable += 1,
                Some(letter) if !seen.insert((letter.id, letter.redrives)) => {}
                Some(letter) => {
                    if let (Some(redriven), Some(follower)) = (&mut count.redriven, &ledger) {
                        *redriven += u64::from(follower.ledger.was_put_back(letter.id, letter.redrives));
                    }
                    count.add(&letter);
                }
            }
        }
        Ok(count)
    }

    /// A page of quarantined records, the newest first. Of `filter`, tenant and endpoint are read from the record's key.
    ///
    /// # Errors
    /// As [`DeadLetters::list`]; [`Trouble::Filter`] for what is not known of a record that cannot be read.
    pub async fn quarantined(
        &self,
        filter: &LetterFilter,
        limit: Option<usize>,
        after: Option<&str>,
    ) -> Result<QuarantineList, Trouble> {
        let unknown = [
            ("event_type", filter.event_type.is_some()),
            ("reasons", !filter.reasons.is_empty()),
            ("ids", !filter.ids.is_empty()),
        ];
        if let Some((field, _)) = unknown.into_iter().find(|(_, given)| *given) {
            let detail =
                "it is not known of records that cannot be read: filter by tenant, endpoint and time"
                    .to_owned();
            return Err(Trouble::Filter { field, detail });
        }
        let topic = &self.inner.pipeline.quarantine;
        let page = self.page(topic, after, limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX), |record| {
            takes_quarantined(filter, record).then(|| quarantined((0, record.offset), record, false))
        });
        let page = page.await?;
        let items = page.items.into_iter().map(|(partition, offset, mut item)| {
            item.position = format!("{partition}:{offset}");
            item
        });
        let items = items.collect();
        let (pipeline, next) = (self.pipeline().to_owned(), page.next.map(|next| next.text()));
        Ok(QuarantineList { pipeline, items, looked: page.looked, next, error: page.error })
    }

    /// One quarantined record, by its position. With its raw bytes if `payload`.
    ///
    /// # Errors
    /// As [`DeadLetters::show`].
    pub async fn show_quarantined(&self, name: &str, payload: bool) -> Result<QuarantinedRecord, Trouble> {
        let place = position(name).ok_or_else(|| Trouble::NotFound(name.to_owned()))?;
        let record = self.record(&self.inner.pipeline.quarantine, place, name).await?;
        Ok(quarantined(place, &record, payload))
    }

    fn scan<'a>(&'a self, topic: &'a Topic) -> Scan<'a> {
        Scan { log: self.inner.log.as_ref(), topic, limits: self.inner.limits }
    }

    async fn page<T, F>(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
        take: F,
    ) -> Result<Page<T>, Trouble>
    where
        T: Send,
        F: Fn(&StoredRecord) -> Option<T> + Send + Sync,
    {
        let after = after.map(|after| Cursor::parse(after, topic.partitions)).transpose()?;
        // One look at a time: the next one waits for it, the log does not serve both.
        let _looking = self.inner.looking.lock().await;
        self.scan(topic).page(after.as_ref(), limit, |_, record| take(record)).await
    }

    async fn record(&self, topic: &Topic, place: (u32, u64), name: &str) -> Result<StoredRecord, Trouble> {
        let found = self.scan(topic).at(place.0, place.1).await?;
        found.ok_or_else(|| Trouble::NotFound(name.to_owned()))
    }

    /// The newest letter of a delivery.
    async fn find(
        &self,
        topic: &Topic,
        id: DeliveryId,
    ) -> Result<Option<((u32, u64), StoredRecord)>, Trouble> {
        let is_it = |record: &StoredRecord| {
            let letter = may_hold(&record.value, id.as_bytes())
                .then(|| decode_dead_letter(&record.value).ok())
                .flatten();
            letter.filter(|letter| letter.delivery.id == id).map(|_| record.clone())
        };
        let mut page = self.page(topic, None, 1, is_it).await?;
        match page.items.pop() {
            Some((partition, offset, record)) => Ok(Some(((partition, offset), record))),
            None if page.next.is_some() => Err(Trouble::LookedOnly(page.looked)),
            None => Ok(None),
        }
    }
}

impl LetterCount {
    fn add(&mut self, letter: &Counted) {
        self.letters += 1;
        *self.by_reason.entry(letter.reason.code().to_owned()).or_default() += 1;
        bounded(&mut self.by_endpoint, format!("{}/{}", letter.tenant, letter.endpoint), 1);
        let at = letter.died_at.millis();
        self.oldest_ms = Some(self.oldest_ms.map_or(at, |oldest| oldest.min(at)));
        self.newest_ms = Some(self.newest_ms.map_or(at, |newest| newest.max(at)));
    }

    /// Adds what the next page counted, and goes on where that ended.
    pub fn and(&mut self, page: LetterCount) {
        self.letters += page.letters;
        self.redriven = self.redriven.zip(page.redriven).map(|(a, b)| a + b);
        self.unreadable += page.unreadable;
        self.looked += page.looked;
        for (reason, letters) in page.by_reason {
            *self.by_reason.entry(reason).or_default() += letters;
        }
        for (endpoint, letters) in page.by_endpoint {
            bounded(&mut self.by_endpoint, endpoint, letters);
        }
        self.oldest_ms = [self.oldest_ms, page.oldest_ms].into_iter().flatten().min();
        self.newest_ms = self.newest_ms.max(page.newest_ms);
        (self.next, self.error) = (page.next, self.error.take().or(page.error));
    }
}

/// Of a letter, what a count needs: many are held at once.
struct Counted {
    id: DeliveryId,
    redrives: u32,
    tenant: TenantId,
    endpoint: EndpointId,
    reason: DeadReason,
    died_at: Timestamp,
}

impl Counted {
    /// `None` for a record that cannot be read.
    fn of(letter: Read) -> Option<Self> {
        let DeadLetter { delivery, reason, died_at, .. } = *letter.ok()?;
        Some(Self {
            id: delivery.id,
            redrives: delivery.history.redrives,
            tenant: delivery.event.tenant,
            endpoint: delivery.endpoint,
            reason,
            died_at,
        })
    }
}

fn standing(follower: &Follower, letter: &DeadLetter) -> Standing {
    follower.ledger.standing(letter.delivery.id, letter.delivery.history.redrives)
}

fn bounded(counts: &mut BTreeMap<String, u64>, name: String, more: u64) {
    let known = counts.len() < ENDPOINTS_MAX || counts.contains_key(&name);
    *counts.entry(if known { name } else { OTHERS.to_owned() }).or_default() += more;
}

/// `partition:offset`.
fn position(text: &str) -> Option<(u32, u64)> {
    let (partition, offset) = text.split_once(':')?;
    Some((partition.parse().ok()?, offset.parse().ok()?))
}

/// The letter, when the filter takes it; a record that cannot be read passes every filter but one by id.
fn read_if(filter: &LetterFilter, record: &StoredRecord) -> Option<Read> {
    if !filter.ids.is_empty() && !filter.ids.iter().any(|id| may_hold(&record.value, id.as_bytes())) {
        return None;
    }
    match decode_dead_letter(&record.value) {
        Ok(letter) => filter.takes(&letter).then(|| Ok(Box::new(letter))),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// What is held of a page does not hold bodies.
fn without_body(mut letter: Box<DeadLetter>) -> Box<DeadLetter> {
    letter.attempts = Vec::new();
    letter.delivery.event.body = Bytes::new();
    letter.delivery.event.unknown = Bytes::new();
    letter.delivery.unknown = Bytes::new();
    letter.unknown = Bytes::new();
    letter.delivery.event.forwarded = None;
    letter
}

fn takes_quarantined(filter: &LetterFilter, record: &StoredRecord) -> bool {
    let key = std::str::from_utf8(&record.key).ok();
    let tenant = || {
        let recipient = key.and_then(Mailbox::from_key).map(|mailbox| mailbox.tenant);
        recipient.or_else(|| key.and_then(SourceMailbox::from_key).map(|it| it.tenant))
    };
    let endpoint = || key.and_then(Mailbox::from_key).map(|mailbox| mailbox.endpoint);
    filter.tenant.as_ref().is_none_or(|wanted| tenant().as_ref() == Some(wanted))
        && filter.endpoint.as_ref().is_none_or(|wanted| endpoint().as_ref() == Some(wanted))
        && filter.since.is_none_or(|since| record.appended_at >= since)
        && filter.until.is_none_or(|until| record.appended_at < until)
}
