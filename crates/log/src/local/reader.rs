//! Readers of the local log: sleep on the partition's bounds, read in chunks on their own connections.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::AbortOnDropHandle;

use super::schema::{Topic, Topics, low_of, open_reader, position, record_of, unavailable};
use crate::size::stored_bytes;
use crate::{Bounds, Committed, LogError, Offset, Reader, Readers, StoredRecord};

/// Connections that read at once: more than the cores of a small machine gain nothing.
const CONNECTIONS_MAX: usize = 4;
/// Read in one query even when the caller wants fewer, so that a query is not paid for every record.
const CHUNK_RECORDS_MIN: usize = 256;
/// A chunk ends after this many bytes; one record more may be held.
const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// Connections for reading.
pub(super) struct Connections {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    slots: Arc<Semaphore>,
}

impl Connections {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::new(Vec::new()), slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }

    /// Runs a query on a blocking thread.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let connections = self.clone();
        // In a task: who waits here may look elsewhere for long, and a slot that was given to it would be nobody's.
        let read = async move {
            let permit = connections.slots.clone().acquire_owned().await.map_err(|_| LogError::Closed)?;
            connections.read_on(permit, query).await
        };
        AbortOnDropHandle::new(tokio::spawn(read)).await.map_err(|_| LogError::Closed)?
    }

    async fn read_on<T: Send + 'static>(
        self: Arc<Self>,
        permit: OwnedSemaphorePermit,
        query: impl FnOnce(&Connection) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let connections = self;
        let read = move || {
            let _permit = permit;
            let idle = connections.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let conn = match idle {
                Some(conn) => conn,
                None => open_reader(&connections.path)?,
            };
            let answer = query(&conn);
            connections.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
            answer
        };
        tokio::task::spawn_blocking(read).await.map_err(|_| LogError::Closed)?
    }

    pub(super) fn clear(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What a group committed.
pub(super) fn committed(
    conn: &Connection,
    group: &str,
    topic: &str,
    partition: u32,
) -> Result<Option<Committed>, LogError> {
    let select =
        "SELECT position, metadata FROM commits WHERE consumer_group = ?1 AND topic = ?2 AND partition = ?3";
    let mut statement = conn.prepare_cached(select).map_err(unavailable)?;
    let mut rows = statement.query(params![group, topic, partition]).map_err(unavailable)?;
    let Some(row) = rows.next().map_err(unavailable)? else { return Ok(None) };
    let offset: i64 = row.get(0).map_err(unavailable)?;
    let metadata = row.get(1).map_err(unavailable)?;
    Ok(Some(Committed { offset: Offset::try_from(offset).unwrap_or(0), metadata }))
}

type OpenSet = Arc<Mutex<HashSet<(String, u32)>>>;

pub(super) struct LocalReaders {
    pub(super) topics: Arc<Topics>,
    pub(super) connections: Arc<Connections>,
    pub(super) closed: watch::Receiver<bool>,
    pub(super) open: OpenSet,
}

impl Readers for LocalReaders {
    fn open(&self, topic: &str, partition: u32, from: Offset) -> Result<Box<dyn Reader>, LogError> {
        let topic = self.topics.get(topic)?;
        let bounds = topic.partition(partition)?.subscribe();
        if !self.open.lock().unwrap_or_else(PoisonError::into_inner).insert((topic.name.clone(), partition)) {
            return Err(LogError::InUse(format!(
                "{}/{partition} has a reader in this set already",
                topic.name
            )));
        }
        Ok(Box::new(LocalReader {
            topic,
            partition,
            position: from,
            ahead: VecDeque::new(),
            bounds,
            connections: self.connections.clone(),
            closed: self.closed.clone(),
            open: self.open.clone(),
        }))
    }
}

struct LocalReader {
    topic: Arc<Topic>,
    partition: u32,
    /// Next offset to read from the table; what is in `ahead` is below it.
    position: Offset,
    ahead: VecDeque<StoredRecord>,
    bounds: watch::Receiver<Bounds>,
    connections: Arc<Connections>,
    closed: watch::Receiver<bool>,
    open: OpenSet,
}

#[async_trait]
impl Reader for LocalReader {
    async fn next(&mut self, max_records: usize) -> Result<Vec<StoredRecord>, LogError> {
        let max_records = max_records.max(1);
        loop {
            if !self.ahead.is_empty() {
                let taken = max_records.min(self.ahead.len());
                return Ok(self.ahead.drain(..taken).collect());
            }
            if *self.closed.borrow() {
                return Err(LogError::Closed);
            }
            let bounds = *self.bounds.borrow_and_update();
            if self.position < bounds.low || self.position > bounds.high {
                return Err(self.out_of_range(bounds));
            }
            if self.position == bounds.high {
                tokio::select! {
                    changed = self.bounds.changed() => changed.map_err(|_| LogError::Closed)?,
                    _ = self.closed.changed() => return Err(LogError::Closed),
                }
                continue;
            }
            let chunk = self.chunk(max_records.max(CHUNK_RECORDS_MIN), bounds).await?;
            // Nothing is awaited from here on: a dropped call before has moved nothing.
            if let Some(last) = chunk.back() {
                self.position = last.offset + 1;
            }
            self.ahead = chunk;
        }
    }
}

impl LocalReader {
    async fn chunk(&self, records: usize, bounds: Bounds) -> Result<VecDeque<StoredRecord>, LogError> {
        let (topic, partition, from) = (self.topic.clone(), self.partition, self.position);
        let read = move |conn: &Connection| read_chunk(conn, &topic, partition, from..bounds.high, records);
        match self.connections.read(read).await? {
            Ok(chunk) if chunk.is_empty() => Err(LogError::Unavailable(format!(
                "{}/{partition} has no records from offset {from} although it ends at {}",
                self.topic.name, bounds.high
            ))),
            Ok(chunk) => Ok(chunk),
            Err(low) => Err(self.out_of_range(Bounds { low, ..bounds })),
        }
    }

    fn out_of_range(&self, bounds: Bounds) -> LogError {
        LogError::OutOfRange {
            topic: self.topic.name.clone(),
            partition: self.partition,
            wanted: self.position,
            low: bounds.low,
            high: bounds.high,
        }
    }
}

impl Drop for LocalReader {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&(self.topic.name.clone(), self.partition));
    }
}

