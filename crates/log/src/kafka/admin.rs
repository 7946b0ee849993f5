//! Positions: measure, trim, ask what a group committed; and whether the cluster answers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset as Place, TopicPartitionList};

use super::client::{Blocking, Plain, unavailable};
use super::config::KafkaConfig;
use crate::{Bounds, Committed, LogError, Offset};

/// An answer to a question of ours; brokers answer in milliseconds or are in trouble.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// The same for readiness, which is asked every few seconds.
const CHECK_WAIT: Duration = Duration::from_secs(2);
/// How often a committed offset is asked for when the coordinator does not answer.
const COMMITTED_ASKS: u32 = 3;
const COMMITTED_WAIT: Duration = Duration::from_secs(5);
/// Events of a client that nobody polls, taken at one go.
const DRAIN_MAX: usize = 1_000;

/// Everything that is neither appending, reading nor owning.
pub(super) struct Admin {
    pub(super) config: KafkaConfig,
    pub(super) admin: AdminClient<Plain>,
    pub(super) blocking: Blocking,
    /// Clients that ask for committed offsets, by group: a process has one or two.
    observers: Mutex<HashMap<String, Arc<BaseConsumer<Plain>>>>,
    /// A topic that exists, to ask for in readiness checks instead of for all.
    pub(super) known: Mutex<Option<String>>,
}

impl Admin {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, LogError> {
        Ok(Self {
            config: config.clone(),
            admin: config.admin().create_with_context(Plain::default()).map_err(|it| config.refused(it))?,
            blocking: Blocking::new(),
            observers: Mutex::default(),
            known: Mutex::default(),
        })
    }

    pub(super) async fn bounds(self: &Arc<Self>, topic: &str, partition: u32) -> Result<Bounds, LogError> {
        let number = partition_number(partition)?;
        let (this, topic) = (self.clone(), topic.to_owned());
        self.blocking
            .run(move || {
                let (low, high) =
                    this.admin.inner().fetch_watermarks(&topic, number, ANSWER_WAIT).map_err(unavailable)?;
                match (Offset::try_from(low), Offset::try_from(high)) {
                    (Ok(low), Ok(high)) => Ok(Bounds { low, high }),
                    _ => Err(LogError::Unavailable(format!("bounds of {topic}/{partition} are not known"))),
                }
            })
            .await
    }

    pub(super) async fn trim(
        self: &Arc<Self>,
        topic: &str,
        partition: u32,
        before: Offset,
    ) -> Result<(), LogError> {
        let Bounds { low, high } = self.bounds(topic, partition).await?;
        if before > high {
            return Err(LogError::OutOfRange {
                topic: topic.to_owned(),
                partition,
                wanted: before,
                low,
                high,
            });
        }
        if before <= low {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        let place = Place::Offset(i64::try_from(before).unwrap_or(i64::MAX));
        list.add_partition_offset(topic, partition_number(partition)?, place).map_err(unavailable)?;
        let options =
            AdminOptions::new().request_timeout(Some(ANSWER_WAIT)).operation_timeout(Some(ANSWER_WAIT));
        let deleted = self.admin.delete_records(&list, &options).await.map_err(unavailable)?;
        let errors: Result<(), _> = deleted.elements().iter().try_for_each(TopicPartitionListElem::error);
        errors.map_err(unavailable)
    }

    pub(super) async fn committed(
        self: &Arc<Self>,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Committed>, LogError> {
        let number = partition_number(partition)?;
        let observer = self.observer(group)?;
        let mut asked = 0;
        loop {
            asked += 1;
            let (observer, topic) = (observer.clone(), topic.to_owned());
            match self.blocking.run(move || ask_committed(&observer, &topic, number)).await {
                Err(LogError::Unavailable(_)) if asked < COMMITTED_ASKS => {}
                answer => return answer,
            }
        }
    }

    fn observer(&self, group: &str) -> Result<Arc<BaseConsumer<Plain>>, LogError> {
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(observer) = observers.get(group) {
            return Ok(observer.clone());
        }
        let config = self.config.observer(group);
        let observer: BaseConsumer<Plain> =
            config.create_with_context(Plain::default()).map_err(|it| self.config.refused(it))?;
        let observer = Arc::new(observer);
        observers.insert(group.to_owned(), observer.clone());
        Ok(observer)
    }

    pub(super) async fn check(self: &Arc<Self>) -> Result<(), LogError> {
        let this = self.clone();
        self.blocking
            .run(move || {
                for observer in this.observers.lock().unwrap_or_else(PoisonError::into_inner).values() {
                    drain(observer);
                }
                let known = this.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                this.admin.inner().fetch_metadata(known.as_deref(), CHECK_WAIT).map(drop).map_err(unavailable)
            })
            .await
    }

    /// Drops the clients that may wait for the network when dropped. Blocks.
    pub(super) fn close(&self) {
        let observers = std::mem::take(&mut *self.observers.lock().unwrap_or_else(PoisonError::into_inner));
        drop(observers);
    }
}

fn ask_committed(
    observer: &BaseConsumer<Plain>,
    topic: &str,
    partition: i32,
) -> Result<Option<Committed>, LogError> {
    drain(observer);
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    // The answer must not outlive this call: a client that is dropped before it waits for it for ever.
    let list = observer.committed_offsets(list, COMMITTED_WAIT).map_err(unavailable)?;
    let elements = list.elements();
    let Some(element) = elements.first() else {
        return Err(LogError::Unavailable("kafka gave no committed offset and no error".to_owned()));
    };
    element.error().map_err(unavailable)?;
    match element.offset() {
        Place::Offset(offset) => {
            let offset = Offset::try_from(offset)
                .map_err(|_| LogError::Unavailable(format!("kafka gave the committed offset {offset}")))?;
            Ok(Some(Committed { offset, metadata: metadata(element) }))
        }
        Place::Invalid => Ok(None),
        other => Err(LogError::Unavailable(format!("kafka gave the committed offset {other:?}"))),
    }
}

/// Reading the metadata panics when it is not UTF-8, which only a foreign program can have written. Without it the owner
/// replays from the offset, which is always right.
fn metadata(element: &TopicPartitionListElem<'_>) -> String {
    catch_unwind(AssertUnwindSafe(|| element.metadata().to_owned())).unwrap_or_else(|_| {
        tracing::warn!(target: "mailrail_log::kafka", "committed metadata is not ours; ignored");
        String::new()
    })
}

/// Takes what piled up in a client that is not polled otherwise.
fn drain(client: &BaseConsumer<Plain>) {
    for _ in 0..DRAIN_MAX {
        let events = client.context().events.load(std::sync::atomic::Ordering::Relaxed);
        if client.poll(Duration::ZERO).is_none()
            && client.context().events.load(std::sync::atomic::Ordering::Relaxed) == events
        {
            return;
        }
    }
}

fn partition_number(partition: u32) -> Result<i32, LogError> {
    i32::try_from(partition).map_err(|_| LogError::Config(format!("kafka has no partition {partition}")))
}
