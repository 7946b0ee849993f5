//! The tables of the local log: one record table a topic, keyed by `partition << 44 | offset`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::Bytes;
use mailrail_types::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use tokio::sync::watch;

use crate::{Bounds, LogError, Offset, StoredRecord};

/// 2^44 records a partition: at 10,000 a second, 55 years.
const OFFSET_BITS: u32 = 44;
/// What is left of a positive 64-bit key, minus a spare bit.
pub(super) const PARTITIONS_MAX: u32 = 1 << 18;
/// Written to the file, so that a later layout is refused instead of misread.
const LAYOUT: i64 = 1;
/// "mrlg": tells `file` and us what this database is.
const APPLICATION_ID: i64 = 0x6d72_6c67;
/// How long a connection waits for another one of this process; only checkpoints make it wait.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// The write-ahead file is cut back to this after a checkpoint, so that one burst does not keep the disk.
const WAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// One statement a topic and kind of work; more would only be prepared anew.
const STATEMENTS_CACHED: usize = 64;

/// The one row that readiness writes. Made at every open: files of this layout were written before it was there.
const CREATE_PROBE: &str = "CREATE TABLE IF NOT EXISTS probe (id INTEGER PRIMARY KEY CHECK (id = 0), at INTEGER NOT NULL, filler BLOB NOT NULL)";

/// A topic and the bounds of its partitions as of the last durable transaction.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) id: i64,
    pub(super) name: String,
    /// One watch a partition: readers sleep on it.
    pub(super) bounds: Vec<watch::Sender<Bounds>>,
    pub(super) insert: String,
}

impl Topic {
    pub(super) fn new(id: i64, name: &str, bounds: Vec<Bounds>) -> Self {
        Self {
            id,
            name: name.to_owned(),
            bounds: bounds.into_iter().map(watch::Sender::new).collect(),
            insert: format!(
                "INSERT INTO records_{id} (position, appended_at, key, value, headers) VALUES (?1, ?2, ?3, ?4, ?5)"
            ),
        }
    }

    /// The partition's watch.
    ///
    /// # Errors
    /// [`LogError::Config`] when the topic has no such partition.
    pub(super) fn partition(&self, partition: u32) -> Result<&watch::Sender<Bounds>, LogError> {
        self.bounds.get(partition as usize).ok_or_else(|| {
            LogError::Config(format!(
                "topic {} has {} partitions, there is no partition {partition}",
                self.name,
                self.bounds.len()
            ))
        })
    }
}

/// All topics by name.
#[derive(Debug, Default)]
pub(super) struct Topics(RwLock<HashMap<String, Arc<Topic>>>);

impl Topics {
    pub(super) fn get(&self, name: &str) -> Result<Arc<Topic>, LogError> {
        self.find(name).ok_or_else(|| {
            LogError::Config(format!("topic {name} does not exist; create it with ensure_topics"))
        })
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn add(&self, topic: Arc<Topic>) {
        let mut topics = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        topics.insert(topic.name.clone(), topic);
    }

    pub(super) fn all(&self) -> Vec<Arc<Topic>> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).values().cloned().collect()
    }
}

/// Row key of a record.
pub(super) fn position(partition: u32, offset: Offset) -> i64 {
    let offset = i64::try_from(offset).unwrap_or(i64::MAX).min(1 << OFFSET_BITS);
    (i64::from(partition) << OFFSET_BITS).saturating_add(offset)
}

/// Offset of a record by its row key.
pub(super) fn offset_of(position: i64) -> Offset {
    Offset::try_from(position & ((1 << OFFSET_BITS) - 1)).unwrap_or(0)
}

/// The connection of the writer: makes the file and its tables.
pub(super) fn open_writer(path: &Path) -> Result<Connection, LogError> {
    let mut conn = Connection::open(path).map_err(|e| {
        LogError::Config(format!(
            "the local log cannot be opened at {}: {e}; its folder must exist",
            path.display()
        ))
    })?;
    prepare(&conn).map_err(unavailable)?;
    let layout: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(|e| {
        LogError::Config(format!("{} is not a local log: {e}; give another path", path.display()))
    })?;
    match layout {
        0 => create(&mut conn).map_err(unavailable)?,
        LAYOUT => {}
        other => {
            return Err(LogError::Config(format!(
                "the local log at {} has layout {other}, this program knows {LAYOUT}; use the program that wrote it",
                path.display()
            )));
        }
    }
    conn.execute_batch(CREATE_PROBE).map_err(unavailable)?;
    Ok(conn)
}

/// A connection of a reader.
pub(super) fn open_reader(path: &Path) -> Result<Connection, LogError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(unavailable)?;
    conn.busy_timeout(BUSY_WAIT).map_err(unavailable)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(conn)
}

fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_WAIT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    conn.pragma_update(None, "journal_mode", "WAL")?;
    // FULL: a commit is on disk before it is acknowledged, also through a power cut.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)
}

fn create(conn: &mut Connection) -> rusqlite::Result<()> {
    let tx = conn.transaction()?;
    tx.execute_batch(
        "CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL,
             retention_ms INTEGER);
         CREATE TABLE partitions (topic INTEGER NOT NULL, partition INTEGER NOT NULL, low INTEGER NOT NULL,
             PRIMARY KEY (topic, partition)) WITHOUT ROWID;
         CREATE TABLE commits (consumer_group TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
             position INTEGER NOT NULL, metadata TEXT NOT NULL,
             PRIMARY KEY (consumer_group, topic, partition)) WITHOUT ROWID;",
    )?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", LAYOUT)?;
    tx.commit()
}

