//! The port itself: one contract, two adapters.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mailrail_types::Timestamp;
use tokio::sync::oneshot;

use crate::LogError;

/// Position in a partition. Offsets grow; they need not be contiguous.
pub type Offset = u64;

/// A record to append.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewRecord {
    /// The mailbox key. Chooses nothing here: the caller names the partition.
    pub key: Bytes,
    /// The record.
    pub value: Bytes,
    /// Small named values beside it.
    pub headers: Vec<(String, Bytes)>,
}

/// A record as the log holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Where it stands.
    pub offset: Offset,
    /// When the log took it.
    pub appended_at: Timestamp,
    /// Its key.
    pub key: Bytes,
    /// The record.
    pub value: Bytes,
    /// Small named values beside it.
    pub headers: Vec<(String, Bytes)>,
}

/// What a topic must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSpec {
    /// Its name.
    pub name: String,
    /// Its pinned number of partitions.
    pub partitions: u32,
    /// How long records are kept; `None`: for ever (until trimmed).
    pub retention: Option<Duration>,
}

/// First offset and one past the last offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// First offset that exists, or `high` when empty.
    pub low: Offset,
    /// The offset that the next record gets.
    pub high: Offset,
}

/// A committed position of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Everything below is done.
    pub offset: Offset,
    /// What the owner wrote beside it; at most 4,096 bytes.
    pub metadata: String,
}

/// The log.
#[async_trait]
pub trait Log: Send + Sync + 'static {
    /// Creates the topics that do not exist and verifies all of them: partitions, replication, min.insync.replicas,
    /// unclean election, retention. Never changes an existing topic.
    ///
    /// # Errors
    /// [`LogError::Topics`] with one line per mismatch, each saying what to change.
    async fn ensure_topics(&self, topics: &[TopicSpec]) -> Result<(), LogError>;

    /// Appends records to one partition, in order, and returns their offsets once all of them are durable.
    ///
    /// After an error any prefix of the records may have been written, and never a later one without the earlier ones.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] when the log did not acknowledge in time, [`LogError::TooLarge`] for a record over the
    /// limit (then nothing was written).
    async fn append(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError>;

    /// A set of readers. A role opens one set; within a set a partition has at most one reader at a time.
    ///
    /// # Errors
    /// [`LogError::Config`] when the client cannot be made.
    fn readers(&self) -> Result<Box<dyn Readers>, LogError>;

    /// Joins `group` on `topic`: from now on the membership gives assignments and takes commits.
    ///
    /// # Errors
    /// [`LogError::InUse`] when the adapter allows one member a group and it has one.
    async fn join(&self, group: &str, topic: &str) -> Result<Box<dyn Membership>, LogError>;

    /// What `group` committed for the partition; `None` when nothing was ever committed.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] when nobody could say. Unknown is never `None`.
    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Committed>, LogError>;

    /// Whether a first "nothing was ever committed" can be believed. A Kafka coordinator that is just resigning says so
    /// too (KAFKA-20416): then it is asked again.
    fn never_committed_is_certain(&self) -> bool;

    /// First and next offset of the partition.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] when nobody could say.
    async fn bounds(&self, topic: &str, partition: u32) -> Result<Bounds, LogError>;

    /// Deletes the records below `before`.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] when it was not done; [`LogError::OutOfRange`] when `before` is above the end.
    async fn trim(&self, topic: &str, partition: u32, before: Offset) -> Result<(), LogError>;

    /// Whether the log answers now; for readiness.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] with the reason.
    async fn check(&self) -> Result<(), LogError>;

    /// Flushes and closes, waiting at most `wait`.
    async fn close(&self, wait: Duration);
}

/// A set of readers that share one client.
pub trait Readers: Send + Sync {
    /// Opens a reader at `from`. Dropping the reader ends it.
    ///
    /// # Errors
    /// [`LogError::InUse`] when this set reads the partition already.
    fn open(&self, topic: &str, partition: u32, from: Offset) -> Result<Box<dyn Reader>, LogError>;
}

/// Reads one partition in order. Holds a bounded number of bytes ahead of its caller.
#[async_trait]
pub trait Reader: Send {
    /// At least one record, at most `max_records`, waiting for the first. Cancel safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] when the position does not exist any more; the reader is then of no more use.
    /// [`LogError::Unavailable`] when the log does not answer; calling again goes on where it stopped.
    async fn next(&mut self, max_records: usize) -> Result<Vec<StoredRecord>, LogError>;
}

/// What happens to a member of a group.
#[derive(Debug)]
pub enum GroupEvent {
    /// These partitions are ours from now on. `sequence` grows with every assignment of this member; a message that
    /// carries an older sequence for a partition is stale.
    Assigned {
        /// Number of the assignment.
        sequence: u64,
        /// The partitions.
        partitions: Vec<u32>,
    },
    /// These partitions leave us. The group waits for the [`Release`], for a bounded time: drain, then release with the
    /// last commits. Dropping the release gives up the partitions without a commit.
    Revoked {
        /// The partitions.
        partitions: Vec<u32>,
        /// Answer of the owner.
        release: Release,
    },
    /// These partitions were taken away already: no commit, no attempt, drop everything at once.
    Lost {
        /// The partitions.
        partitions: Vec<u32>,
    },
}

/// How long a group waits for a [`Release`] at least. An owner needs a few seconds to hand over; the rest is for one that could not
/// say its last word, and lets its longest attempt end first.
pub(crate) const RELEASE_WAIT: Duration = Duration::from_secs(60);

/// Answer to a revocation: the last commits.
#[derive(Debug)]
pub struct Release(Option<oneshot::Sender<Vec<(u32, Committed)>>>);

impl Release {
    /// A release, and the receiver that an adapter waits on.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<Vec<(u32, Committed)>>) {
        let (tx, rx) = oneshot::channel();
        (Self(Some(tx)), rx)
    }

    /// Gives the partitions up with these last commits.
    pub fn done(mut self, commits: Vec<(u32, Committed)>) {
        if let Some(tx) = self.0.take() {
            // The adapter stopped waiting: the commits are lost, which costs duplicates and nothing else.
            let _ = tx.send(commits);
        }
    }
}

/// A member of a group.
#[async_trait]
pub trait Membership: Send + Sync {
    /// The next event. `None` after [`Membership::leave`] or when the adapter is closed. Cancel safe. One caller at a
    /// time.
    async fn next(&self) -> Option<GroupEvent>;

    /// Commits positions of owned partitions.
    ///
    /// # Errors
    /// [`LogError::NotOwned`] when a partition is not ours (then nothing is committed), [`LogError::Rebalancing`] while the
    /// group gives its partitions out anew, [`LogError::Unavailable`] when the coordinator did not take it.
    async fn commit(&self, commits: Vec<(u32, Committed)>) -> Result<(), LogError>;

    /// Leaves the group at once, after the owner released its partitions (a revocation is given first).
    async fn leave(&self);
}
