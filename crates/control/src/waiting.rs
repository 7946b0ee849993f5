//! What waits in each mailbox, counted in the log itself: the keys of the records that a group has not done, and what its
//! journal says is parked.
//!
//! A look is bounded in records and in time. One that is cut short gives lower bounds and says so; each partition is read
//! from its front, so the age of what was found is right even then.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use mailrail_log::{Offset, Readers, StoredRecord};
use mailrail_mailbox::{Checkpoint, Fold, Hold};
use mailrail_types::{MailboxKey, Timestamp};
use tokio::time::{Instant, timeout_at};

use crate::config::Topic;
use crate::journal::{self, Journal, JournalHead};
use crate::reading::{self, Budget, Ended, Part};
use crate::status::{Ask, QUESTIONS_AT_ONCE, waiting};

/// Partitions that are read at once. Each holds some megabytes of records ahead.
const PARTITIONS_AT_ONCE: usize = 8;
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
    /// Where the group parks what must wait, if it does.
    pub(crate) journal: Option<&'a Topic>,
}

/// Bounds of a look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookLimits {
    pub(crate) records_max: u64,
    pub(crate) within: Duration,
    /// Only at what is parked: the records of the topic are left out.
    pub(crate) parked_only: bool,
}

/// What a mailbox has waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) depth: u64,
    /// When the oldest of it was appended. Of what is parked in many mailboxes: at the latest.
    pub(crate) oldest: Timestamp,
    /// How much of it is parked in the journal.
    pub(crate) parked: u64,
    /// What the first of it waits for, when that is parked and not its turn.
    pub(crate) hold: Option<Hold>,
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
        let one = Waiting { depth: 1, oldest: record.appended_at, parked: 0, hold: None };
        self.add_waiting(&record.key, one);
    }

    fn add_waiting(&mut self, key: &[u8], waiting: Waiting) {
        match self.mailboxes.get_mut(key) {
            Some(known) => {
                known.depth = known.depth.saturating_add(waiting.depth);
                known.oldest = known.oldest.min(waiting.oldest);
                known.parked = known.parked.saturating_add(waiting.parked);
                known.hold = known.hold.or(waiting.hold);
            }
            None => {
                self.mailboxes.insert(key.into(), waiting);
            }
        }
    }

    fn add_parked(&mut self, journal: &Journal) {
        for (mailbox, backlog) in journal.fold.backlogs() {
            let parked = journal::owed(backlog);
            let Some(place) = journal::first_place(backlog).filter(|_| parked > 0) else { continue };
            let Some(oldest) = journal.written_by(place) else {
                self.truncated = true;
                continue;
            };
            let waiting = Waiting { depth: parked, oldest, parked, hold: journal::hold(backlog) };
            self.add_waiting(mailbox.as_str().as_bytes(), waiting);
        }
    }

    /// Notes how reading ended.
    fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Whole => {}
            Ended::Cut => self.truncated = true,
            Ended::Failed(error) => self.failed(error),
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
pub(crate) struct Head {
    pub(crate) topic: String,
    pub(crate) partition: u32,
    pub(crate) from: Checkpoint,
    pub(crate) end: Offset,
    pub(crate) journal: Option<JournalHead>,
}

impl Head {
    fn len(&self) -> u64 {
        self.end.saturating_sub(self.from.offset)
    }

    fn journal_len(&self) -> u64 {
        self.journal.as_ref().map_or(0, JournalHead::len)
    }
}

/// Looks at what waits in all partitions of `subjects`. Long partitions share `limits.records_max` evenly, after the short
/// ones, which are looked at whole.
pub(crate) async fn look(ask: Ask<'_>, subjects: &[Subject<'_>], limits: LookLimits) -> Found {
    let deadline = Instant::now() + limits.within;
    let mut found = Found::default();
    let heads = heads(ask, subjects, limits.parked_only, deadline, &mut found).await;
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
    let records_of = |head: &Head| if limits.parked_only { 0 } else { head.len() };
    let lengths: Vec<u64> = heads.iter().flat_map(|head| [records_of(head), head.journal_len()]).collect();
    let shares = shares(&lengths, limits.records_max);
    let parts: Vec<_> = heads
        .into_iter()
        .zip(shares.chunks(2))
        .map(|(head, share)| read(readers.as_ref(), head, [share[0], share[1]], limits.parked_only, deadline))
        .collect();
    let mut parts = stream::iter(parts).buffer_unordered(PARTITIONS_AT_ONCE);
    while let Some(part) = parts.next().await {
        found.merge(part);
    }
    found
}

