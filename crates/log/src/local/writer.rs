//! The one writer: drains what is queued into one transaction, one fsync, then answers all of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, TransactionBehavior, params};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::schema::{Topic, Topics, position, unavailable};
use super::work::{Answer, Changes, Done, Work, apply, expire_topic, write_probe};
use crate::LogError;

/// Calls in one transaction: enough that a fsync is shared by a busy process, few enough that the first waits little.
const GROUP_CALLS_MAX: usize = 512;
/// Bytes in one transaction: bounds the write-ahead file and the wait of the first call.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Trimmed rows deleted in one go, so that appends never wait long for a trim.
const SWEEP_ROWS: i64 = 2_000;
/// Time for roles to join and commit before the first records expire. Not the whole interval: a process that never lives
/// that long must delete, too.
const EXPIRE_FIRST: Duration = Duration::from_secs(60);
/// Wait after a failed deletion of trimmed rows.
const SWEEP_RETRY: Duration = Duration::from_secs(10);

/// Work with the way back. The permits free the queue when the job is dropped.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<Done, LogError>>,
    pub(super) permits: Vec<OwnedSemaphorePermit>,
}

pub(super) struct Writer {
    conn: Connection,
    topics: Arc<Topics>,
    jobs: Receiver<Job>,
    retention_every: Duration,
    sweeps: VecDeque<(Arc<Topic>, u32)>,
    /// Bytes of the largest transaction that failed; 0 once as many were written. A disk that has no room for them may still
    /// take a row, and a log that takes only that is not well.
    failed_bytes: usize,
}

impl Writer {
    pub(super) fn new(
        conn: Connection,
        topics: Arc<Topics>,
        jobs: Receiver<Job>,
        retention_every: Duration,
    ) -> Self {
        Self { conn, topics, jobs, retention_every, sweeps: VecDeque::new(), failed_bytes: 0 }
    }

