//! Reading a part of a partition, bounded in records and in time.

use std::ops::{ControlFlow, Range};

use mailrail_log::{Offset, Readers, StoredRecord};
use tokio::time::{Instant, timeout_at};

/// Records that are asked for at a time.
const RECORDS_AT_A_TIME: u64 = 1_000;

/// What may still be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Records.
    pub(crate) left: u64,
    /// Until when.
    pub(crate) deadline: Instant,
}

/// How reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All of it was read, or as much as was wanted.
    Whole,
    /// The budget was used up before.
    Cut,
    /// The log did not give the rest.
    Failed(String),
}

/// One partition of a topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: u32,
}

/// Gives the records of `range` to `each`, in order, until it breaks.
pub(crate) async fn read(
    readers: &dyn Readers,
    part: Part<'_>,
    range: Range<Offset>,
    budget: &mut Budget,
    mut each: impl FnMut(&StoredRecord) -> ControlFlow<()>,
) -> Ended {
    if range.is_empty() {
        return Ended::Whole;
    }
    let mut reader = match readers.open(part.topic, part.partition, range.start) {
        Ok(reader) => reader,
        Err(error) => return Ended::Failed(error.to_string()),
    };
    let mut next = range.start;
    while next < range.end {
        // Asked here as well: a log that always has something ready would never be interrupted.
        if budget.left == 0 || Instant::now() >= budget.deadline {
            return Ended::Cut;
        }
        let wanted = usize::try_from(budget.left.min(RECORDS_AT_A_TIME)).unwrap_or(1);
        let records = match timeout_at(budget.deadline, reader.next(wanted)).await {
            Ok(Ok(records)) => records,
            Ok(Err(error)) => return Ended::Failed(error.to_string()),
            Err(_) => return Ended::Cut,
        };
        budget.left = budget.left.saturating_sub(records.len() as u64);
        next = records.last().map_or(next, |last| last.offset + 1);
        for record in records.iter().filter(|record| record.offset < range.end) {
            if each(record).is_break() {
                return Ended::Whole;
            }
        }
    }
    Ended::Whole
}
