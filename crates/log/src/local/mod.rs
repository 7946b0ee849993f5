//! The local adapter: one SQLite file, one writer with group commit, one process.
//!
//! A record is acknowledged after a transaction with `synchronous=FULL`. Readers have their own connections and sleep
//! until the writer publishes new bounds; nothing polls. A lock file beside the database keeps a second process out.

mod group;
mod reader;
mod schema;
mod work;
mod writer;

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot, watch};

use self::group::Groups;
use self::reader::{Connections, LocalReaders};
use self::schema::Topics;
use self::work::{Done, Work};
use self::writer::{Job, Writer};
use crate::size::record_bytes;
use crate::{Bounds, Committed, Log, LogError, Membership, NewRecord, Offset, Readers, TopicSpec};

/// Calls that wait for the writer; further ones wait before they are queued.
const QUEUE_CALLS_MAX: usize = 1024;
/// KiB of records that wait for the writer.
const QUEUE_KIB_MAX: u32 = 64 * 1024;
/// A writer that did not answer a readiness question in this time is stuck on its disk.
const CHECK_WAIT: Duration = Duration::from_secs(2);

/// Options of the local log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalOptions {
    /// Largest record: key, value and headers, in bytes.
    pub record_bytes_max: usize,
    /// How often records past their retention are looked for.
    pub retention_every: Duration,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self { record_bytes_max: 1024 * 1024, retention_every: Duration::from_secs(3600) }
    }
}

/// The log in one SQLite file, for one process.
pub struct LocalLog {
    inner: Arc<Inner>,
}

struct Inner {
    options: LocalOptions,
    topics: Arc<Topics>,
    connections: Arc<Connections>,
    groups: Groups,
    jobs: Mutex<Option<SyncSender<Job>>>,
    calls: Arc<Semaphore>,
    kib: Arc<Semaphore>,
    closed: watch::Sender<bool>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl LocalLog {
    /// Opens or makes the log at `path`, with the default options. Blocks for the time that opening a file takes.
    ///
    /// # Errors
    /// [`LogError::InUse`] when another process has it open, [`LogError::Config`] when the path cannot be used.
    pub fn open(path: &Path) -> Result<LocalLog, LogError> {
        Self::open_with(path, LocalOptions::default())
    }

    /// Opens or makes the log at `path`.
    ///
    /// # Errors
    /// As [`LocalLog::open`].
    pub fn open_with(path: &Path, options: LocalOptions) -> Result<LocalLog, LogError> {
        let lock = lock(path)?;
        let conn = schema::open_writer(path)?;
        let topics = Arc::new(Topics::default());
        for topic in schema::load_topics(&conn).map_err(schema::unavailable)? {
            topics.add(Arc::new(topic));
        }
        let (jobs, queue) = sync_channel(QUEUE_CALLS_MAX + 1);
        let writer = Writer::new(conn, topics.clone(), queue, options.retention_every);
        let run = move || {
            writer.run();
            // Only now may another process come.
            drop(lock);
        };
        let thread = std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(run)
            .map_err(|e| LogError::Unavailable(format!("no thread for the local log: {e}")))?;
        let inner = Inner {
            options,
            topics,
            connections: Arc::new(Connections::new(path.to_owned())),
            groups: Groups::default(),
            jobs: Mutex::new(Some(jobs)),
            calls: Arc::new(Semaphore::new(QUEUE_CALLS_MAX)),
            kib: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
            closed: watch::Sender::new(false),
            writer: Mutex::new(Some(thread)),
        };
        Ok(LocalLog { inner: Arc::new(inner) })
    }
}

impl Inner {
    /// Queues work and waits until it is durable.
    async fn ask(&self, work: Work) -> Result<Done, LogError> {
        let kib = match &work {
            Work::Append { records, .. } => records.iter().map(record_bytes).sum::<usize>() / 1024,
            Work::Commit { .. } | Work::Trim { .. } | Work::EnsureTopics(_) | Work::Probe | Work::Stop => 0,
        };
        // An append larger than the whole queue goes alone.
        let kib = u32::try_from(kib).unwrap_or(QUEUE_KIB_MAX).min(QUEUE_KIB_MAX);
        let call = self.calls.clone().acquire_owned().await.map_err(|_| LogError::Closed)?;
        let bytes = self.kib.clone().acquire_many_owned(kib).await.map_err(|_| LogError::Closed)?;
        let answer = self.queue(work, vec![call, bytes])?;
        answer.await.map_err(|_| LogError::Closed)?
    }

