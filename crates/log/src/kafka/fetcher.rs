//! The thread of a set of readers: brings the client's assignment in line with what is wanted, and fills the buffers.
//!
//! A partition whose buffer is full, or whose reader is gone, is un-assigned, and assigned again at the next needed offset
//! when there is room. No pause and no seek: both are known to lose positions.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mailrail_types::Timestamp;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset as Place, TopicPartitionList};

use super::client::Plain;
use super::readers::{Key, Set, Slot};
use crate::{LogError, Offset, StoredRecord};

/// Longest sleep of the thread; it is woken for everything it waits for, this is for a wake-up that librdkafka loses.
const IDLE_MAX: Duration = Duration::from_millis(100);
/// Wait before a question to the brokers is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Answer of a broker to where a partition starts and ends.
const BOUNDS_WAIT: Duration = Duration::from_secs(5);

/// The thread of a set.
pub(super) struct Fetcher {
    consumer: BaseConsumer<Plain>,
    set: Arc<Set>,
    assigned: HashMap<String, HashMap<u32, Arc<Slot>>>,
    /// Some partition's position does not exist; librdkafka does not say which.
    check_bounds: Option<Instant>,
    /// The client refused an assignment.
    assign_again: Option<Instant>,
}

impl Fetcher {
    pub(super) fn new(consumer: BaseConsumer<Plain>, set: Arc<Set>) -> Self {
        Self { consumer, set, assigned: HashMap::new(), check_bounds: None, assign_again: None }
    }

    pub(super) fn run(mut self) {
        while !self.set.stopped.load(Ordering::Acquire) {
            let due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
            if self.set.changed.swap(false, Ordering::AcqRel) || due(self.assign_again) {
                self.assign_again = None;
                self.bring_in_line();
            }
            if due(self.check_bounds) {
                self.check_bounds = None;
                self.find_out_of_range();
            }
            if !self.poll() {
                std::thread::park_timeout(IDLE_MAX);
            }
        }
    }

