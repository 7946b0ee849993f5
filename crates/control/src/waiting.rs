//! What waits in each mailbox, counted in the log itself: the keys of the records that a group has not done.
//!
//! A look is bounded in records and in time. One that is cut short gives lower bounds and says so; each partition is read
//! from its front, so the age of what was found is right even then.

use std::collections::HashMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use mailrail_log::{Offset, Readers, StoredRecord};
use mailrail_mailbox::Checkpoint;
use mailrail_types::Timestamp;
use tokio::time::{Instant, timeout_at};

use crate::config::Topic;
use crate::status::{Ask, QUESTIONS_AT_ONCE, waiting};

/// Partitions that are read at once. Each holds some megabytes of records ahead.
const PARTITIONS_AT_ONCE: usize = 8;
/// Records that are asked for at a time.
const RECORDS_AT_A_TIME: u64 = 1_000;
/// How often a group that says that it never committed is asked, where that cannot be believed at once: a look that
/// believed it would show everything that the log still keeps as waiting.
const NO_POSITION_ASKS: u32 = 2;
/// Pause between two of these questions.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// A topic and the group that works it off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) group: &'a str,
}

/// Bounds of a look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookLimits {
    pub(crate) records_max: u64,
    pub(crate) within: Duration,
}

/// What a mailbox has waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) depth: u64,
    /// When the oldest of it was appended.
    pub(crate) oldest: Timestamp,
}

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Mailboxes with something waiting, by record key.
    pub(crate) mailboxes: HashMap<Box<[u8]>, Waiting>,
    /// Whether some of what waits was not looked at.
    pub(crate) truncated: bool,
    /// Why a partition could not be looked at, the first reason.
    pub(crate) error: Option<String>,
    /// Whether at least one partition could be.
    pub(crate) answered: bool,
}

impl Found {
    fn failed(&mut self, error: String) {
        self.truncated = true;
        self.error.get_or_insert(error);
    }

    fn add(&mut self, record: &StoredRecord) {
        let one = Waiting { depth: 1, oldest: record.appended_at };
        self.add_waiting(&record.key, one);
    }

    fn add_waiting(&mut self, key: &[u8], waiting: Waiting) {
        match self.mailboxes.get_mut(key) {
            Some(known) => {
                known.depth = known.depth.saturating_add(waiting.depth);
                known.oldest = known.oldest.min(waiting.oldest);
            }
            None => {
                self.mailboxes.insert(key.into(), waiting);
            }
        }
    }

    fn merge(&mut self, part: Found) {
        for (key, waiting) in part.mailboxes {
            self.add_waiting(&key, waiting);
        }
        self.truncated |= part.truncated;
        self.error = self.error.take().or(part.error);
        self.answered |= part.answered;
    }
}

/// Where a partition's group is, and where the partition ended when it was asked.
struct Head {
    topic: String,
    partition: u32,
    from: Checkpoint,
    end: Offset,
}

impl Head {
    fn len(&self) -> u64 {
        self.end.saturating_sub(self.from.offset)
    }
}

/// Looks at what waits in all partitions of `subjects`. Long partitions share `limits.records_max` evenly, after the short
/// ones, which are looked at whole.
pub(crate) async fn look(ask: Ask<'_>, subjects: &[Subject<'_>], limits: LookLimits) -> Found {
    let deadline = Instant::now() + limits.within;
    let mut found = Found::default();
    let heads = heads(ask, subjects, deadline, &mut found).await;
    if heads.is_empty() {
        return found;
    }
    let readers = match ask.log.readers() {
        Ok(readers) => readers,
        Err(error) => {
            found.failed(error.to_string());
            return found;
        }
    };
    let lengths: Vec<u64> = heads.iter().map(Head::len).collect();
    let parts: Vec<_> = heads
        .into_iter()
        .zip(shares(&lengths, limits.records_max))
        .map(|(head, share)| read(readers.as_ref(), head, share, deadline))
        .collect();
    let mut parts = stream::iter(parts).buffer_unordered(PARTITIONS_AT_ONCE);
    while let Some(part) = parts.next().await {
        found.merge(part);
    }
    found
}

/// The partitions that have something waiting.
async fn heads(ask: Ask<'_>, subjects: &[Subject<'_>], deadline: Instant, found: &mut Found) -> Vec<Head> {
    let questions: Vec<_> = subjects
        .iter()
        .flat_map(|subject| {
            (0..subject.topic.partitions).map(move |partition| head(ask, *subject, partition))
        })
        .collect();
    let mut answers = stream::iter(questions).buffer_unordered(QUESTIONS_AT_ONCE);
    let mut heads = Vec::new();
    loop {
        match timeout_at(deadline, answers.next()).await {
            Ok(None) => return heads,
            Ok(Some(Ok(head))) => {
                found.answered = true;
                heads.extend(Some(head).filter(|head| head.len() > 0));
            }
            Ok(Some(Err(error))) => found.failed(error),
            Err(_) => {
                found.failed("the log did not say in time where its groups are".to_owned());
                return heads;
            }
        }
    }
}