/// The chunk, or the low mark when it passed `from`. Mark and rows come from one snapshot: a trim in between would
/// otherwise look like a partition that simply starts later. Rows behind `range` are left: the writer commits before it
/// publishes the new end, and a reader that went past the published end would take its own position for one that is gone.
fn read_chunk(
    conn: &Connection,
    topic: &Topic,
    partition: u32,
    range: Range<Offset>,
    records: usize,
) -> Result<Result<VecDeque<StoredRecord>, Offset>, LogError> {
    let snapshot = conn.unchecked_transaction().map_err(unavailable)?;
    let low = low_of(&snapshot, topic.id, partition).map_err(unavailable)?;
    if range.start < low {
        return Ok(Err(low));
    }
    let select = format!(
        "SELECT position, appended_at, key, value, headers FROM records_{} WHERE position >= ?1 AND position < ?2
         ORDER BY position LIMIT ?3",
        topic.id
    );
    let mut statement = snapshot.prepare_cached(&select).map_err(unavailable)?;
    let limit = i64::try_from(records).unwrap_or(i64::MAX);
    let mut rows = statement
        .query(params![position(partition, range.start), position(partition, range.end), limit])
        .map_err(unavailable)?;
    let mut chunk = VecDeque::new();
    let mut bytes = 0;
    while bytes < CHUNK_BYTES_MAX {
        let Some(row) = rows.next().map_err(unavailable)? else { break };
        let record = record_of(row).map_err(unavailable)?;
        bytes += stored_bytes(&record);
        chunk.push_back(record);
    }
    Ok(Ok(chunk))
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;
    use crate::{LocalLog, Log, NewRecord, TopicSpec};

    /// The writer commits before it publishes the new end: what a reader takes ends where it was told that the partition
    /// ends, whatever stands behind it already.
    #[tokio::test]
    async fn a_chunk_ends_at_the_published_end() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("log.db");
        let log = LocalLog::open(&path).expect("log");
        let spec = TopicSpec { name: "t".to_owned(), partitions: 1, retention: None };
        log.ensure_topics(&[spec]).await.expect("topics");
        log.append("t", 0, vec![NewRecord::default(); 10]).await.expect("appended");

        let conn = open_reader(&path).expect("connection");
        let topics = Topics::default();
        for topic in super::super::schema::load_topics(&conn).expect("topics") {
            topics.add(Arc::new(topic));
        }
        let topic = topics.get("t").expect("the topic");
        let chunk = read_chunk(&conn, &topic, 0, 0..6, 256).expect("read").expect("not trimmed");
        assert_eq!(chunk.iter().map(|r| r.offset).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }

    /// Who asked and looks elsewhere holds nothing that others wait for.
    #[tokio::test]
    async fn a_question_that_nobody_waits_for_takes_no_slot_from_others() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("log.db");
        let log = LocalLog::open(&path).expect("log");
        let connections = Arc::new(Connections::new(path));
        let all = connections.slots.clone().acquire_many_owned(4).await.expect("open");
        let mut left = Vec::new();
        for _ in 0..2 * CONNECTIONS_MAX {
            let mut asked = Box::pin(connections.read(|_| Ok(())));
            let polled = std::future::poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx))).await;
            assert!(polled.is_pending(), "there is no slot");
            left.push(asked);
        }
        drop(all);
        // None of those is polled again.
        let answer =
            tokio::time::timeout(std::time::Duration::from_secs(60), connections.read(|_| Ok(7))).await;
        assert_eq!(answer.expect("an answer").expect("read"), 7);
        drop((left, log));
    }
}
