//! Looking through all partitions of a topic, the newest records first, page by page and bounded.

use std::collections::VecDeque;

use futures::stream::{self, StreamExt as _};
use mailrail_log::{Log, Offset, Readers, StoredRecord};
use mailrail_types::Timestamp;
use tokio::time::Instant;

use super::Trouble;
use super::follow::answer;
use crate::config::Topic;
use crate::dead_letters::Limits;
use crate::reading::{Budget, Ended, Part, read};

/// Partitions that are read at once.
const PARTITIONS_AT_ONCE: usize = 8;
/// Records that a partition is read backwards by, at first, and at most: the next step is twice as long.
const STEP_MIN: u64 = 32;
const STEP_MAX: u64 = 4_000;

/// Where a page ended: for each partition the offset below which the next one looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor(pub(super) Vec<Offset>);

impl Cursor {
    pub(super) fn parse(text: &str, partitions: u32) -> Result<Self, Trouble> {
        let offsets: Result<Vec<Offset>, _> = text.split('.').map(str::parse).collect();
        match offsets {
            Ok(offsets) if offsets.len() as u64 == u64::from(partitions) => Ok(Self(offsets)),
            _ => Err(Trouble::Request("'after' is the 'next' of the page before".to_owned())),
        }
    }

    pub(super) fn text(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
    }
}

/// What is looked through.
pub(super) struct Scan<'a> {
    pub(super) log: &'a dyn Log,
    pub(super) topic: &'a Topic,
    pub(super) limits: Limits,
}

/// A page of what was found.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// With partition and offset.
    pub(super) items: Vec<(u32, Offset, T)>,
    pub(super) looked: u64,
    /// `None`: there is nothing older.
    pub(super) next: Option<Cursor>,
    pub(super) error: Option<String>,
}

/// What was found in a partition and is not given yet.
struct Tail<T> {
    partition: u32,
    low: Offset,
    /// Nothing below was looked at.
    end: Offset,
    /// The newest first.
    found: VecDeque<(Timestamp, Offset, T)>,
    step: u64,
    failed: bool,
}

impl<T: Send> Tail<T> {
    fn needs_more(&self) -> bool {
        self.found.is_empty() && self.end > self.low && !self.failed
    }

    /// Where the next page goes on.
    fn place(&self) -> Offset {
        self.found.front().map_or(self.end, |(_, offset, _)| offset + 1)
    }

    /// Reads one step further back, `most` records at most. Gives how many records that was, and why not all of them.
    async fn read_back<F>(
        &mut self,
        of: (&dyn Readers, &str),
        (most, until): (u64, Instant),
        take: F,
    ) -> (u64, Option<String>)
    where
        F: Fn(u32, &StoredRecord) -> Option<T> + Send + Sync,
    {
        let from = self.end.saturating_sub(self.step.min(most)).max(self.low);
        let mut budget = Budget { left: self.end - from, deadline: until };
        let (partition, mut found) = (self.partition, VecDeque::new());
        let part = Part { topic: of.1, partition };
        let ended = read(of.0, part, from..self.end, &mut budget, |record| {
            if let Some(item) = take(partition, record) {
                found.push_front((record.appended_at, record.offset, item));
            }
            std::ops::ControlFlow::Continue(())
        })
        .await;
        let looked = self.end - from - budget.left;
        // The budget is the step itself: it is used up with its last record.
        if ended == Ended::Whole || (ended == Ended::Cut && budget.left == 0) {
            (self.found, self.end) = (found, from);
            self.step = (self.step * 2).min(STEP_MAX);
            return (looked, None);
        }
        self.failed = true;
        let Ended::Failed(error) = ended else { return (looked, None) };
        (looked, Some(error))
    }
}

impl Scan<'_> {
    /// At most `limit` of what `take` takes, from `after` on, the newest first. A page may hold less, or nothing, and have a
    /// next one: it ends when enough was looked at.
    pub(super) async fn page<T, F>(
        &self,
        after: Option<&Cursor>,
        limit: usize,
        take: F,
    ) -> Result<Page<T>, Trouble>
    where
        T: Send,
        F: Fn(u32, &StoredRecord) -> Option<T> + Send + Sync,
    {
        let mut tails = self.tails(after).await?;
        let readers = self.log.readers().map_err(Trouble::of)?;
        let mut page = Page { items: Vec::new(), looked: 0, next: None, error: None };
        let until = Instant::now() + self.limits.within;
        while page.items.len() < limit {
            if tails.iter().any(Tail::needs_more) {
                let left = self.limits.records_max.saturating_sub(page.looked);
                if left == 0 || Instant::now() >= until {
                    break;
                }
                let of = (&*readers, self.topic.name.as_str());
                let hungry: Vec<_> = tails.iter_mut().filter(|tail| tail.needs_more()).collect();
                // What is left is divided; when it is less than they are, some have one record each and the rest none.
                let most = (left / hungry.len() as u64).max(1);
                let hungry = hungry.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX));
                let steps: Vec<_> = hungry.map(|tail| tail.read_back(of, (most, until), &take)).collect();
                let steps: Vec<_> = stream::iter(steps).buffer_unordered(PARTITIONS_AT_ONCE).collect().await;
                for (looked, error) in steps {
                    page.looked += looked;
                    page.error = page.error.take().or(error);
                }
                continue;
            }
            let newest = tails
                .iter_mut()
                .filter(|tail| !tail.found.is_empty())
                .max_by_key(|tail| tail.found.front().map(|(at, ..)| *at));
            let Some(tail) = newest else { break };
            if let Some((_, offset, item)) = tail.found.pop_front() {
                page.items.push((tail.partition, offset, item));
            }
        }
        let more = tails.iter().any(|tail| !tail.found.is_empty() || tail.end > tail.low);
        page.next = more.then(|| Cursor(tails.iter().map(Tail::place).collect()));
        Ok(page)
    }

    async fn tails<T>(&self, after: Option<&Cursor>) -> Result<Vec<Tail<T>>, Trouble> {
        let asked = (0..self.topic.partitions).map(async |partition| {
            let bounds = answer(self.limits.answer, self.log.bounds(&self.topic.name, partition)).await?;
            let before = after.and_then(|cursor| cursor.0.get(partition as usize)).copied();
            let end = before.unwrap_or(bounds.high).clamp(bounds.low, bounds.high.max(bounds.low));
            let found = VecDeque::new();
            Ok(Tail { partition, low: bounds.low, end, found, step: STEP_MIN, failed: false })
        });
        let asked: Vec<_> = asked.collect();
        let tails: Vec<Result<Tail<T>, Trouble>> =
            stream::iter(asked).buffered(crate::status::QUESTIONS_AT_ONCE).collect().await;
        tails.into_iter().collect()
    }

    /// The record at a place, when there is one.
    pub(super) async fn at(&self, partition: u32, offset: Offset) -> Result<Option<StoredRecord>, Trouble> {
        if partition >= self.topic.partitions {
            return Ok(None);
        }
        let bounds = answer(self.limits.answer, self.log.bounds(&self.topic.name, partition)).await?;
        if !(bounds.low..bounds.high).contains(&offset) {
            return Ok(None);
        }
        let readers = self.log.readers().map_err(Trouble::of)?;
        let mut reader = readers.open(&self.topic.name, partition, offset).map_err(Trouble::of)?;
        let records = answer(self.limits.answer, reader.next(1)).await?;
        Ok(records.into_iter().next().filter(|record| record.offset == offset))
    }
}