    /// Takes what the client has, until it has no more or the assignment must change. False when there was nothing.
    fn poll(&mut self) -> bool {
        let mut busy = false;
        loop {
            let events = self.consumer.context().events.load(Ordering::Relaxed);
            let full = match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => deliver(&self.assigned, &message),
                Some(Err(error)) => {
                    self.failed(&error);
                    false
                }
                None if self.consumer.context().events.load(Ordering::Relaxed) != events => false,
                None => return busy,
            };
            busy = true;
            if full {
                self.set.changed.store(true, Ordering::Release);
            }
            if self.set.changed.load(Ordering::Acquire) || self.set.stopped.load(Ordering::Acquire) {
                return busy;
            }
        }
    }

    fn failed(&mut self, error: &KafkaError) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            self.check_bounds.get_or_insert_with(Instant::now);
        } else {
            tracing::warn!(target: "mailrail_log::kafka", %error, "reading is disturbed; the client goes on trying");
        }
    }

    /// Un-assigns what is not wanted, full or failed; assigns what is wanted and is not.
    fn bring_in_line(&mut self) {
        let wanted: HashMap<Key, Arc<Slot>> =
            self.set.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut gone = TopicPartitionList::new();
        for (topic, slots) in &mut self.assigned {
            slots.retain(|partition, slot| {
                let current =
                    wanted.get(&(topic.clone(), *partition)).is_some_and(|it| Arc::ptr_eq(it, slot));
                let stays = current && {
                    let ahead = slot.ahead();
                    !ahead.full && ahead.failed.is_none()
                };
                if !stays {
                    gone.add_partition(topic, partition_number(*partition));
                }
                stays
            });
        }
        if gone.count() > 0
            && let Err(error) = self.consumer.incremental_unassign(&gone)
        {
            tracing::error!(target: "mailrail_log::kafka", %error, "partitions could not be un-assigned");
        }
        self.assign(&wanted);
    }

    fn assign(&mut self, wanted: &HashMap<Key, Arc<Slot>>) {
        let mut new = TopicPartitionList::new();
        let mut slots = Vec::new();
        for ((topic, partition), slot) in wanted {
            if self.assigned.get(topic).is_some_and(|it| it.contains_key(partition)) {
                continue;
            }
            let ahead = slot.ahead();
            if ahead.full || ahead.failed.is_some() {
                continue;
            }
            let place = Place::Offset(i64::try_from(ahead.next).unwrap_or(i64::MAX));
            if new.add_partition_offset(topic, partition_number(*partition), place).is_ok() {
                slots.push(slot.clone());
            }
        }
        if slots.is_empty() {
            return;
        }
        if let Err(error) = self.consumer.incremental_assign(&new) {
            tracing::error!(target: "mailrail_log::kafka", %error, "partitions could not be assigned; trying again");
            self.assign_again = Some(Instant::now() + RETRY_PAUSE);
            return;
        }
        for slot in slots {
            self.assigned.entry(slot.topic.clone()).or_default().insert(slot.partition, slot);
        }
    }

    /// Fails the readers whose position is outside what exists. When none is, the complaint was about a moment that
    /// passed: everything is assigned anew, since one partition stands still and nobody says which.
    fn find_out_of_range(&mut self) {
        let mut found = false;
        for slot in self.assigned.values().flat_map(HashMap::values) {
            let partition = partition_number(slot.partition);
            let bounds = self.consumer.fetch_watermarks(&slot.topic, partition, BOUNDS_WAIT);
            let (low, high) = match bounds {
                Ok((low, high)) => (Offset::try_from(low).unwrap_or(0), Offset::try_from(high).unwrap_or(0)),
                Err(error) => {
                    tracing::warn!(target: "mailrail_log::kafka", %error, topic = slot.topic, partition, "bounds are unknown");
                    self.check_bounds = Some(Instant::now() + RETRY_PAUSE);
                    continue;
                }
            };
            let mut ahead = slot.ahead();
            if ahead.next < low || ahead.next > high {
                found = true;
                let (topic, partition, wanted) = (slot.topic.clone(), slot.partition, ahead.next);
                ahead.failed = Some(LogError::OutOfRange { topic, partition, wanted, low, high });
                drop(ahead);
                slot.ready.notify_one();
            }
        }
        self.set.changed.store(true, Ordering::Release);
        if !found && self.check_bounds.is_none() {
            let mut all = TopicPartitionList::new();
            for slot in self.assigned.values().flat_map(HashMap::values) {
                all.add_partition(&slot.topic, partition_number(slot.partition));
            }
            if let Err(error) = self.consumer.incremental_unassign(&all) {
                tracing::error!(target: "mailrail_log::kafka", %error, "partitions could not be un-assigned");
            }
            self.assigned.clear();
        }
    }
}

/// Copies the record out: a borrowed one would pin its whole fetched batch. True when the buffer is full now.
fn deliver(assigned: &HashMap<String, HashMap<u32, Arc<Slot>>>, message: &BorrowedMessage<'_>) -> bool {
    let slot = u32::try_from(message.partition()).ok().and_then(|p| assigned.get(message.topic())?.get(&p));
    let (Some(slot), Ok(offset)) = (slot, Offset::try_from(message.offset())) else { return false };
    slot.put(offset, || copy(offset, message))
}

fn copy(offset: Offset, message: &BorrowedMessage<'_>) -> StoredRecord {
    let bytes = |it: Option<&[u8]>| Bytes::copy_from_slice(it.unwrap_or_default());
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|it| (it.key.to_owned(), bytes(it.value))).collect()
    });
    StoredRecord {
        offset,
        appended_at: Timestamp(message.timestamp().to_millis().unwrap_or(0)),
        key: bytes(message.key()),
        value: bytes(message.payload()),
        headers,
    }
}

/// Checked when the reader was opened.
fn partition_number(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}
