//! A batch of letters: gathered from the dead letters, and put back into the deliveries, each once.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::{LogError, NewRecord, Reader, StoredRecord};
use mailrail_types::{
    DeadLetter, Delivery, DeliveryId, History, RedriveBatch, Redriven, ReplayStep, Unsent, UnsentReason,
};
use mailrail_wire::{decode_dead_letter, decode_delivery, encode_delivery};

use super::run::Run;
use super::settle::Found;
use crate::dead_letters::Trouble;
use crate::dead_letters::follow::answer;
use crate::mailboxes::now;

/// Header of a redriven delivery's record: the replay that put it back.
pub(super) const REPLAY_HEADER: &str = "mailrail-replay";
/// Dead letters that are read at once.
pub(super) const READ_AT_A_TIME: usize = 500;
/// Bytes of a batch, one record over it included.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Until a failed append is looked after.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Appends of a batch before the replay stands still for a while.
const APPENDS_MAX: u32 = 5;

/// Reads on in one partition of the dead letters.
pub(super) struct Source {
    partition: u32,
    next: u64,
    reader: Option<Box<dyn Reader>>,
    ahead: VecDeque<StoredRecord>,
}

/// Letters for a batch, and how far they were looked for.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) step: ReplayStep,
    pub(super) letters: Vec<Redriven>,
    pub(super) records: Vec<NewRecord>,
}

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Put {
    /// It is put back, but for these.
    Done(Vec<Unsent>),
    /// The replay is not this process's any more.
    Lost,
    /// The process is to end; the batch stays open.
    Stopped,
}

