//! Readers: one client outside any group and one thread for a set, a buffer for each partition, bounded together.
//!
//! See `fetcher` for the thread.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::config::KafkaConfig;
use super::fetcher::Fetcher;
use crate::size::stored_bytes;
use crate::{LogError, Offset, Reader, Readers, StoredRecord};

/// Records held for a reader that does not read.
pub(super) const AHEAD_RECORDS_MAX: usize = 4_000;
/// Bytes held for the readers of a set together. Librdkafka holds up to `queued.max.messages.kbytes` more, and a fetch.
const AHEAD_SET_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What a single reader gets of them; one record more may come on top. The least lets 2,048 readers stay within the bound.
pub(super) const AHEAD_BYTES_MAX: usize = 4 * 1024 * 1024;
const AHEAD_BYTES_MIN: usize = 32 * 1024;
pub(super) type Key = (String, u32);

/// What the thread and the readers share.
pub(super) struct Set {
    pub(super) wanted: Mutex<HashMap<Key, Arc<Slot>>>,
    /// The thread should look at what is wanted.
    pub(super) changed: AtomicBool,
    pub(super) stopped: AtomicBool,
    closed: AtomicBool,
    /// Bytes that each reader may hold.
    share: Arc<AtomicUsize>,
    thread: OnceLock<Thread>,
}

/// Bytes that each of so many readers may hold.
fn share_of(readers: usize) -> usize {
    (AHEAD_SET_BYTES_MAX / readers.max(1)).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX)
}

impl Set {
    /// Adds a reader; false when the partition has one.
    fn add(&self, slot: &Arc<Slot>) -> bool {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (slot.topic.clone(), slot.partition);
        if wanted.contains_key(&key) {
            return false;
        }
        wanted.insert(key, slot.clone());
        self.share.store(share_of(wanted.len()), Ordering::Relaxed);
        true
    }

    fn remove(&self, slot: &Slot) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.remove(&(slot.topic.clone(), slot.partition));
        self.share.store(share_of(wanted.len()), Ordering::Relaxed);
    }

    fn wake(&self) {
        self.changed.store(true, Ordering::Release);
        self.unpark();
    }

    pub(super) fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Every reader of the set says from now on that the log is closed.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.stopped.store(true, Ordering::Release);
        for slot in self.wanted.lock().unwrap_or_else(PoisonError::into_inner).values() {
            slot.ready.notify_one();
        }
        self.unpark();
    }
}

