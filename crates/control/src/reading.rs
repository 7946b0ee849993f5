//! Reading a part of a partition, bounded in records and in time.

use std::ops::{ControlFlow, Range};

use mailrail_log::{Offset, Readers, StoredRecord};
use memchr::memmem;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

/// Records that are asked for at a time.
const RECORDS_AT_A_TIME: u64 = 1_000;
/// Bytes of records that are looked at before others have a turn: some hundred microseconds.
const BYTES_AT_A_TIME: usize = 1024 * 1024;

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

/// Whether an id may be in a record: cheaper than to read the record, and almost none passes that does not have it.
pub(crate) fn may_hold(value: &[u8], id: &[u8]) -> bool {
    memmem::find(value, id).is_some()
}

/// Gives the records of `range` to `each`, in order, until it breaks. Lets other tasks run in between, however much the log
/// has ready.
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
    let (mut next, mut bytes) = (range.start, 0);
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
            bytes += record.value.len();
            if bytes >= BYTES_AT_A_TIME {
                bytes = 0;
                yield_now().await;
            }
        }
        yield_now().await;
    }
    Ended::Whole
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use bytes::Bytes;
    use mailrail_log::{LogError, Reader};
    use mailrail_types::Timestamp;

    use super::*;

    /// A log that has everything ready, always: records of so many bytes.
    struct Ready(usize);

    struct ReadyReader {
        next: Offset,
        value: Bytes,
    }

    impl Readers for Ready {
        fn open(&self, _: &str, _: u32, from: Offset) -> Result<Box<dyn Reader>, LogError> {
            Ok(Box::new(ReadyReader { next: from, value: Bytes::from(vec![0; self.0]) }))
        }
    }

    #[async_trait::async_trait]
    impl Reader for ReadyReader {
        async fn next(&mut self, max_records: usize) -> Result<Vec<StoredRecord>, LogError> {
            let from = self.next;
            self.next += max_records as u64;
            let record = |offset| StoredRecord {
                offset,
                appended_at: Timestamp::from_secs(0),
                key: Bytes::new(),
                value: self.value.clone(),
                headers: Vec::new(),
            };
            Ok((from..self.next).map(record).collect())
        }
    }

    /// How many of `count` records of `size` bytes were read when another task of the same thread had its first turn.
    async fn read_before_others(size: usize, count: u64) -> u64 {
        let log = Ready(size);
        let mut budget = Budget { left: count, deadline: Instant::now() + Duration::from_secs(600) };
        let seen = Cell::new(0);
        let reading = read(&log, Part { topic: "t", partition: 0 }, 0..count, &mut budget, |_| {
            seen.set(seen.get() + 1);
            ControlFlow::Continue(())
        });
        let (ended, before) = futures::join!(reading, async { seen.get() });
        assert_eq!((ended, seen.get()), (Ended::Whole, count));
        before
    }

    #[tokio::test]
    async fn others_have_a_turn_while_much_is_read() {
        assert_eq!(read_before_others(1, 5_000).await, RECORDS_AT_A_TIME);
        assert_eq!(read_before_others(BYTES_AT_A_TIME / 4, 100).await, 4, "large records, of one chunk");
    }

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        let id = [7, 7, 8];
        for value in [&[7, 7, 8][..], &[7, 7, 7, 8, 0], &[0, 7, 7, 8]] {
            assert!(may_hold(value, &id), "{value:?}");
        }
        for value in [&[][..], &[7, 7], &[7, 7, 9, 7, 8]] {
            assert!(!may_hold(value, &id), "{value:?}");
        }
    }
}