impl Run<'_> {
    /// The next letters that are due in `partition` from `next` on, as many as a batch takes; none when there are none up to
    /// `to`, or when it is time to say something.
    pub(super) async fn gather(&mut self, partition: u32, next: u64, to: u64) -> Result<Gathered, Trouble> {
        let mut gathered =
            Gathered { step: ReplayStep { partition, next, ..ReplayStep::default() }, ..Gathered::default() };
        let (mut bytes, mut seen) = (0, HashSet::new());
        let size = self.pace.batch();
        while gathered.letters.len() < size && bytes < BATCH_BYTES_MAX && gathered.step.next < to {
            if self.must_speak() {
                break;
            }
            let Some(record) = self.next_letter(partition, gathered.step.next, to).await? else {
                gathered.step.next = to;
                break;
            };
            gathered.step.next = record.offset + 1;
            let letter = match decode_dead_letter(&record.value) {
                Ok(letter) => letter,
                Err(error) => {
                    tracing::warn!(partition, offset = record.offset, %error, "a dead letter cannot be read and stays");
                    gathered.step.unreadable += 1;
                    continue;
                }
            };
            if !self.order.filter.takes(&letter) {
                continue;
            }
            let (id, redrives) = (letter.delivery.id, letter.delivery.history.redrives);
            let follower = self.all.inner.follower.lock().await;
            let due =
                follower.ledger.get(&self.replay).is_some_and(|it| follower.ledger.is_due(it, id, redrives));
            let redrives = follower.ledger.next_redrives(id, redrives);
            drop(follower);
            if !due || !seen.insert(id) {
                gathered.step.skipped += 1;
                continue;
            }
            let put_back = self.record(letter, redrives);
            bytes += put_back.value.len();
            gathered.letters.push(Redriven { delivery: id, redrives, offset: record.offset });
            gathered.records.push(put_back);
        }
        Ok(gathered)
    }

    /// The next record from `next` on and below `to`; `None` when there is none.
    async fn next_letter(
        &mut self,
        partition: u32,
        next: u64,
        to: u64,
    ) -> Result<Option<StoredRecord>, Trouble> {
        let fits = |source: &Source| source.partition == partition && source.next == next;
        if !self.source.as_ref().is_some_and(fits) {
            self.source = None;
        }
        let limits = self.all.inner.limits;
        let topic = &self.all.inner.pipeline.dead_letters.name;
        let source = match &mut self.source {
            Some(source) => source,
            None => {
                let bounds = answer(limits.answer, self.all.inner.log.bounds(topic, partition)).await?;
                // What was below is gone: its retention was over.
                let next = next.max(bounds.low);
                self.source.insert(Source { partition, next, reader: None, ahead: VecDeque::new() })
            }
        };
        if source.next >= to {
            return Ok(None);
        }
        if source.ahead.is_empty() {
            let reader = match &mut source.reader {
                Some(reader) => reader,
                None => source
                    .reader
                    .insert(self.readers.open(topic, partition, source.next).map_err(Trouble::of)?),
            };
            match answer(limits.answer, reader.next(READ_AT_A_TIME)).await {
                Ok(records) => source.ahead.extend(records),
                Err(trouble) => {
                    self.source = None;
                    return Err(trouble);
                }
            }
        }
        let Some(record) = source.ahead.pop_front() else { return Ok(None) };
        source.next = record.offset + 1;
        Ok((record.offset < to).then_some(record))
    }

    /// The delivery as it is put back: same id and content, with all of its attempts and its time before it again.
    pub(super) fn record(&self, letter: DeadLetter, redrives: u32) -> NewRecord {
        let delivery = Delivery {
            deadline: now().plus(self.all.inner.options.lifetime),
            history: History { redrives, ..History::default() },
            ..letter.delivery
        };
        NewRecord {
            key: Bytes::copy_from_slice(delivery.mailbox.key().as_str().as_bytes()),
            value: encode_delivery(&delivery),
            headers: vec![(REPLAY_HEADER.to_owned(), Bytes::from(self.replay.to_string()))],
        }
    }

    /// Appends the records of a batch. After a failure it finds out which of them are there, and appends the rest: those that
    /// are there are the first ones, so the order stays.
    pub(super) async fn put_back(
        &mut self,
        batch: &RedriveBatch,
        mut records: Vec<NewRecord>,
    ) -> Result<Put, Trouble> {
        let log = &*self.all.inner.log;
        let topic = &self.all.inner.pipeline.deliveries.name;
        let mut failed = 0;
        while !records.is_empty() {
            if !self.is_heard().await? {
                return Ok(Put::Lost);
            }
            match log.append(topic, batch.partition, records.clone()).await {
                Ok(_) => return Ok(Put::Done(Vec::new())),
                Err(LogError::TooLarge { .. }) => {
                    return self.put_back_singly(batch, records).await;
                }
                Err(LogError::Closed) => return Err(Trouble::of(LogError::Closed)),
                Err(error) if failed >= APPENDS_MAX => return Err(Trouble::of(error)),
                Err(error) => {
                    failed += 1;
                    tracing::warn!(replay = %self.replay, %error, "an append failed; what of it is there is looked for");
                }
            }
            if self.stop.is_cancelled() {
                return Ok(Put::Stopped);
            }
            tokio::time::sleep(AFTER_FAILURE).await;
            let there = match self.find(batch).await? {
                Found::All(there) => there,
                Found::Part(there) => {
                    records.retain(|record| identity(&record.value).is_none_or(|it| !there.contains(&it)));
                    return Ok(Put::Done(self.undecided(batch, &records)));
                }
                Found::Lost => return Ok(Put::Lost),
                Found::Stopped => return Ok(Put::Stopped),
            };
            records.retain(|record| identity(&record.value).is_none_or(|it| !there.contains(&it)));
        }
        Ok(Put::Done(Vec::new()))
    }

    /// One record at a time, because one of them is larger than the log takes now. Nothing was written when it said so.
    async fn put_back_singly(
        &mut self,
        batch: &RedriveBatch,
        records: Vec<NewRecord>,
    ) -> Result<Put, Trouble> {
        let mut unsent = Vec::new();
        for record in records {
            if !self.is_heard().await? {
                return Ok(Put::Lost);
            }
            let Some((delivery, _)) = identity(&record.value) else { continue };
            let log = &*self.all.inner.log;
            match log.append(&self.all.inner.pipeline.deliveries.name, batch.partition, vec![record]).await {
                Ok(_) => {}
                Err(error @ LogError::TooLarge { .. }) => {
                    tracing::error!(
                        replay = %self.replay, delivery_id = %delivery, %error,
                        "a letter cannot be put back and stays one; raise ingest.body_limit_bytes and replay it again"
                    );
                    unsent.push(Unsent { delivery, reason: UnsentReason::TooLarge });
                }
                Err(error) => return Err(Trouble::of(error)),
            }
        }
        Ok(Put::Done(unsent))
    }

    /// Whether this process carries the replay on and was heard of lately; it speaks when it is time. After a word that took
    /// long it is time again.
    pub(super) async fn is_heard(&mut self) -> Result<bool, Trouble> {
        while self.must_speak() {
            if !self.speak().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What tells a redriven delivery apart.
pub(super) fn identity(record: &Bytes) -> Option<(DeliveryId, u32)> {
    let delivery = decode_delivery(record).ok()?;
    Some((delivery.id, delivery.history.redrives))
}
