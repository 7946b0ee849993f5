//! Positions: measure, trim, ask what a group committed; and whether the cluster answers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset as Place, TopicPartitionList};

use super::client::{Blocking, Plain, bounds_in, unavailable};
use super::config::KafkaConfig;
use super::renewable::{Lent, Renewable};
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

type Observer = Renewable<BaseConsumer<Plain>>;

/// Everything that is neither appending, reading nor owning.
pub(super) struct Admin {
    pub(super) config: KafkaConfig,
    admin: Renewable<AdminClient<Plain>>,
    pub(super) blocking: Blocking,
    /// Clients that ask for committed offsets, by group: a process has one or two.
    /// Nothing: the log is closed.
    observers: Mutex<Option<HashMap<String, Arc<Observer>>>>,
    /// A topic that exists, to ask for in readiness checks instead of for all.
    pub(super) known: Mutex<Option<String>>,
}

impl Admin {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, LogError> {
        let new = Self {
            config: config.clone(),
            admin: Renewable::default(),
            blocking: Blocking::new(),
            observers: Mutex::new(Some(HashMap::new())),
            known: Mutex::default(),
        };
        // What cannot work is said at once.
        new.client()?;
        Ok(new)
    }

    fn client(&self) -> Result<Arc<Lent<AdminClient<Plain>>>, LogError> {
        self.admin.get(|| {
            let made = self.config.admin().create_with_context(Plain::default());
            made.map_err(|it| self.config.refused(it))
        })
    }

    /// Asks the cluster. Blocks.
    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&Client<Plain>) -> Result<T, KafkaError>,
    ) -> Result<T, LogError> {
        let (client, began) = (self.client()?, Instant::now());
        let answer = question(client.inner());
        self.admin.asked(&client, &answer, began, Instant::now());
        answer.map_err(unavailable)
    }

    /// Gives the cluster an order. It waits on an async worker; the client is made where it may block, since whoever asks meanwhile waits
    /// for that too.
    pub(super) async fn order<T>(
        self: &Arc<Self>,
        order: impl AsyncFnOnce(&AdminClient<Plain>) -> Result<T, KafkaError>,
    ) -> Result<T, LogError> {
        let this = self.clone();
        let client = self.blocking.run(move || this.client()).await?;
        let began = Instant::now();
        let answer = order(&client).await;
        self.admin.asked(&client, &answer, began, Instant::now());
        answer.map_err(unavailable)
    }

    pub(super) async fn bounds(self: &Arc<Self>, topic: &str, partition: u32) -> Result<Bounds, LogError> {
        let number = partition_number(partition)?;
        let (this, topic) = (self.clone(), topic.to_owned());
        self.blocking
            .run(move || {
                let places = this.ask(|it| it.fetch_watermarks(&topic, number, ANSWER_WAIT))?;
                let unknown =
                    || LogError::Unavailable(format!("bounds of {topic}/{partition} are not known"));
                bounds_in(places).ok_or_else(unknown)
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
        let deleted = self.order(async |it| it.delete_records(&list, &options).await).await?;
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
            let (this, observer) = (self.clone(), observer.clone());
            let (group, topic) = (group.to_owned(), topic.to_owned());
            match self.blocking.run(move || this.ask_committed(&observer, &group, &topic, number)).await {
                Err(LogError::Unavailable(_)) if asked < COMMITTED_ASKS => {}
                answer => return answer,
            }
        }
    }

    fn observer(&self, group: &str) -> Result<Arc<Observer>, LogError> {
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        let observers = observers.as_mut().ok_or(LogError::Closed)?;
        Ok(observers.entry(group.to_owned()).or_default().clone())
    }

    fn ask_committed(
        &self,
        observer: &Observer,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Result<Option<Committed>, LogError> {
        let client = observer.get(|| {
            let made = self.config.observer(group).create_with_context(Plain::default());
            made.map_err(|it| self.config.refused(it))
        })?;
        drain(&client);
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let began = Instant::now();
        let answer = client.committed_offsets(list, COMMITTED_WAIT);
        observer.asked(&client, &answer, began, Instant::now());
        committed_in(&answer.map_err(unavailable)?)
    }

    pub(super) async fn check(self: &Arc<Self>) -> Result<(), LogError> {
        let this = self.clone();
        self.blocking
            .run(move || {
                this.drain_observers();
                let known = this.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                this.ask(|it| it.fetch_metadata(known.as_deref(), CHECK_WAIT).map(drop))
            })
            .await
    }

    /// What they say piles up while nobody asks.
    fn drain_observers(&self) {
        let observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers
            .iter()
            .flat_map(HashMap::values)
            .filter_map(|it| it.made())
            .for_each(|client| drain(&client));
    }

    /// From now on nothing is asked. Questions under way may end; nobody waits for them, nor for the ends of the clients.
    pub(super) fn close(&self) {
        let observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner).take();
        observers.iter().flat_map(HashMap::values).for_each(|it| it.close());
        self.admin.close();
    }
}

/// What an answer says of the one partition that was asked for.
fn committed_in(list: &TopicPartitionList) -> Result<Option<Committed>, LogError> {
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
