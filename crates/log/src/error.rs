//! What can go wrong at the log.

use thiserror::Error;

use crate::Offset;

/// Errors of the log port.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The log did not take or give anything for now; the same call may succeed later. An append that failed so may
    /// or may not have been written.
    #[error("the log is unavailable: {0}")]
    Unavailable(String),
    /// A record is larger than the log takes.
    #[error("a record of {bytes} bytes is larger than the log takes")]
    TooLarge {
        /// Size of the record.
        bytes: usize,
    },
    /// The wanted offset is below the log start or above its end: data is gone or the topic was re-created. Never
    /// skipped silently.
    #[error(
        "offset {wanted} of {topic}/{partition} is outside {low}..={high}: data is gone or the topic was re-created"
    )]
    OutOfRange {
        /// Topic.
        topic: String,
        /// Partition.
        partition: u32,
        /// What was asked for.
        wanted: Offset,
        /// First offset that exists.
        low: Offset,
        /// One past the last offset.
        high: Offset,
    },
    /// Topics are not as the settings say; each line says what to change.
    #[error("topics are not as configured: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Topics(Vec<TopicMismatch>),
    /// The partition is not owned by this member any more.
    #[error("partition {partition} is not owned by this member")]
    NotOwned {
        /// Partition.
        partition: u32,
    },
    /// The group is just giving its partitions out anew and takes no commit; the same commit may succeed when that is over.
    #[error("the group is giving its partitions out anew")]
    Rebalancing,
    /// Somebody else has the local log open, or the group has a member already.
    #[error("{0}")]
    InUse(String),
    /// The settings cannot work.
    #[error("{0}")]
    Config(String),
    /// The caller found a mistake of its own, which the log has no part in. Whoever owns a partition starts again with what is
    /// in the log.
    #[error("a fault in mailrail itself: {0}")]
    Fault(String),
    /// The adapter was closed.
    #[error("the log is closed")]
    Closed,
}

impl LogError {
    /// Whether a commit that failed so met nothing but a change in its group, which happens whenever a member comes or goes.
    #[must_use]
    pub fn is_of_a_rebalance(&self) -> bool {
        matches!(self, Self::Rebalancing | Self::NotOwned { .. })
    }
}

/// One way in which a topic is not as the settings say.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("topic {topic}: {problem}; {remedy}")]
pub struct TopicMismatch {
    /// The topic.
    pub topic: String,
    /// What is wrong: "has 12 partitions, settings say 64".
    pub problem: String,
    /// What to change.
    pub remedy: String,
}