    /// Works until it is told to stop or nobody can ask any more.
    pub(super) fn run(mut self) {
        let mut expire_at = Instant::now() + self.retention_every.min(EXPIRE_FIRST);
        let mut stopped = false;
        while !stopped {
            if Instant::now() >= expire_at {
                if let Err(error) = self.expire() {
                    tracing::warn!(%error, "expired records of the local log stay for now");
                }
                expire_at = Instant::now() + self.retention_every;
            }
            match self.first_job(expire_at) {
                Ok(Some(first)) => stopped = self.serve(first),
                Ok(None) => {}
                Err(()) => stopped = true,
            }
            if let Err(error) = self.sweep() {
                tracing::warn!(%error, "trimmed records of the local log stay for now");
                expire_at = expire_at.min(Instant::now() + SWEEP_RETRY);
                self.sweeps.clear();
            }
        }
        if let Err(error) = self.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
            tracing::debug!(%error, "the local log was closed without a checkpoint");
        }
    }

    fn first_job(&self, until: Instant) -> Result<Option<Job>, ()> {
        if !self.sweeps.is_empty() {
            return match self.jobs.try_recv() {
                Ok(job) => Ok(Some(job)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(()),
            };
        }
        match self.jobs.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => Ok(Some(job)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }

    /// One group: whatever is queued behind `first`, one transaction, all answers. True when it was the last.
    fn serve(&mut self, first: Job) -> bool {
        let mut bytes = first.work.bytes();
        let mut stop = matches!(first.work, Work::Stop);
        let mut group = vec![first];
        while !stop && group.len() < GROUP_CALLS_MAX && bytes < GROUP_BYTES_MAX {
            let Ok(job) = self.jobs.try_recv() else { break };
            bytes += job.work.bytes();
            stop = matches!(job.work, Work::Stop);
            group.push(job);
        }
        let (probes, group): (Vec<Job>, Vec<Job>) =
            group.into_iter().partition(|job| matches!(job.work, Work::Probe));
        if !group.is_empty() {
            let answers = self.write(&group);
            self.remember(bytes, answers.is_ok());
            for (position, Job { reply, permits, .. }) in group.into_iter().enumerate() {
                drop(permits);
                let answer = match &answers {
                    Ok(answers) => answers.get(position).map_or(Err(LogError::Closed), Answer::to_result),
                    Err(error) => Err(error.clone()),
                };
                // A caller that went away does not need its answer.
                let _ = reply.send(answer);
            }
        }
        if !probes.is_empty() {
            // By itself: were it the one that fails, it must not fail what others write.
            let outcome = self.probe();
            for Job { reply, .. } in probes {
                let _ = reply.send(outcome.clone().map(|()| Done::Nothing));
            }
        }
        stop
    }

    fn remember(&mut self, bytes: usize, written: bool) {
        if !written {
            self.failed_bytes = self.failed_bytes.max(bytes.min(GROUP_BYTES_MAX));
        } else if bytes >= self.failed_bytes {
            self.failed_bytes = 0;
        }
    }

    /// Whether the disk takes as much as it refused, or a row when it refused nothing.
    fn probe(&mut self) -> Result<(), LogError> {
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unavailable)?;
        write_probe(&tx, now_ms(), self.failed_bytes).map_err(unavailable)?;
        tx.commit().map_err(unavailable)?;
        self.failed_bytes = 0;
        Ok(())
    }

    fn write(&mut self, group: &[Job]) -> Result<Vec<Answer>, LogError> {
        let mut changes = Changes::default();
        let now = now_ms();
        let topics = self.topics.clone();
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unavailable)?;
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            answers.push(apply(&tx, &topics, &job.work, now, &mut changes).map_err(unavailable)?);
        }
        tx.commit().map_err(unavailable)?;
        self.publish(changes);
        Ok(answers)
    }

    /// Tells readers, after the transaction is durable.
    fn publish(&mut self, changes: Changes) {
        for topic in changes.topics {
            self.topics.add(topic);
        }
        for ((_, partition), (topic, bounds)) in changes.bounds {
            if let Ok(watch) = topic.partition(partition) {
                watch.send_replace(bounds);
            }
        }
        self.sweeps.extend(changes.trimmed);
    }

    /// Moves the low mark of every topic with a retention past what is too old.
    fn expire(&mut self) -> Result<(), LogError> {
        let now = now_ms();
        let topics = self.topics.clone();
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unavailable)?;
        let mut changes = Changes::default();
        for topic in topics.all() {
            expire_topic(&tx, &topic, now, &mut changes).map_err(unavailable)?;
        }
        tx.commit().map_err(unavailable)?;
        self.publish(changes);
        // All of them: a process that died between a trim and the deletion, or a full disk, left rows behind.
        self.sweeps = self
            .topics
            .all()
            .into_iter()
            .flat_map(|topic| (0..topic.bounds.len()).map(move |p| (topic.clone(), p as u32)))
            .collect();
        Ok(())
    }

    /// Deletes some rows below a low mark.
    fn sweep(&mut self) -> Result<(), LogError> {
        let Some((topic, partition)) = self.sweeps.front().cloned() else { return Ok(()) };
        let low = topic.partition(partition)?.borrow().low;
        let deleted = self
            .conn
            .execute(
                &format!(
                    "DELETE FROM records_{id} WHERE position IN (SELECT position FROM records_{id}
                         WHERE position >= ?1 AND position < ?2 ORDER BY position LIMIT ?3)",
                    id = topic.id
                ),
                params![position(partition, 0), position(partition, low), SWEEP_ROWS],
            )
            .map_err(unavailable)?;
        if (deleted as i64) < SWEEP_ROWS {
            self.sweeps.pop_front();
        }
        Ok(())
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::sync_channel;

    use bytes::Bytes;
    use tempfile::TempDir;

    use super::*;
    use crate::local::schema::open_writer;
    use crate::{NewRecord, TopicSpec};

    fn ask(writer: &mut Writer, work: Work) -> Result<Done, LogError> {
        let (reply, answer) = oneshot::channel();
        writer.serve(Job { work, reply, permits: Vec::new() });
        answer.blocking_recv().expect("every job is answered")
    }

    fn append(writer: &mut Writer, bytes: usize) -> Result<Done, LogError> {
        let topic = writer.topics.get("t").expect("made");
        let record = NewRecord { value: Bytes::from(vec![b'x'; bytes]), ..NewRecord::default() };
        ask(writer, Work::Append { topic, partition: 0, records: vec![record] })
    }

    /// A writer with one topic, and its queue's other end.
    fn writer(path: &Path) -> (Writer, std::sync::mpsc::SyncSender<Job>) {
        let (jobs, queue) = sync_channel(1);
        let conn = open_writer(path).expect("opens");
        let mut writer = Writer::new(conn, Arc::new(Topics::default()), queue, Duration::from_secs(3600));
        let spec = TopicSpec { name: "t".to_owned(), partitions: 1, retention: None };
        ask(&mut writer, Work::EnsureTopics(vec![spec])).expect("made");
        (writer, jobs)
    }

    /// Room for this many more pages: what a disk that fills up looks like to SQLite.
    fn room(writer: &Writer, pages: i64) {
        let now: i64 = writer.conn.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("count");
        let set = format!("PRAGMA max_page_count = {}", now + pages);
        writer.conn.query_row(&set, [], |row| row.get::<_, i64>(0)).expect("set");
    }

    #[test]
    fn a_disk_that_refuses_appends_fails_the_probe_until_it_takes_them_again() {
        let dir = TempDir::new().expect("dir");
        let (mut writer, _jobs) = writer(&dir.path().join("log.db"));
        ask(&mut writer, Work::Probe).expect("well");
        room(&writer, 10);
        assert!(matches!(append(&mut writer, 100_000), Err(LogError::Unavailable(_))));
        let probed = ask(&mut writer, Work::Probe);
        assert!(matches!(&probed, Err(LogError::Unavailable(text)) if text.contains("full")), "{probed:?}");
        append(&mut writer, 10).expect("a small one has room");
        ask(&mut writer, Work::Probe).expect_err("a disk that takes small records only is not well");
        room(&writer, 100);
        ask(&mut writer, Work::Probe).expect("well again, with nothing appended");
        append(&mut writer, 100_000).expect("what the probe said");
        room(&writer, 0);
        ask(&mut writer, Work::Probe).expect("nothing was refused since");
    }

    #[test]
    fn a_refusal_ends_when_as_much_was_written() {
        let dir = TempDir::new().expect("dir");
        let (mut writer, _jobs) = writer(&dir.path().join("log.db"));
        room(&writer, 10);
        append(&mut writer, 100_000).expect_err("no room");
        append(&mut writer, 90_000).expect_err("no room");
        room(&writer, 100);
        append(&mut writer, 90_000).expect("room");
        assert!(writer.failed_bytes >= 100_000, "less than was refused proves nothing");
        append(&mut writer, 100_000).expect("room");
        assert_eq!(writer.failed_bytes, 0);
    }
}
