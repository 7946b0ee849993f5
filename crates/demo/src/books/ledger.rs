//! Reads the topics of a pipeline, from their beginning or from now on, as far as they reach; and again from there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mailrail_log::{Bounds, Log, LogError, Offset, Reader, Readers, StoredRecord, TopicSpec};
use mailrail_types::{DeadReason, DeliveryId, EventId, Mailbox, Outcome};
use tokio::time::{Instant, sleep};

use super::Pipeline;
use super::statement::Fault;
use crate::Error;

/// A partition that has records gives one within this time, or the log is not well.
const READ_WAIT: Duration = Duration::from_secs(30);

/// Pause before a log that could not say something is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Records asked for at once: with bodies of 1 MiB that is still memory a laptop has.
const READ_RECORDS_MAX: usize = 100;

/// What the log says became of every event.
pub struct Books {
    log: Arc<dyn Log>,
    readers: Box<dyn Readers>,
    pipeline: Pipeline,
    partitions: HashMap<(Topic, u32), Partition>,
    /// Events that are in the log and that match has not yet committed, when last looked.
    pub(super) unmatched: u64,
    pub(super) events: HashSet<EventId>,
    pub(super) deliveries: HashMap<DeliveryId, Owed>,
    pub(super) ends: HashMap<DeliveryId, BTreeSet<End>>,
    /// What is wrong with the topics themselves.
    pub(super) damage: Vec<Fault>,
    /// Events from before the books were opened: what still becomes of them is not in these books.
    pub(super) earlier: HashSet<EventId>,
}

/// A delivery that match decided.
pub(super) struct Owed {
    pub(super) event: EventId,
    pub(super) mailbox: Mailbox,
    /// Whether it is the copy of a cell.
    pub(super) forwarded: bool,
}

/// How a delivery can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum End {
    Delivered,
    DeadLettered,
    Expired,
    Cancelled,
}

impl End {
    pub(super) const fn name(self) -> &'static str {
        match self {
            End::Delivered => "delivered",
            End::DeadLettered => "dead-lettered",
            End::Expired => "expired",
            End::Cancelled => "cancelled",
        }
    }
}

/// What is not done yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsettled {
    /// Events that match has not committed yet.
    pub unmatched: u64,
    /// Deliveries without an end.
    pub in_progress: u64,
    /// Deliveries known so far.
    pub deliveries: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Topic {
    Events,
    Deliveries,
    Attempts,
    DeadLetters,
}

struct Partition {
    position: Offset,
    reader: Option<Box<dyn Reader>>,
}

impl Books {
    /// Opens the books of a whole log and reads them for the first time.
    ///
    /// # Errors
    /// As [`Books::catch_up`].
    pub async fn read(log: Arc<dyn Log>, pipeline: Pipeline) -> Result<Self, Error> {
        let mut books = Self::empty(log, pipeline)?;
        books.catch_up().await?;
        Ok(books)
    }

    /// Opens books that begin now: of what is in the log already they only know which events those are, and leave out
    /// whatever still becomes of them.
    ///
    /// # Errors
    /// As [`Books::catch_up`].
    pub async fn from_now(log: Arc<dyn Log>, pipeline: Pipeline) -> Result<Self, Error> {
        let mut books = Self::empty(log, pipeline)?;
        // Events last: of one that comes in meanwhile, either all is in the books or nothing.
        for topic in [Topic::Attempts, Topic::DeadLetters, Topic::Deliveries] {
            books.skip_to_end(topic).await?;
        }
        books.catch_up_with(Topic::Events).await?;
        books.earlier = std::mem::take(&mut books.events);
        books.damage.clear();
        Ok(books)
    }

    fn empty(log: Arc<dyn Log>, pipeline: Pipeline) -> Result<Self, Error> {
        Ok(Self {
            readers: log.readers()?,
            log,
            pipeline,
            partitions: HashMap::new(),
            unmatched: 0,
            events: HashSet::new(),
            deliveries: HashMap::new(),
            ends: HashMap::new(),
            damage: Vec::new(),
            earlier: HashSet::new(),
        })
    }

    /// Reads what was written since the last time.
    ///
    /// # Errors
    /// [`Error::Log`] when the log does not answer or lost records that were not read yet, [`Error::Stalled`] when a
    /// partition is shorter than it says.
    pub async fn catch_up(&mut self) -> Result<(), Error> {
        // Against the stream: an end is read before the delivery it belongs to, a delivery before its event. So whatever
        // is written meanwhile, nothing is read whose cause is not read too.
        self.catch_up_with(Topic::Attempts).await?;
        self.catch_up_with(Topic::DeadLetters).await?;
        let matched = self.matched().await?;
        self.catch_up_with(Topic::Deliveries).await?;
        let highs = self.catch_up_with(Topic::Events).await?;
        self.unmatched = highs
            .into_iter()
            .map(|(p, bounds)| {
                bounds.1.saturating_sub(matched.get(&p).copied().unwrap_or(bounds.0).max(bounds.0))
            })
            .sum();
        Ok(())
    }

    /// What is not done yet, as far as was read.
    #[must_use]
    pub fn unsettled(&self) -> Unsettled {
        let ended = self.deliveries.keys().filter(|id| self.ends.contains_key(id)).count();
        Unsettled {
            unmatched: self.unmatched,
            in_progress: (self.deliveries.len() - ended) as u64,
            deliveries: self.deliveries.len() as u64,
        }
    }