    fn queue(
        &self,
        work: Work,
        permits: Vec<tokio::sync::OwnedSemaphorePermit>,
    ) -> Result<oneshot::Receiver<Result<Done, LogError>>, LogError> {
        let (reply, answer) = oneshot::channel();
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = jobs.as_ref().ok_or(LogError::Closed)?;
        // The permits are fewer than the places: it is never full.
        jobs.try_send(Job { work, reply, permits }).map_err(|_| LogError::Closed)?;
        Ok(answer)
    }

    fn join_writer(&self) {
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the writer of the local log panicked");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.connections.clear();
        self.join_writer();
    }
}

#[async_trait]
impl Log for LocalLog {
    async fn ensure_topics(&self, topics: &[TopicSpec]) -> Result<(), LogError> {
        self.inner.ask(Work::EnsureTopics(topics.to_vec())).await.map(drop)
    }

    async fn append(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        let topic = self.inner.topics.get(topic)?;
        topic.partition(partition)?;
        if let Some(bytes) =
            records.iter().map(record_bytes).find(|it| *it > self.inner.options.record_bytes_max)
        {
            return Err(LogError::TooLarge { bytes });
        }
        if records.is_empty() {
            return Ok(Vec::new());
        }
        match self.inner.ask(Work::Append { topic, partition, records }).await? {
            Done::Offsets(offsets) => Ok(offsets),
            Done::Nothing => Ok(Vec::new()),
        }
    }

    fn readers(&self) -> Result<Box<dyn Readers>, LogError> {
        Ok(Box::new(LocalReaders {
            topics: self.inner.topics.clone(),
            connections: self.inner.connections.clone(),
            closed: self.inner.closed.subscribe(),
            open: Arc::new(Mutex::new(HashSet::new())),
        }))
    }

    async fn join(&self, group: &str, topic: &str) -> Result<Box<dyn Membership>, LogError> {
        let topic = self.inner.topics.get(topic)?;
        Ok(Box::new(group::join(&self.inner, group, topic).await?))
    }

    fn never_committed_is_certain(&self) -> bool {
        true
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Committed>, LogError> {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        self.inner.connections.read(move |conn| reader::committed(conn, &group, &topic, partition)).await
    }

    async fn bounds(&self, topic: &str, partition: u32) -> Result<Bounds, LogError> {
        Ok(*self.inner.topics.get(topic)?.partition(partition)?.borrow())
    }

    async fn trim(&self, topic: &str, partition: u32, before: Offset) -> Result<(), LogError> {
        let topic = self.inner.topics.get(topic)?;
        topic.partition(partition)?;
        self.inner.ask(Work::Trim { topic, partition, before }).await.map(drop)
    }

    async fn check(&self) -> Result<(), LogError> {
        match tokio::time::timeout(CHECK_WAIT, self.inner.ask(Work::Probe)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(LogError::Unavailable(error.to_string())),
            Err(_) => Err(LogError::Unavailable("the local log's writer does not answer".to_owned())),
        }
    }

    async fn close(&self, wait: Duration) {
        let inner = self.inner.clone();
        let stop = inner.ask(Work::Stop);
        if tokio::time::timeout(wait, stop).await.is_err() {
            tracing::warn!("the local log was closed before its last writes were acknowledged");
        }
        inner.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        inner.closed.send_replace(true);
        inner.groups.close();
        inner.connections.clear();
        let joined = tokio::task::spawn_blocking(move || inner.join_writer());
        if tokio::time::timeout(wait, joined).await.is_err() {
            tracing::warn!("the local log's writer is still busy with its disk");
        }
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// The lock is on a file of its own: closing any handle of the database itself would drop SQLite's own locks.
fn lock(path: &Path) -> Result<File, LogError> {
    let lock_path = lock_path(path);
    let file = OpenOptions::new().create(true).write(true).truncate(false).open(&lock_path).map_err(|e| {
        LogError::Config(format!(
            "the local log cannot be made at {}: {e}; its folder must exist",
            path.display()
        ))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LogError::InUse(format!(
            "the local log at {} is open in another process; stop that one, or give this one another path",
            path.display()
        ))),
        Err(TryLockError::Error(e)) => {
            Err(LogError::Config(format!("{} cannot be locked: {e}; use a local disk", lock_path.display())))
        }
    }
}
