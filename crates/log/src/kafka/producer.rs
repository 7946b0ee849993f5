//! The one idempotent producer of the process, made so that a call is written as a prefix or not at all.
//!
//! Librdkafka alone does not promise that: a record that times out fails alone, and those behind it are sent. So records
//! never time out there. Each call has our own deadline, and a producer that failed one record for whatever reason is
//! given up: everything in it is purged, everything that waits fails, and a new one takes its place.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer, ProducerContext, PurgeConfig, ThreadedProducer,
};
use tokio::sync::oneshot;

use super::brokers::KnownBrokers;
use super::call::{Call, Outcome, Waiting};
use super::client::{aside, describe, lines_and_reports};
use super::config::KafkaConfig;
use super::replacements::Replacements;
use super::unacknowledged::{Budget, Reserved};
use crate::size::record_bytes;
use crate::{LogError, NewRecord, Offset};

/// Calls to one partition are queued one after the other; partitions share this many locks.
const ORDER_LOCKS: usize = 64;
/// How long a purged producer may take to report what it dropped.
const PURGE_WAIT: Duration = Duration::from_secs(2);
/// Wait before a client that could not be made is tried again.
const REPLACE_PAUSE: Duration = Duration::from_secs(1);

/// Takes the delivery reports.
#[derive(Default)]
struct Deliveries {
    brokers: KnownBrokers,
}

impl ClientContext for Deliveries {
    lines_and_reports!();

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: "mailrail_log::kafka", %error, reason, "kafka producer error");
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Waiting>;

    fn delivery(&self, delivery_result: &DeliveryResult<'_>, waiting: Box<Waiting>) {
        let outcome = match delivery_result {
            Ok(message) => acknowledged(message.offset()),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)),
        };
        waiting.reported(outcome);
    }
}

/// Where a record stands that librdkafka calls delivered. Without an offset it only concluded that, because a later record
/// of the partition was acknowledged. A broker that has not heard of this producer yet takes any first sequence number, so
/// on a new or moved partition the earlier record may be lost: it was seen. That is a failure like any other: everything
/// pending fails, the producer is made anew, and the caller appends again.
fn acknowledged(offset: i64) -> Result<Offset, RDKafkaErrorCode> {
    Offset::try_from(offset).map_err(|_| RDKafkaErrorCode::OutOfOrderSequenceNumber)
}

enum State {
    Active { number: u64, client: ThreadedProducer<Deliveries> },
    Replacing { number: u64 },
    Closed,
}

/// The producer. Cheap to clone.
#[derive(Clone)]
pub(super) struct Appender {
    inner: Arc<Inner>,
}

struct Inner {
    config: KafkaConfig,
    state: RwLock<State>,
    order: Vec<Mutex<()>>,
    budget: Arc<Budget>,
    /// Of producers that lost their brokers.
    replacements: Mutex<Replacements>,
}

