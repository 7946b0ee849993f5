//! What is done inside one transaction of the writer: appends, commits, trims, topics, retention.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};

use super::schema::{PARTITIONS_MAX, Topic, Topics, create_topic, encode_headers, offset_of, position};
use crate::size::record_bytes;
use crate::{Bounds, Committed, LogError, NewRecord, Offset, TopicMismatch, TopicSpec};

/// What the writer is asked to do.
pub(super) enum Work {
    Append { topic: Arc<Topic>, partition: u32, records: Vec<NewRecord> },
    Commit { group: String, topic: String, commits: Vec<(u32, Committed)> },
    Trim { topic: Arc<Topic>, partition: u32, before: Offset },
    EnsureTopics(Vec<TopicSpec>),
    Probe,
    Stop,
}

/// What it answers.
#[derive(Debug)]
pub(super) enum Done {
    Offsets(Vec<Offset>),
    Nothing,
}

impl Work {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Work::Append { records, .. } => records.iter().map(record_bytes).sum(),
            Work::Commit { commits, .. } => commits.iter().map(|(_, it)| it.metadata.len()).sum(),
            Work::Trim { .. } | Work::EnsureTopics(_) | Work::Probe | Work::Stop => 0,
        }
    }
}

/// What a transaction changes in memory once it is durable.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) bounds: HashMap<(i64, u32), (Arc<Topic>, Bounds)>,
    pub(super) topics: Vec<Arc<Topic>>,
    pub(super) trimmed: Vec<(Arc<Topic>, u32)>,
}

impl Changes {
    fn bounds(&self, topic: &Topic, partition: u32) -> Result<Bounds, LogError> {
        match self.bounds.get(&(topic.id, partition)) {
            Some((_, bounds)) => Ok(*bounds),
            None => Ok(*topic.partition(partition)?.borrow()),
        }
    }

    fn set(&mut self, topic: &Arc<Topic>, partition: u32, bounds: Bounds) {
        self.bounds.insert((topic.id, partition), (topic.clone(), bounds));
    }
}

/// What one job gets when the whole transaction is durable.
pub(super) struct Answer(Result<Done, LogError>);

impl Answer {
    pub(super) fn to_result(&self) -> Result<Done, LogError> {
        match &self.0 {
            Ok(Done::Offsets(offsets)) => Ok(Done::Offsets(offsets.clone())),
            Ok(Done::Nothing) => Ok(Done::Nothing),
            Err(error) => Err(error.clone()),
        }
    }
}

/// The outer error fails the whole group, the inner one only this job.
pub(super) fn apply(
    tx: &Transaction<'_>,
    topics: &Topics,
    work: &Work,
    now: i64,
    changes: &mut Changes,
) -> rusqlite::Result<Answer> {
    let answer = match work {
        Work::Append { topic, partition, records } => append(tx, topic, *partition, records, now, changes)?,
        Work::Commit { group, topic, commits } => {
            commit(tx, group, topic, commits).map(|()| Ok(Done::Nothing))?
        }
        Work::Trim { topic, partition, before } => trim(tx, topic, *partition, *before, changes)?,
        Work::EnsureTopics(specs) => ensure_topics(tx, topics, specs, changes)?,
        Work::Probe | Work::Stop => Ok(Done::Nothing),
    };
    Ok(Answer(answer))
}

fn append(
    tx: &Transaction<'_>,
    topic: &Arc<Topic>,
    partition: u32,
    records: &[NewRecord],
    now: i64,
    changes: &mut Changes,
) -> rusqlite::Result<Result<Done, LogError>> {
    let mut bounds = match changes.bounds(topic, partition) {
        Ok(bounds) => bounds,
        Err(error) => return Ok(Err(error)),
    };
    let mut insert = tx.prepare_cached(&topic.insert)?;
    let mut offsets = Vec::with_capacity(records.len());
    for record in records {
        let headers = encode_headers(&record.headers);
        insert.execute(params![
            position(partition, bounds.high),
            now,
            record.key.as_ref(),
            record.value.as_ref(),
            headers
        ])?;
        offsets.push(bounds.high);
        bounds.high += 1;
    }
    changes.set(topic, partition, bounds);
    Ok(Ok(Done::Offsets(offsets)))
}

fn commit(
    tx: &Transaction<'_>,
    group: &str,
    topic: &str,
    commits: &[(u32, Committed)],
) -> rusqlite::Result<()> {
    let mut upsert = tx.prepare_cached(
        "INSERT INTO commits (consumer_group, topic, partition, position, metadata) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (consumer_group, topic, partition)
         DO UPDATE SET position = excluded.position, metadata = excluded.metadata",
    )?;
    for (partition, committed) in commits {
        let offset = i64::try_from(committed.offset).unwrap_or(i64::MAX);
        upsert.execute(params![group, topic, partition, offset, committed.metadata])?;
    }
    Ok(())
}

fn trim(
    tx: &Transaction<'_>,
    topic: &Arc<Topic>,
    partition: u32,
    before: Offset,
    changes: &mut Changes,
) -> rusqlite::Result<Result<Done, LogError>> {
    let bounds = match changes.bounds(topic, partition) {
        Ok(bounds) => bounds,
        Err(error) => return Ok(Err(error)),
    };
    if before > bounds.high {
        return Ok(Err(LogError::OutOfRange {
            topic: topic.name.clone(),
            partition,
            wanted: before,
            low: bounds.low,
            high: bounds.high,
        }));
    }
    if before > bounds.low {
        set_low(tx, topic, partition, Bounds { low: before, ..bounds }, changes)?;
    }
    Ok(Ok(Done::Nothing))
}

