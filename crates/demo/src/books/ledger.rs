//! Reads the topics of a pipeline, from their beginning, as far as they reach; and again from there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mailrail_log::{Log, Offset, Reader, Readers, StoredRecord, TopicSpec};
use mailrail_types::{DeadReason, DeliveryId, EventId, MailboxKey, Outcome};

use super::Pipeline;
use super::statement::Fault;
use crate::Error;

/// A partition that has records gives one within this time, or the log is not well.
const READ_WAIT: Duration = Duration::from_secs(30);

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
}

/// A delivery that match decided.
pub(super) struct Owed {
    pub(super) event: EventId,
    pub(super) mailbox: MailboxKey,
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
    /// Opens the books and reads them for the first time.
    ///
    /// # Errors
    /// As [`Books::catch_up`].
    pub async fn read(log: Arc<dyn Log>, pipeline: Pipeline) -> Result<Self, Error> {
        let mut books = Self {
            readers: log.readers()?,
            log,
            pipeline,
            partitions: HashMap::new(),
            unmatched: 0,
            events: HashSet::new(),
            deliveries: HashMap::new(),
            ends: HashMap::new(),
            damage: Vec::new(),
        };
        books.catch_up().await?;
        Ok(books)
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

    /// Reads a topic to its end; low and high of each partition.
    async fn catch_up_with(&mut self, topic: Topic) -> Result<Vec<(u32, (Offset, Offset))>, Error> {
        let spec = self.spec(topic).clone();
        let mut all = Vec::new();
        for p in 0..spec.partitions {
            let bounds = self.log.bounds(&spec.name, p).await?;
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
                self.events.insert(mailrail_wire::decode_event(&record.value)?.id);
            }
            Topic::Deliveries => {
                // The same delivery may stand here twice: match ran again after a crash.
                let delivery = mailrail_wire::decode_delivery(&record.value)?;
                let owed = Owed { event: delivery.event.id, mailbox: delivery.mailbox.key() };
                self.deliveries.entry(delivery.id).or_insert(owed);
            }
            Topic::Attempts => {
                let attempt = mailrail_wire::decode_attempt(&record.value)?;
                let end = match attempt.outcome {
                    Outcome::Delivered => End::Delivered,
                    Outcome::Cancelled(_) => End::Cancelled,
                    // Given up is what is in the dead letters, with its payload; an attempt that says so is not enough.
                    Outcome::Dead(_) | Outcome::Retry { .. } => return Ok(()),
                };
                self.ends.entry(attempt.delivery).or_default().insert(end);
            }
            Topic::DeadLetters => {
                let letter = mailrail_wire::decode_dead_letter(&record.value)?;
                let end = if letter.reason == DeadReason::Expired { End::Expired } else { End::DeadLettered };
                self.ends.entry(letter.delivery.id).or_default().insert(end);
            }
        }
        Ok(())
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