/// The partitions that have something waiting.
async fn heads(
    ask: Ask<'_>,
    subjects: &[Subject<'_>],
    parked_only: bool,
    deadline: Instant,
    found: &mut Found,
) -> Vec<Head> {
    // Without a position the whole journal is read, which shows nothing as parked that is not: it may be believed at once.
    let asks = if parked_only { 1 } else { NO_POSITION_ASKS };
    let questions: Vec<_> = subjects
        .iter()
        .flat_map(|subject| {
            (0..subject.topic.partitions).map(move |partition| head_within(ask, *subject, partition, asks))
        })
        .collect();
    let mut answers = stream::iter(questions).buffer_unordered(QUESTIONS_AT_ONCE);
    let mut heads = Vec::new();
    loop {
        match timeout_at(deadline, answers.next()).await {
            Ok(None) => return heads,
            Ok(Some(Ok(head))) => {
                found.answered = true;
                heads.extend(Some(head).filter(|head| head.len() + head.journal_len() > 0));
            }
            Ok(Some(Err(error))) => found.failed(error),
            Err(_) => {
                found.failed("the log did not say in time where its groups are".to_owned());
                return heads;
            }
        }
    }
}

/// Where the group is in a partition, and where that and its journal end.
pub(crate) async fn head(ask: Ask<'_>, subject: Subject<'_>, partition: u32) -> Result<Head, String> {
    head_within(ask, subject, partition, NO_POSITION_ASKS).await
}

/// The same, and a group that says that it never committed is asked `asks` times, where that may be wrong.
async fn head_within(ask: Ask<'_>, subject: Subject<'_>, partition: u32, asks: u32) -> Result<Head, String> {
    let Subject { topic: Topic { name: topic, .. }, group, journal } = subject;
    let asks = if ask.log.never_committed_is_certain() { 1 } else { asks };
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
    let journal = match journal {
        Some(Topic { name, .. }) => {
            Some(JournalHead::new(name, ask.bounds(name, partition).await?, from.snapshot))
        }
        None => None,
    };
    Ok(Head { topic: topic.clone(), partition, from, end: bounds.high, journal })
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

/// Reads as many records of a partition, and entries of its journal, as `shares` says. Bodies are not looked at.
async fn read(
    readers: &dyn Readers,
    head: Head,
    shares: [u64; 2],
    parked_only: bool,
    deadline: Instant,
) -> Found {
    let mut found = Found { answered: true, ..Found::default() };
    let [left, entries] = shares;
    // The journal first: what is parked there counts as parked, also where it is not committed yet.
    let mut journal = Journal::empty();
    if let Some(at) = &head.journal {
        let mut budget = Budget { left: entries, deadline };
        let (read, ended) = Journal::read(readers, at, head.partition, &mut budget, |_| {}).await;
        found.ended(ended);
        journal = read;
        // One record for each place that is dated: they cost nothing beside the entries.
        journal.date(readers, at, head.partition, &mut Budget { left: u64::MAX, deadline }).await;
        found.add_parked(&journal);
    }
    if parked_only {
        return found;
    }
    let part = Part { topic: &head.topic, partition: head.partition };
    let mut budget = Budget { left, deadline };
    let ended = reading::read(readers, part, head.from.offset..head.end, &mut budget, |record| {
        if !head.from.done.contains(record.offset) && !is_parked(&journal.fold, record) {
            found.add(record);
        }
        ControlFlow::Continue(())
    });
    let ended = ended.await;
    found.ended(ended);
    found
}

/// Whether the journal holds this record of the deliveries, or held it.
pub(crate) fn is_parked(fold: &Fold, record: &StoredRecord) -> bool {
    let Some(key) = std::str::from_utf8(&record.key).ok().filter(|_| !fold.is_empty()) else { return false };
    fold.backlog(&MailboxKey::from_text(key)).is_some_and(|backlog| journal::covers(backlog, record.offset))
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
        let waiting = |depth, at| Waiting { depth, oldest: Timestamp(at), parked: 0, hold: None };
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