/// Ends the thread with the last reader.
struct Handle(Arc<Set>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// The buffer of one partition.
pub(super) struct Slot {
    pub(super) topic: String,
    pub(super) partition: u32,
    ahead: Mutex<Ahead>,
    pub(super) ready: Notify,
    /// Of the set: bytes that the buffer may hold.
    share: Arc<AtomicUsize>,
}

pub(super) struct Ahead {
    pub(super) records: VecDeque<StoredRecord>,
    pub(super) bytes: usize,
    /// Offset that the next record has at least.
    pub(super) next: Offset,
    pub(super) full: bool,
    /// The client fetches nothing for it: it must be assigned again when there is room.
    pub(super) put_off: bool,
    /// `next` when a full buffer was waited for last.
    pub(super) next_then: Offset,
    pub(super) failed: Option<LogError>,
}

impl Slot {
    pub(super) fn ahead(&self) -> std::sync::MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record in, unless it is an old one or there is no room. True when the buffer is full now. Does not tell the reader.
    pub(super) fn put(&self, offset: Offset, record: impl FnOnce() -> StoredRecord) -> bool {
        let mut ahead = self.ahead();
        if offset < ahead.next || ahead.full {
            return false;
        }
        let record = record();
        ahead.bytes += stored_bytes(&record);
        ahead.next = offset + 1;
        ahead.records.push_back(record);
        ahead.full =
            ahead.records.len() >= AHEAD_RECORDS_MAX || ahead.bytes >= self.share.load(Ordering::Relaxed);
        ahead.full
    }
}

pub(super) struct KafkaReaders {
    handle: Arc<Handle>,
}

impl KafkaReaders {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, LogError> {
        let set = Arc::new(Set {
            wanted: Mutex::new(HashMap::new()),
            changed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            share: Arc::new(AtomicUsize::new(share_of(0))),
            thread: OnceLock::new(),
        });
        let fetcher = Fetcher::new(config, set.clone())?;
        let thread = std::thread::Builder::new()
            .name("log-readers".to_owned())
            .spawn(move || fetcher.run())
            .map_err(|e| LogError::Unavailable(format!("no thread for readers: {e}")))?;
        // The thread sleeps for a bounded time only: a wake-up before this line is not missed for long.
        let _ = set.thread.set(thread.thread().clone());
        Ok(Self { handle: Arc::new(Handle(set)) })
    }

    pub(super) fn set(&self) -> &Arc<Set> {
        &self.handle.0
    }
}

impl Readers for KafkaReaders {
    fn open(&self, topic: &str, partition: u32, from: Offset) -> Result<Box<dyn Reader>, LogError> {
        if i32::try_from(partition).is_err() || i64::try_from(from).is_err() {
            return Err(LogError::Config(format!("kafka has no offset {from} in partition {partition}")));
        }
        let set = self.set();
        if set.closed.load(Ordering::Acquire) {
            return Err(LogError::Closed);
        }
        let slot = Arc::new(Slot {
            topic: topic.to_owned(),
            partition,
            ahead: Mutex::new(Ahead {
                records: VecDeque::new(),
                bytes: 0,
                next: from,
                full: false,
                put_off: false,
                next_then: from,
                failed: None,
            }),
            ready: Notify::new(),
            share: set.share.clone(),
        });
        if !set.add(&slot) {
            return Err(LogError::InUse(format!("{topic}/{partition} has a reader in this set already")));
        }
        set.wake();
        Ok(Box::new(KafkaReader { slot, handle: self.handle.clone() }))
    }
}

struct KafkaReader {
    slot: Arc<Slot>,
    handle: Arc<Handle>,
}

#[async_trait]
impl Reader for KafkaReader {
    async fn next(&mut self, max_records: usize) -> Result<Vec<StoredRecord>, LogError> {
        loop {
            if let Some(answer) = self.take(max_records.max(1)) {
                return answer;
            }
            // Keeps a wake-up that came since.
            self.slot.ready.notified().await;
        }
    }
}

impl KafkaReader {
    fn take(&self, max_records: usize) -> Option<Result<Vec<StoredRecord>, LogError>> {
        let set = &self.handle.0;
        let mut ahead = self.slot.ahead();
        if ahead.records.is_empty() {
            return if let Some(error) = &ahead.failed {
                Some(Err(error.clone()))
            } else {
                set.closed.load(Ordering::Acquire).then_some(Err(LogError::Closed))
            };
        }
        let count = max_records.min(ahead.records.len());
        let records: Vec<StoredRecord> = ahead.records.drain(..count).collect();
        ahead.bytes -= records.iter().map(stored_bytes).sum::<usize>();
        let share = self.slot.share.load(Ordering::Relaxed);
        if ahead.full && ahead.records.len() < AHEAD_RECORDS_MAX / 2 && ahead.bytes < share / 2 {
            ahead.full = false;
            let put_off = std::mem::take(&mut ahead.put_off);
            drop(ahead);
            if put_off { set.wake() } else { set.unpark() }
        }
        Some(Ok(records))
    }
}

impl Drop for KafkaReader {
    fn drop(&mut self) {
        let set = &self.handle.0;
        set.remove(&self.slot);
        set.wake();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mailrail_types::Timestamp;

    use super::*;

    /// Pitfall: a bound for each partition is no bound for the process.
    #[test]
    fn i14_the_readers_of_a_set_are_bounded_together() {
        for readers in [1, 32, 64, 128, 1024, 2048] {
            let each = share_of(readers);
            assert!(each * readers <= AHEAD_SET_BYTES_MAX && each <= AHEAD_BYTES_MAX, "{readers}: {each}");
            assert!(each >= AHEAD_BYTES_MIN, "{readers}: {each}");
        }
        assert_eq!(share_of(0), AHEAD_BYTES_MAX);
    }

    #[test]
    fn i14_more_readers_make_each_buffer_full_earlier() {
        let readers = KafkaReaders::new(&KafkaConfig::new("127.0.0.1:1")).expect("a client");
        let fill = |slot: &Slot| {
            let from = slot.ahead().next;
            let record = |offset| StoredRecord {
                offset,
                appended_at: Timestamp(0),
                key: Bytes::new(),
                value: Bytes::from(vec![0; 16 * 1024]),
                headers: Vec::new(),
            };
            (from..).take_while(|offset| !slot.put(*offset, || record(*offset))).count() + 1
        };
        let slot = |readers: &KafkaReaders, partition: u32| {
            readers.set().wanted.lock().expect("unpoisoned")[&("t".to_owned(), partition)].clone()
        };
        let alone = readers.open("t", 0, 0).expect("reader");
        assert_eq!(fill(&slot(&readers, 0)), 256);
        let others: Vec<_> = (1..128).map(|p| readers.open("t", p, 0).expect("reader")).collect();
        assert_eq!(fill(&slot(&readers, 1)), 32);
        drop((alone, others));
        let _again = readers.open("t", 1, 0).expect("free again");
        assert_eq!(fill(&slot(&readers, 1)), 256);
    }
}