async fn head(ask: Ask<'_>, subject: Subject<'_>, partition: u32) -> Result<Head, String> {
    let Subject { topic: Topic { name: topic, .. }, group } = subject;
    let asks = if ask.log.never_committed_is_certain() { 1 } else { NO_POSITION_ASKS };
    let mut committed = None;
    for asked in 0..asks {
        if asked > 0 {
            tokio::time::sleep(ASK_PAUSE).await;
        }
        committed = ask.answer(ask.log.committed(group, topic, partition)).await?;
        if committed.is_some() {
            break;
        }
    }
    // After the position: the end is then never below it.
    let bounds = ask.bounds(topic, partition).await?;
    waiting(bounds, committed.as_ref().map(|c| c.offset))
        .map_err(|why| format!("{topic}, partition {partition} {why}"))?;
    let from = match committed {
        Some(committed) => Checkpoint::read(committed.offset, &committed.metadata),
        None => Checkpoint::read(bounds.low, ""),
    };
    Ok(Head { topic: topic.clone(), partition, from, end: bounds.high })
}

/// How many records of each partition are read: all of the short ones, and of the long ones as many as of each other.
fn shares(lengths: &[u64], total: u64) -> Vec<u64> {
    let mut shares = vec![0; lengths.len()];
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&at| lengths[at]);
    let (mut left, mut others) = (total, lengths.len() as u64);
    for at in order {
        shares[at] = lengths[at].min(left / others);
        left -= shares[at];
        others -= 1;
    }
    shares
}

/// Reads `share` records of a partition. Bodies are not looked at.
async fn read(readers: &dyn Readers, head: Head, share: u64, deadline: Instant) -> Found {
    let mut found = Found { answered: true, ..Found::default() };
    let Head { topic, partition, from, end } = head;
    let mut reader = match readers.open(&topic, partition, from.offset) {
        Ok(reader) => reader,
        Err(error) => {
            found.failed(error.to_string());
            return found;
        }
    };
    let (mut next, mut left) = (from.offset, share);
    while next < end {
        // Asked here as well: a log that always has something ready would never be interrupted.
        if left == 0 || Instant::now() >= deadline {
            found.truncated = true;
            break;
        }
        let wanted = usize::try_from(left.min(RECORDS_AT_A_TIME)).unwrap_or(1);
        match timeout_at(deadline, reader.next(wanted)).await {
            Ok(Ok(records)) => {
                for record in records.iter().filter(|record| record.offset < end) {
                    if !from.done.contains(record.offset) {
                        found.add(record);
                    }
                }
                left = left.saturating_sub(records.len() as u64);
                next = records.last().map_or(next, |last| last.offset + 1);
            }
            Ok(Err(error)) => {
                found.failed(error.to_string());
                break;
            }
            Err(_) => found.truncated = true,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_partitions_are_read_whole_and_long_ones_alike() {
        assert_eq!(shares(&[], 10), [] as [u64; 0]);
        assert_eq!(shares(&[3, 2], 10), [3, 2], "all of it");
        assert_eq!(shares(&[1_000_000, 0, 5, 900], 100), [48, 0, 5, 47]);
        assert_eq!(shares(&[7, 7, 7], 2), [0, 1, 1]);
        let lengths = [u64::MAX, u64::MAX, 1];
        let shares = shares(&lengths, 200_000);
        assert_eq!(shares.iter().sum::<u64>(), 200_000);
    }

    #[test]
    fn a_mailbox_in_two_places_is_one() {
        let waiting = |depth, at| Waiting { depth, oldest: Timestamp(at) };
        let (mut all, mut part) = (Found::default(), Found::default());
        all.add_waiting(b"a", waiting(2, 50));
        part.add_waiting(b"a", waiting(3, 40));
        part.add_waiting(b"b", waiting(1, 60));
        part.failed("first".to_owned());
        part.failed("second".to_owned());
        all.merge(part);
        assert_eq!(all.mailboxes[&b"a"[..]], waiting(5, 40));
        assert_eq!(all.mailboxes[&b"b"[..]], waiting(1, 60));
        assert_eq!((all.truncated, all.error.as_deref(), all.answered), (true, Some("first"), false));
    }
}