    /// Where match committed, by partition of events.
    async fn matched(&self) -> Result<BTreeMap<u32, Offset>, Error> {
        let mut matched = BTreeMap::new();
        for p in 0..self.pipeline.events.partitions {
            let committed =
                self.log.committed(&self.pipeline.match_group, &self.pipeline.events.name, p).await?;
            if let Some(committed) = committed {
                matched.insert(p, committed.offset);
            }
        }
        Ok(matched)
    }

    /// The bounds of a partition. Asked again for a while: one of a topic that was just made may have no leader yet.
    async fn bounds(&self, topic: &str, p: u32) -> Result<Bounds, LogError> {
        let end = Instant::now() + READ_WAIT;
        loop {
            match self.log.bounds(topic, p).await {
                Err(LogError::Unavailable(_)) if Instant::now() < end => sleep(ASK_AGAIN_AFTER).await,
                answer => return answer,
            }
        }
    }

    async fn skip_to_end(&mut self, topic: Topic) -> Result<(), Error> {
        let spec = self.spec(topic).clone();
        for p in 0..spec.partitions {
            let position = self.bounds(&spec.name, p).await?.high;
            self.partitions.insert((topic, p), Partition { position, reader: None });
        }
        Ok(())
    }

    /// Reads a topic to its end; low and high of each partition.
    async fn catch_up_with(&mut self, topic: Topic) -> Result<Vec<(u32, (Offset, Offset))>, Error> {
        let spec = self.spec(topic).clone();
        let mut all = Vec::new();
        for p in 0..spec.partitions {
            let bounds = self.bounds(&spec.name, p).await?;
            all.push((p, (bounds.low, bounds.high)));
            let fresh = !self.partitions.contains_key(&(topic, p));
            if fresh && bounds.low > 0 {
                let records = bounds.low;
                self.damage.push(Fault::Trimmed { topic: spec.name.clone(), partition: p, records });
            }
            let mut partition = self
                .partitions
                .remove(&(topic, p))
                .unwrap_or(Partition { position: bounds.low, reader: None });
            let read = self.read_to(&spec, topic, p, &mut partition, bounds.high).await;
            self.partitions.insert((topic, p), partition);
            read?;
        }
        Ok(all)
    }

    async fn read_to(
        &mut self,
        spec: &TopicSpec,
        topic: Topic,
        p: u32,
        partition: &mut Partition,
        high: Offset,
    ) -> Result<(), Error> {
        while partition.position < high {
            let mut reader = match partition.reader.take() {
                Some(reader) => reader,
                None => self.readers.open(&spec.name, p, partition.position)?,
            };
            let records =
                tokio::time::timeout(READ_WAIT, reader.next(READ_RECORDS_MAX)).await.map_err(|_| {
                    Error::Stalled {
                        topic: spec.name.clone(),
                        partition: p,
                        position: partition.position,
                        high,
                    }
                })??;
            partition.reader = Some(reader);
            for record in records {
                partition.position = record.offset + 1;
                if let Err(problem) = self.enter(topic, &record) {
                    let offset = record.offset;
                    let problem = problem.to_string();
                    self.damage.push(Fault::Unreadable {
                        topic: spec.name.clone(),
                        partition: p,
                        offset,
                        problem,
                    });
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, topic: Topic, record: &StoredRecord) -> Result<(), mailrail_wire::Error> {
        match topic {
            Topic::Events => {
                let event = mailrail_wire::decode_event(&record.value)?.id;
                if !self.earlier.contains(&event) {
                    self.events.insert(event);
                }
            }
            Topic::Deliveries => {
                let delivery = mailrail_wire::decode_delivery(&record.value)?;
                let forwarded = delivery.event.forwarded.is_some();
                let owed = Owed { event: delivery.event.id, mailbox: delivery.mailbox, forwarded };
                if !self.earlier.contains(&owed.event) {
                    // The same delivery may stand here twice: match ran again after a crash.
                    self.deliveries.entry(delivery.id).or_insert(owed);
                }
            }
            Topic::Attempts => {
                let attempt = mailrail_wire::decode_attempt(&record.value)?;
                let end = match attempt.outcome {
                    Outcome::Delivered => End::Delivered,
                    Outcome::Cancelled(_) => End::Cancelled,
                    // Given up is what is in the dead letters, with its payload; an attempt that says so is not enough.
                    Outcome::Dead(_) | Outcome::Retry { .. } => return Ok(()),
                };
                self.end(attempt.event, attempt.delivery, end);
            }
            Topic::DeadLetters => {
                let letter = mailrail_wire::decode_dead_letter(&record.value)?;
                let end = if letter.reason == DeadReason::Expired { End::Expired } else { End::DeadLettered };
                self.end(letter.delivery.event.id, letter.delivery.id, end);
            }
        }
        Ok(())
    }

    fn end(&mut self, event: EventId, delivery: DeliveryId, end: End) {
        if !self.earlier.contains(&event) {
            self.ends.entry(delivery).or_default().insert(end);
        }
    }

    fn spec(&self, topic: Topic) -> &TopicSpec {
        match topic {
            Topic::Events => &self.pipeline.events,
            Topic::Deliveries => &self.pipeline.deliveries,
            Topic::Attempts => &self.pipeline.attempts,
            Topic::DeadLetters => &self.pipeline.dead_letters,
        }
    }
}