/// Table of a new topic.
pub(super) fn create_topic(
    conn: &Connection,
    name: &str,
    partitions: u32,
    retention_ms: Option<i64>,
) -> rusqlite::Result<Topic> {
    conn.execute(
        "INSERT INTO topics (name, partitions, retention_ms) VALUES (?1, ?2, ?3)",
        params![name, partitions, retention_ms],
    )?;
    let id = conn.last_insert_rowid();
    conn.execute_batch(&format!(
        "CREATE TABLE records_{id} (position INTEGER PRIMARY KEY, appended_at INTEGER NOT NULL, key BLOB NOT NULL,
             value BLOB NOT NULL, headers BLOB);"
    ))?;
    let mut insert =
        conn.prepare_cached("INSERT INTO partitions (topic, partition, low) VALUES (?1, ?2, 0)")?;
    for partition in 0..partitions {
        insert.execute(params![id, partition])?;
    }
    Ok(Topic::new(id, name, vec![Bounds { low: 0, high: 0 }; partitions as usize]))
}

/// All topics as the file has them.
pub(super) fn load_topics(conn: &Connection) -> rusqlite::Result<Vec<Topic>> {
    let mut select = conn.prepare("SELECT id, name, partitions FROM topics")?;
    let rows: Vec<(i64, String, u32)> =
        select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()?;
    let mut topics = Vec::with_capacity(rows.len());
    for (id, name, partitions) in rows {
        let bounds = (0..partitions).map(|p| load_bounds(conn, id, p)).collect::<Result<Vec<_>, _>>()?;
        topics.push(Topic::new(id, &name, bounds));
    }
    Ok(topics)
}

/// The end is not stored: it is one past the last record, or the low mark when everything was trimmed.
fn load_bounds(conn: &Connection, topic: i64, partition: u32) -> rusqlite::Result<Bounds> {
    let low = low_of(conn, topic, partition)?;
    let last: Option<i64> = conn
        .query_row(
            &format!("SELECT max(position) FROM records_{topic} WHERE position >= ?1 AND position < ?2"),
            params![position(partition, 0), position(partition + 1, 0)],
            |row| row.get(0),
        )
        .optional()?
        .flatten();
    let high = last.map_or(low, |last| low.max(offset_of(last) + 1));
    Ok(Bounds { low, high })
}

/// First offset that exists for readers; rows below it wait for deletion.
pub(super) fn low_of(conn: &Connection, topic: i64, partition: u32) -> rusqlite::Result<Offset> {
    conn.prepare_cached("SELECT low FROM partitions WHERE topic = ?1 AND partition = ?2")?
        .query_row(params![topic, partition], |row| row.get::<_, i64>(0))
        .map(|low| Offset::try_from(low).unwrap_or(0))
}

/// A record from a row of `position, appended_at, key, value, headers`.
pub(super) fn record_of(row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    let headers: Option<Vec<u8>> = row.get(4)?;
    Ok(StoredRecord {
        offset: offset_of(row.get(0)?),
        appended_at: Timestamp(row.get(1)?),
        key: Bytes::from(row.get::<_, Vec<u8>>(2)?),
        value: Bytes::from(row.get::<_, Vec<u8>>(3)?),
        headers: headers.map(|it| decode_headers(Bytes::from(it))).unwrap_or_default(),
    })
}

/// Length-prefixed names and values; nothing at all without headers.
pub(super) fn encode_headers(headers: &[(String, Bytes)]) -> Option<Vec<u8>> {
    if headers.is_empty() {
        return None;
    }
    let mut out = Vec::new();
    for (name, value) in headers {
        for part in [name.as_bytes(), value.as_ref()] {
            out.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(part);
        }
    }
    Some(out)
}

fn decode_headers(mut bytes: Bytes) -> Vec<(String, Bytes)> {
    let mut parts = Vec::new();
    while bytes.len() >= 4 {
        let prefix = bytes.split_to(4);
        let len = prefix.iter().fold(0_usize, |len, byte| (len << 8) | usize::from(*byte));
        parts.push(bytes.split_to(len.min(bytes.len())));
    }
    parts
        .chunks_exact(2)
        .map(|pair| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone()))
        .collect()
}

/// Whatever SQLite says is something that may pass: a full disk, a locked file.
#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
pub(super) fn unavailable(error: rusqlite::Error) -> LogError {
    LogError::Unavailable(format!("the local log's database says: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_keep_partitions_apart_and_give_the_offset_back() {
        let last = (1 << OFFSET_BITS) - 1;
        assert_eq!(offset_of(position(7, last)), last);
        assert_eq!(position(7, last) + 1, position(8, 0));
        assert!(position(PARTITIONS_MAX, last) > 0);
    }

    #[test]
    fn headers_survive_a_round_trip() {
        let headers = vec![("a".to_owned(), Bytes::from_static(b"\x00\xff")), (String::new(), Bytes::new())];
        let encoded = encode_headers(&headers).expect("has headers");
        assert_eq!(decode_headers(Bytes::from(encoded)), headers);
        assert_eq!(encode_headers(&[]), None);
    }
}
