//! A batch of letters: gathered from the dead letters, and put back into the deliveries, each once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::{LogError, NewRecord, Reader, StoredRecord};
use mailrail_types::{DeadLetter, Delivery, DeliveryId, History, RedriveBatch, Redriven, ReplayStep};
use mailrail_wire::{decode_dead_letter, decode_delivery, encode_delivery};

use super::run::Run;
use crate::dead_letters::Trouble;
use crate::dead_letters::follow::answer;
use crate::mailboxes::now;

/// Header of a redriven delivery's record: the replay that put it back.
pub(super) const REPLAY_HEADER: &str = "mailrail-replay";
/// Dead letters that are read at once.
const READ_AT_A_TIME: usize = 500;
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
    fn record(&self, letter: DeadLetter, redrives: u32) -> NewRecord {
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
    /// are there are the first ones, so the order stays. Gives how many the log cannot take at all; `None` when the replay is
    /// not this process's any more.
    pub(super) async fn put_back(
        &mut self,
        batch: &RedriveBatch,
        mut records: Vec<NewRecord>,
    ) -> Result<Option<u64>, Trouble> {
        let log = &*self.all.inner.log;
        let topic = &self.all.inner.pipeline.deliveries.name;
        let mut failed = 0;
        while !records.is_empty() {
            if !self.is_heard().await? {
                return Ok(None);
            }
            match log.append(topic, batch.partition, records.clone()).await {
                Ok(_) => return Ok(Some(0)),
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
            tokio::time::sleep(AFTER_FAILURE).await;
            let there = self.found(batch).await?;
            records.retain(|record| identity(&record.value).is_none_or(|it| !there.contains(&it)));
        }
        Ok(Some(0))
    }

    /// One record at a time, because one of them is larger than the log takes now. Nothing was written when it said so.
    /// `None` as for [`Run::put_back`].
    async fn put_back_singly(
        &mut self,
        batch: &RedriveBatch,
        records: Vec<NewRecord>,
    ) -> Result<Option<u64>, Trouble> {
        let mut failed = 0;
        for record in records {
            if !self.is_heard().await? {
                return Ok(None);
            }
            let log = &*self.all.inner.log;
            match log.append(&self.all.inner.pipeline.deliveries.name, batch.partition, vec![record]).await {
                Ok(_) => {}
                Err(error @ LogError::TooLarge { .. }) => {
                    tracing::error!(replay = %self.replay, %error, "a letter cannot be put back; raise ingest.body_limit_bytes");
                    failed += 1;
                }
                Err(error) => return Err(Trouble::of(error)),
            }
        }
        Ok(Some(failed))
    }

    /// Whether this process carries the replay on and was heard of lately; it speaks when it is time. After a word that took
    /// long it is time again.
    async fn is_heard(&mut self) -> Result<bool, Trouble> {
        while self.must_speak() {
            if !self.speak().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Which deliveries of a batch are in the log.
    async fn found(&mut self, batch: &RedriveBatch) -> Result<HashSet<(DeliveryId, u32)>, Trouble> {
        let (limits, log) = (self.all.inner.limits, &*self.all.inner.log);
        let topic = &self.all.inner.pipeline.deliveries.name;
        let bounds = answer(limits.answer, log.bounds(topic, batch.partition)).await?;
        let mut next = batch.deliveries_from.max(bounds.low);
        let (mine, mut found) = (self.replay.to_string(), HashSet::new());
        if next >= bounds.high {
            return Ok(found);
        }
        let mut reader = self.readers.open(topic, batch.partition, next).map_err(Trouble::of)?;
        while next < bounds.high {
            let records = answer(limits.answer, reader.next(READ_AT_A_TIME)).await?;
            for record in records {
                next = record.offset + 1;
                let of_mine =
                    record.headers.iter().any(|(name, value)| name == REPLAY_HEADER && *value == mine);
                found.extend(of_mine.then(|| identity(&record.value)).flatten());
            }
        }
        Ok(found)
    }

    /// Finishes a batch that a runner before this one may have written in part. `None` as for [`Run::put_back`].
    pub(super) async fn settle(&mut self, batch: &RedriveBatch) -> Result<Option<u64>, Trouble> {
        let there = self.found(batch).await?;
        let missing: Vec<_> =
            batch.letters.iter().filter(|it| !there.contains(&(it.delivery, it.redrives))).copied().collect();
        tracing::info!(
            replay = %self.replay, partition = batch.partition, there = there.len(), missing = missing.len(),
            "a batch that was begun is finished"
        );
        let mut letters = self.letters_at(batch.partition, &missing).await?;
        let (mut records, mut failed) = (Vec::new(), 0);
        for letter in missing {
            match letters.remove(&letter.offset).filter(|read| read.delivery.id == letter.delivery) {
                Some(read) => records.push(self.record(read, letter.redrives)),
                None => {
                    tracing::error!(replay = %self.replay, delivery.id = %letter.delivery, "a letter is gone and cannot be put back");
                    failed += 1;
                }
            }
        }
        Ok(self.put_back(batch, records).await?.map(|more| failed + more))
    }

    /// The letters of a batch as they stand in the dead letters.
    async fn letters_at(
        &mut self,
        partition: u32,
        letters: &[Redriven],
    ) -> Result<HashMap<u64, DeadLetter>, Trouble> {
        let (limits, mut found) = (self.all.inner.limits, HashMap::new());
        let topic = &self.all.inner.pipeline.dead_letters.name;
        let (Some(first), Some(last)) = (letters.first(), letters.last()) else { return Ok(found) };
        let bounds = answer(limits.answer, self.all.inner.log.bounds(topic, partition)).await?;
        let (mut next, end) = (first.offset.max(bounds.low), (last.offset + 1).min(bounds.high));
        if next >= end {
            return Ok(found);
        }
        let wanted: HashSet<u64> = letters.iter().map(|letter| letter.offset).collect();
        let mut reader = self.readers.open(topic, partition, next).map_err(Trouble::of)?;
        while next < end {
            for record in answer(limits.answer, reader.next(READ_AT_A_TIME)).await? {
                next = record.offset + 1;
                if wanted.contains(&record.offset)
                    && let Ok(letter) = decode_dead_letter(&record.value)
                {
                    found.insert(record.offset, letter);
                }
            }
        }
        Ok(found)
    }
}

/// What tells a redriven delivery apart.
fn identity(record: &Bytes) -> Option<(DeliveryId, u32)> {
    let delivery = decode_delivery(record).ok()?;
    Some((delivery.id, delivery.history.redrives))
}
