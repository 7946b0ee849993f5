//! What a run can find.

use thiserror::Error;

/// What went wrong first in a run. Deliveries are named by partition and offset.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each says what its fields are")]
pub enum Failure {
    #[error("lost: {partition}/{delivery} was accepted, and neither received nor given up")]
    Lost { partition: usize, delivery: u64 },
    #[error("disorder: {partition}/{delivery} was received before {older} of the same strict mailbox")]
    Disorder { partition: usize, older: u64, delivery: u64 },
    #[error("two at a time: {partition}/{first} and {second} of one strict mailbox are in flight")]
    TwoAtATime { partition: usize, first: u64, second: u64 },
    #[error("two of a key: {partition}/{first} and {second} are about the same and in flight")]
    TwoOfAKey { partition: usize, first: u64, second: u64 },
    #[error(
        "many at a time: with {partition}/{delivery} {count} of one mailbox are in flight, at most {most} may be"
    )]
    ManyAtATime { partition: usize, delivery: u64, count: usize, most: usize },
    #[error("innocent: {partition}/{delivery} went to quarantine and kills nobody")]
    Innocent { partition: usize, delivery: u64 },
    #[error("not found: {partition}/{delivery} killed {deaths} isolated owners")]
    NotFound { partition: usize, delivery: u64, deaths: u32 },
    #[error("stopped again: all others waited for {partition}/{delivery} {millis} ms after they did in vain")]
    StoppedAgain { partition: usize, delivery: u64, millis: u64 },
    #[error("sent again: {partition}/{delivery} is done and committed")]
    SentAgain { partition: usize, delivery: u64 },
    #[error("sent twice: one owner sent {partition}/{delivery} again although it had the answer")]
    SentTwice { partition: usize, delivery: u64 },
    #[error(
        "attempts: {partition}/{delivery} had {attempts}, more than its schedule and its takeovers allow"
    )]
    Attempts { partition: usize, delivery: u64, attempts: u32 },
    #[error("commit of partition {partition} went back from {from} to {to}")]
    CommitWentBack { partition: usize, from: u64, to: u64 },
    #[error("committed open: {partition}/{delivery} has not ended and is parked nowhere")]
    CommittedOpen { partition: usize, delivery: u64 },
    #[error("hole: partition {partition} needs its journal from {from} on, which begins at {low}")]
    Hole { partition: usize, from: u64, low: u64 },
    #[error("memory: {what} of partition {partition} is {size}, at most {most} is allowed")]
    Memory { partition: usize, what: &'static str, size: usize, most: usize },
    #[error("pinned: the commit of partition {partition} stands at {at} for {millis} ms")]
    Pinned { partition: usize, at: u64, millis: u64 },
    #[error("content: {partition}/{delivery} is needed and not at hand")]
    NoContent { partition: usize, delivery: u64 },
    #[error("spin: the owner of partition {partition} never finds an end")]
    Spin { partition: usize },
    #[error("a healthy run wrote to the journal of partition {partition}: {entry}")]
    Written { partition: usize, entry: String },
    #[error("the journal of partition {partition} holds {entries} entries and nothing is owed")]
    JournalGrew { partition: usize, entries: usize },
    #[error("duplicates: {count} after {takeovers} takeovers, at most {most} are accounted for")]
    Duplicates { count: u64, takeovers: u64, most: u64 },
    #[error("left over: the owner of partition {partition} still keeps {what}")]
    LeftOver { partition: usize, what: String },
    #[error("stuck: not drained long after all trouble ended: {open}")]
    Stuck { open: String },
    #[error("panic: {0}")]
    Panicked(String),
}

impl Failure {
    /// Whether a delivery was lost.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, Failure::Lost { .. } | Failure::CommittedOpen { .. })
    }

    /// Whether a strict mailbox was received out of its order.
    #[must_use]
    pub fn is_disorder(&self) -> bool {
        matches!(self, Failure::Disorder { .. })
    }
}
