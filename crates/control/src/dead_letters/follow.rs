//! The ledger as it stands in the log: read to its end, and written to.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::{Log, NewRecord, Offset, Reader, Readers, StoredRecord};
use mailrail_types::{RedriveEntry, ReplayId, Timestamp};
use mailrail_wire::{decode_redrive, encode_redrive};
use tokio::time::Instant;

use super::Trouble;
use super::ledger::Ledger;

/// Its only partition: the order of all entries is what makes it a ledger.
const PARTITION: u32 = 0;
/// Records of one read.
const RECORDS_AT_A_TIME: usize = 500;
/// How long entries are kept at least: who redrove what, and when.
const KEEP: Duration = Duration::from_hours(90 * 24);

/// A ledger that is read on.
pub(super) struct Follower {
    log: Arc<dyn Log>,
    topic: String,
    /// Bounds each answer of the log.
    timeout: Duration,
    pub(super) ledger: Ledger,
    next: Offset,
    reader: Option<Box<dyn Reader>>,
    readers: Option<Box<dyn Readers>>,
    /// When the last entry that is not of this runner was read.
    heard: Instant,
    /// What the names of this process's runs begin with.
    runner: String,
    /// Of each entry, what must be gone before it may go.
    kept: VecDeque<Kept>,
}

struct Kept {
    at: Offset,
    written: Timestamp,
    replay: ReplayId,
    /// Partition of the dead letters, and the highest offset that is put back.
    letters: Option<(u32, u64)>,
}

impl Follower {
    pub(super) fn new(log: Arc<dyn Log>, topic: String, timeout: Duration, runner: String) -> Self {
        Self {
            log,
            topic,
            timeout,
            ledger: Ledger::default(),
            next: 0,
            reader: None,
            readers: None,
            heard: Instant::now(),
            runner,
            kept: VecDeque::new(),
        }
    }

    /// Reads what was written up to now.
    pub(super) async fn catch_up(&mut self) -> Result<(), Trouble> {
        let bounds = answer(self.timeout, self.log.bounds(&self.topic, PARTITION)).await?;
        if self.next > bounds.high {
            tracing::warn!(
                topic = self.topic,
                "the ledger of redrives was made anew; it is read from its start"
            );
            (self.ledger, self.next) = (Ledger::default(), 0);
            self.kept.clear();
            self.reader = None;
        }
        if self.next < bounds.low {
            // What is trimmed is about letters that are gone.
            self.next = bounds.low;
            self.reader = None;
        }
        while self.next < bounds.high {
            let records = match self.read().await {
                Ok(records) => records,
                Err(trouble) => {
                    self.reader = None;
                    return Err(trouble);
                }
            };
            for record in records {
                if let Err(trouble) = self.take(&record) {
                    // The reader stands behind the whole batch already: the next one begins where this stopped.
                    self.reader = None;
                    return Err(trouble);
                }
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<Vec<StoredRecord>, Trouble> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                let readers = match &self.readers {
                    Some(readers) => readers,
                    None => self.readers.insert(self.log.readers().map_err(Trouble::of)?),
                };
                self.reader.insert(readers.open(&self.topic, PARTITION, self.next).map_err(Trouble::of)?)
            }
        };
        answer(self.timeout, reader.next(RECORDS_AT_A_TIME)).await
    }

    fn take(&mut self, record: &StoredRecord) -> Result<(), Trouble> {
        let entry = decode_redrive(&record.value).map_err(|error| {
            let at = record.offset;
            Trouble::Ledger(format!("entry {at} of {} is not understood: {error}", self.topic))
        })?;
        let letters = match &entry {
            RedriveEntry::Sending { batch, .. } => {
                batch.letters.last().map(|letter| (batch.partition, letter.offset))
            }
            _ => None,
        };
        let own = match &entry {
            RedriveEntry::Claimed { runner, .. }
            | RedriveEntry::Sending { runner, .. }
            | RedriveEntry::Settled { runner, .. }
            | RedriveEntry::Passed { runner, .. }
            | RedriveEntry::Ended { runner, .. } => runner.starts_with(&self.runner),
            // Said by nobody who carries a replay on.
            RedriveEntry::Ordered(_) | RedriveEntry::Cancelled { .. } => true,
        };
        if !own {
            self.heard = Instant::now();
        }
        let (at, written, replay) = (record.offset, record.appended_at, entry.replay());
        self.kept.push_back(Kept { at, written, replay, letters });
        self.ledger.apply(entry);
        self.next = record.offset + 1;
        Ok(())
    }

    /// How long no other runner was heard of.
    pub(super) fn silence(&self) -> Duration {
        self.heard.elapsed()
    }

    /// Writes entries, and reads on until after them: what the ledger then says holds. After an error they may be there or not.
    pub(super) async fn write(&mut self, entries: &[RedriveEntry]) -> Result<(), Trouble> {
        let records = entries
            .iter()
            .map(|entry| NewRecord {
                key: Bytes::from(entry.replay().to_string()),
                value: encode_redrive(entry),
                headers: Vec::new(),
            })
            .collect();
        self.log.append(&self.topic, PARTITION, records).await.map_err(Trouble::of)?;
        self.catch_up().await
    }

    /// Forgets the letters that stood below `lows` of the dead letters, and deletes the entries at its start that nobody needs:
    /// those of replays that are over, whose letters stood below, and that are old.
    pub(super) async fn trim(&mut self, lows: &BTreeMap<u32, u64>, now: Timestamp) -> Result<(), Trouble> {
        self.ledger.forget_below(lows);
        let mut before = None;
        while let Some(entry) = self.kept.front() {
            let over = self.ledger.get(&entry.replay).is_none_or(|it| it.ended_at.is_some());
            let gone = entry
                .letters
                .is_none_or(|(partition, offset)| lows.get(&partition).is_some_and(|low| offset < *low));
            if !over || !gone || now.since(entry.written) < KEEP {
                break;
            }
            before = Some(entry.at + 1);
            self.kept.pop_front();
        }
        let Some(before) = before else { return Ok(()) };
        let kept: HashSet<ReplayId> = self.kept.iter().map(|entry| entry.replay).collect();
        self.ledger.keep_replays(|replay| kept.contains(replay));
        answer(self.timeout, self.log.trim(&self.topic, PARTITION, before)).await
    }
}

/// An answer of the log, or why there is none.
pub(super) async fn answer<T>(
    within: Duration,
    asked: impl Future<Output = Result<T, mailrail_log::LogError>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(within, asked).await {
        Ok(answer) => answer.map_err(Trouble::of),
        Err(_) => Err(Trouble::Log(format!("the log did not answer within {within:?}"))),
    }
}