fn set_low(
    tx: &Transaction<'_>,
    topic: &Arc<Topic>,
    partition: u32,
    bounds: Bounds,
    changes: &mut Changes,
) -> rusqlite::Result<()> {
    let low = i64::try_from(bounds.low).unwrap_or(i64::MAX);
    tx.prepare_cached("UPDATE partitions SET low = ?3 WHERE topic = ?1 AND partition = ?2")?
        .execute(params![topic.id, partition, low])?;
    changes.set(topic, partition, bounds);
    changes.trimmed.push((topic.clone(), partition));
    Ok(())
}

/// Writes the row that readiness asks for, with this many bytes of filler.
pub(super) fn write_probe(tx: &Transaction<'_>, now: i64, filler: usize) -> rusqlite::Result<()> {
    let filler = i64::try_from(filler).unwrap_or(i64::MAX);
    tx.prepare_cached("INSERT OR REPLACE INTO probe (id, at, filler) VALUES (0, ?1, zeroblob(?2))")?
        .execute(params![now, filler])
        .map(drop)
}

/// Moves the low marks of a topic past what is older than its retention. What a group has not come to stays, however old
/// it is: this machine may have been off for longer than the retention.
pub(super) fn expire_topic(
    tx: &Transaction<'_>,
    topic: &Arc<Topic>,
    now: i64,
    changes: &mut Changes,
) -> rusqlite::Result<()> {
    let retention: Option<i64> =
        tx.query_row("SELECT retention_ms FROM topics WHERE id = ?1", [topic.id], |row| row.get(0))?;
    let Some(retention) = retention else { return Ok(()) };
    let kept_from = now.saturating_sub(retention);
    for (partition, watch) in topic.bounds.iter().enumerate() {
        let partition = partition as u32;
        let bounds = *watch.borrow();
        let first_kept: Option<i64> = tx
            .prepare_cached(&format!(
                "SELECT position FROM records_{} WHERE position >= ?1 AND position < ?2 AND appended_at >= ?3
                 ORDER BY position LIMIT 1",
                topic.id
            ))?
            .query_row(
                params![position(partition, bounds.low), position(partition, bounds.high), kept_from],
                |row| row.get(0),
            )
            .optional()?;
        let expired = first_kept.map_or(bounds.high, offset_of);
        let waits_from = waits_from(tx, topic, partition)?;
        if waits_from < expired {
            tracing::info!(
                topic = topic.name,
                partition,
                from = waits_from.max(bounds.low),
                "records past their retention are kept: a group has not come to them"
            );
        }
        let low = expired.min(waits_from);
        if low > bounds.low {
            tracing::info!(topic = topic.name, partition, low, "records past their retention are deleted");
            set_low(tx, topic, partition, Bounds { low, ..bounds }, changes)?;
        }
    }
    Ok(())
}

/// First record that a group of this topic has not come to; the end of all offsets where there is no group. A group that
/// committed in other partitions only has come to nothing in this one.
fn waits_from(tx: &Transaction<'_>, topic: &Topic, partition: u32) -> rusqlite::Result<Offset> {
    let mut select = tx.prepare_cached(
        "SELECT min(coalesce((SELECT own.position FROM commits AS own WHERE own.consumer_group = known.consumer_group
             AND own.topic = known.topic AND own.partition = ?2), 0))
         FROM commits AS known WHERE known.topic = ?1",
    )?;
    let from: Option<i64> = select.query_row(params![topic.name, partition], |row| row.get(0))?;
    Ok(from.map_or(Offset::MAX, |from| Offset::try_from(from).unwrap_or(0)))
}

fn ensure_topics(
    tx: &Transaction<'_>,
    topics: &Topics,
    specs: &[TopicSpec],
    changes: &mut Changes,
) -> rusqlite::Result<Result<Done, LogError>> {
    let mut mismatches = Vec::new();
    for spec in specs {
        if spec.partitions == 0 || spec.partitions > PARTITIONS_MAX {
            let text = format!("topic {}: partitions must be from 1 to {PARTITIONS_MAX}", spec.name);
            return Ok(Err(LogError::Config(text)));
        }
        let known = topics
            .find(&spec.name)
            .or_else(|| changes.topics.iter().find(|it| it.name == spec.name).cloned());
        if let Some(known) = known {
            mismatches.extend(mismatch(&known, spec));
        }
    }
    // All or nothing: a wrong topic list leaves no new topics behind.
    if !mismatches.is_empty() {
        return Ok(Err(LogError::Topics(mismatches)));
    }
    for spec in specs {
        let retention = spec.retention.map(|it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX));
        if topics.find(&spec.name).is_none() && !changes.topics.iter().any(|it| it.name == spec.name) {
            changes.topics.push(Arc::new(create_topic(tx, &spec.name, spec.partitions, retention)?));
        } else {
            // The settings are the only place where the retention of a local topic is said.
            tx.execute("UPDATE topics SET retention_ms = ?2 WHERE name = ?1", params![spec.name, retention])?;
        }
    }
    Ok(Ok(Done::Nothing))
}

fn mismatch(known: &Topic, spec: &TopicSpec) -> Option<TopicMismatch> {
    let partitions = known.bounds.len();
    (partitions != spec.partitions as usize).then(|| TopicMismatch {
        topic: spec.name.clone(),
        problem: format!("has {partitions} partitions, settings say {}", spec.partitions),
        remedy: format!(
            "set the partitions back to {partitions}, or start with a new path for the local log"
        ),
    })
}