impl Appender {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, LogError> {
        let first = make(config)?;
        let inner = Inner {
            config: config.clone(),
            state: RwLock::new(State::Active { number: 0, client: first }),
            order: (0..ORDER_LOCKS).map(|_| Mutex::new(())).collect(),
            budget: Arc::default(),
            replacements: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(super) async fn append(
        &self,
        topic: &str,
        partition: u32,
        records: &[NewRecord],
    ) -> Result<Vec<Offset>, LogError> {
        let sizes = || records.iter().map(record_bytes);
        if let Some(bytes) = sizes().find(|it| *it > self.inner.config.record_bytes_max) {
            return Err(LogError::TooLarge { bytes });
        }
        if records.is_empty() {
            return Ok(Vec::new());
        }
        self.look_for_brokers(Instant::now());
        let reserved = Reserved::take(&self.inner.budget, records.len(), sizes().sum())?;
        let (number, answer) = self.queue(topic, partition, records, reserved)?;
        match tokio::time::timeout(self.inner.config.delivery_timeout, answer).await {
            Ok(Ok(Ok(offsets))) => Ok(offsets),
            Ok(Ok(Err(code))) => {
                if !is_missing_topic(code) {
                    self.give_up(number, &describe(code));
                }
                Err(match code {
                    RDKafkaErrorCode::MessageSizeTooLarge => {
                        LogError::TooLarge { bytes: sizes().max().unwrap_or(0) }
                    }
                    code => LogError::Unavailable(describe(code)),
                })
            }
            Ok(Err(_)) => Err(LogError::Unavailable("the kafka producer was replaced".to_owned())),
            Err(_) => {
                let text =
                    format!("kafka did not acknowledge within {:?}", self.inner.config.delivery_timeout);
                self.give_up(number, &text);
                Err(LogError::Unavailable(text))
            }
        }
    }

    /// Queues the records of a call behind each other. Never waits for the network.
    fn queue(
        &self,
        topic: &str,
        partition: u32,
        records: &[NewRecord],
        reserved: Reserved,
    ) -> Result<(u64, oneshot::Receiver<Outcome>), LogError> {
        let state = self.inner.state.read().unwrap_or_else(PoisonError::into_inner);
        let (number, client) = match &*state {
            State::Active { number, client } => (*number, client),
            State::Replacing { .. } => {
                return Err(LogError::Unavailable(
                    "the kafka producer is being replaced after a failure".to_owned(),
                ));
            }
            State::Closed => return Err(LogError::Closed),
        };
        let partition_number = i32::try_from(partition)
            .map_err(|_| LogError::Config(format!("kafka has no partition {partition}")))?;
        let (call, answered) = Call::new(records.len(), reserved);
        let _order = self.order_lock(topic, partition);
        for (index, record) in records.iter().enumerate() {
            let queued = client.send(to_kafka(topic, partition_number, record, call.record(index)));
            if let Err((error, refused)) = queued {
                // The record brings its place in the call back; it gets no report of its own.
                drop(refused);
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                call.cut(records.len() - index, code);
                break;
            }
        }
        Ok((number, answered))
    }

    fn order_lock(&self, topic: &str, partition: u32) -> std::sync::MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        (topic, partition).hash(&mut hasher);
        let place = (hasher.finish() % ORDER_LOCKS as u64) as usize;
        self.inner.order[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the producer up when it knows no broker any more: it will not send anything. Says whether it did.
    fn look_for_brokers(&self, now: Instant) -> bool {
        let forgotten = match &*self.inner.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Active { number, client } if client.context().brokers.are_forgotten() => *number,
            State::Active { .. } | State::Replacing { .. } | State::Closed => return false,
        };
        let mut replacements = self.inner.replacements.lock().unwrap_or_else(PoisonError::into_inner);
        if !replacements.is_due(now) || !self.give_up(forgotten, "it knows no broker any more") {
            return false;
        }
        replacements.replaced(now);
        true
    }

    /// Purges the producer and makes a new one. False when it was replaced already.
    fn give_up(&self, failed: u64, reason: &str) -> bool {
        let client = {
            let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Active { number, .. } if *number == failed => {}
                State::Active { .. } | State::Replacing { .. } | State::Closed => return false,
            }
            match std::mem::replace(&mut *state, State::Replacing { number: failed }) {
                State::Active { client, .. } => client,
                State::Replacing { .. } | State::Closed => return false,
            }
        };
        tracing::warn!(target: "mailrail_log::kafka", reason, "the producer is given up with all that waits in it");
        let appender = self.clone();
        let replace = move || {
            discard(client);
            appender.replace(failed + 1);
        };
        if let Err(error) = aside(replace) {
            // Without a thread there is no producer either: every append says so.
            tracing::error!(target: "mailrail_log::kafka", %error, "no thread to replace the producer");
        }
        true
    }

    fn replace(&self, number: u64) {
        loop {
            let made = make(&self.inner.config);
            let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
            if !matches!(&*state, State::Replacing { number: old } if old + 1 == number) {
                return;
            }
            match made {
                Ok(client) => {
                    *state = State::Active { number, client };
                    return;
                }
                Err(error) => {
                    drop(state);
                    tracing::error!(target: "mailrail_log::kafka", %error, "no new producer yet");
                    std::thread::sleep(REPLACE_PAUSE);
                }
            }
        }
    }

    /// Waits for what is under way, then refuses everything. Blocks.
    pub(super) fn close(&self, wait: Duration) {
        let state = {
            let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Active { client, .. } = state {
            if client.flush(wait).is_err() {
                tracing::warn!(target: "mailrail_log::kafka", "closed before the last records were acknowledged");
            }
            discard(client);
        }
    }
}

/// All records of a topic fail together when it does not exist: no part of a call can be behind another.
fn is_missing_topic(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::UnknownTopicOrPartition
    )
}

fn make(config: &KafkaConfig) -> Result<ThreadedProducer<Deliveries>, LogError> {
    config.producer().create_with_context(Deliveries::default()).map_err(|it| config.refused(it))
}

/// Drops a producer so that nothing of it is sent any more and every call gets its report.
fn discard(client: ThreadedProducer<Deliveries>) {
    client.purge(PurgeConfig::default().queue().inflight());
    let _ = client.flush(PURGE_WAIT);
    drop(client);
}

fn to_kafka<'a>(
    topic: &'a str,
    partition: i32,
    record: &'a NewRecord,
    waiting: Box<Waiting>,
) -> BaseRecord<'a, [u8], [u8], Box<Waiting>> {
    let mut message = BaseRecord::with_opaque_to(topic, waiting)
        .partition(partition)
        .key(record.key.as_ref())
        .payload(record.value.as_ref());
    if !record.headers.is_empty() {
        let headers = OwnedHeaders::new_with_capacity(record.headers.len());
        message = message.headers(record.headers.iter().fold(headers, |all, (name, value)| {
            all.insert(Header { key: name, value: Some(value.as_ref()) })
        }));
    }
    message
}

#[cfg(test)]
mod tests;
