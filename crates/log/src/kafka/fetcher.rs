//! The thread of a set of readers: brings the client's assignment in line with what is wanted, and fills the buffers.
//!
//! A partition whose buffer is full, or whose reader is gone, is un-assigned, and assigned again at the next needed offset
//! when there is room. No pause and no seek: both are known to lose positions. What was fetched ahead is thrown away with the
//! assignment, so a full buffer is waited for first, as long as nobody else has to wait for it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset as Place, TopicPartitionList};

use super::client::Plain;
use super::config::KafkaConfig;
use super::copy_out::{Slots, Untold, copy_out};
use super::readers::{Key, Set, Slot};
use super::stalls::Stalls;
use crate::{LogError, Offset};

/// Longest sleep of the thread; it is woken for everything it waits for, this is for a wake-up that librdkafka loses.
const IDLE_MAX: Duration = Duration::from_millis(100);
/// Wait before a question to the brokers is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Answer of a broker to where a partition starts and ends.
const BOUNDS_WAIT: Duration = Duration::from_secs(5);
/// The same when it is asked only where a partition ends, to see whether the client reads on.
const END_WAIT: Duration = Duration::from_millis(500);
/// How long all wait for one full buffer at most.
const ROOM_WAIT: Duration = Duration::from_millis(20);
/// The same when somebody has nothing left meanwhile: what comes next may be theirs.
const ROOM_WAIT_STARVING: Duration = Duration::from_millis(2);
/// Between two looks whether somebody else has to wait.
const ROOM_LOOK: Duration = Duration::from_millis(1);

/// The thread of a set.
pub(super) struct Fetcher {
    config: KafkaConfig,
    consumer: BaseConsumer<Plain>,
    set: Arc<Set>,
    assigned: Slots,
    untold: Untold,
    /// Some partition's position does not exist; librdkafka does not say which.
    check_bounds: Option<Instant>,
    /// The client refused an assignment.
    assign_again: Option<Instant>,
    stalls: Stalls,
}

/// The client of a set. It wakes the thread of the set.
fn client(config: &KafkaConfig, set: &Arc<Set>) -> Result<BaseConsumer<Plain>, LogError> {
    let made = config.reader().create_with_context(Plain::default());
    let mut consumer: BaseConsumer<Plain> = made.map_err(|it| config.refused(it))?;
    let woken = set.clone();
    consumer.set_nonempty_callback(move || woken.unpark());
    Ok(consumer)
}

impl Fetcher {
    /// Makes the client.
    ///
    /// # Errors
    /// [`LogError::Config`] when it cannot be made.
    pub(super) fn new(config: &KafkaConfig, set: Arc<Set>) -> Result<Self, LogError> {
        Ok(Self {
            consumer: client(config, &set)?,
            config: config.clone(),
            set,
            assigned: HashMap::new(),
            untold: Untold::default(),
            check_bounds: None,
            assign_again: None,
            stalls: Stalls::default(),
        })
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
            let signs = self.consumer.context().events.load(Ordering::Relaxed);
            if self.stalls.is_due(signs, Instant::now()) {
                self.look_for_stalls();
            }
            if !self.poll() {
                std::thread::park_timeout(IDLE_MAX);
            }
        }
    }

    /// Takes what the client has, and tells the readers. False when there was nothing.
    fn poll(&mut self) -> bool {
        let busy = self.take();
        self.untold.tell();
        busy
    }

    /// Takes what the client has, until it has no more or the assignment must change. False when there was nothing.
    fn take(&mut self) -> bool {
        let mut busy = false;
        loop {
            let events = self.consumer.context().events.load(Ordering::Relaxed);
            let full = match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => copy_out(&self.assigned, &mut self.untold, &message),
                Some(Err(error)) => {
                    self.failed(&error);
                    None
                }
                None if self.consumer.context().events.load(Ordering::Relaxed) != events => None,
                None => return busy,
            };
            busy = true;
            if let Some(slot) = full {
                self.untold.tell();
                if !self.gets_room(&slot) {
                    self.set.changed.store(true, Ordering::Release);
                }
            }
            if self.set.changed.load(Ordering::Acquire) || self.set.stopped.load(Ordering::Acquire) {
                return busy;
            }
        }
    }

    /// Waits until the buffer has room; false when it has none soon, or somebody else would have to wait.
    fn gets_room(&self, slot: &Slot) -> bool {
        let began = Instant::now();
        while slot.ahead().full {
            let asked = self.set.changed.load(Ordering::Acquire) || self.set.stopped.load(Ordering::Acquire);
            let wait = if self.somebody_starves() { ROOM_WAIT_STARVING } else { ROOM_WAIT };
            if asked || began.elapsed() >= wait {
                return false;
            }
            std::thread::park_timeout(ROOM_LOOK);
        }
        for slot in self.assigned.values().flat_map(HashMap::values) {
            let mut ahead = slot.ahead();
            ahead.next_then = ahead.next;
        }
        true
    }

    /// Whether a partition that had records since the last wait has none left.
    fn somebody_starves(&self) -> bool {
        self.assigned.values().flat_map(HashMap::values).any(|slot| {
            let ahead = slot.ahead();
            ahead.records.is_empty() && ahead.next != ahead.next_then
        })
    }

    fn failed(&mut self, error: &KafkaError) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            self.check_bounds.get_or_insert_with(Instant::now);
        } else {
            tracing::warn!(target: "mailrail_log::kafka", %error, "reading is disturbed; the client goes on trying");
        }
    }

    /// Replaces the client when it does not read on although there is more.
    fn look_for_stalls(&mut self) {
        let mut read = Vec::new();
        for slot in self.assigned.values().flat_map(HashMap::values) {
            let ahead = slot.ahead();
            if !ahead.full && ahead.failed.is_none() {
                read.push(((slot.topic.clone(), slot.partition), ahead.next));
            }
        }
        let consumer = &self.consumer;
        let end = |(topic, partition): &Key| {
            let bounds = consumer.fetch_watermarks(topic, partition_number(*partition), END_WAIT);
            Offset::try_from(bounds.ok()?.1).ok()
        };
        if let Some((topic, partition)) = self.stalls.look(read, end) {
            tracing::warn!(target: "mailrail_log::kafka", topic, partition, "a client does not read on although there is more; it is replaced");
            self.replace_client();
        }
    }

    /// A new client reads everything on from where the buffers end.
    fn replace_client(&mut self) {
        self.stalls.forget();
        match client(&self.config, &self.set) {
            Ok(new) => {
                let old = std::mem::replace(&mut self.consumer, new);
                self.assigned.clear();
                self.set.changed.store(true, Ordering::Release);
                // Ending a client may wait for the network. Without a thread it is ended here.
                let _ = std::thread::Builder::new().name("log-replace".to_owned()).spawn(move || drop(old));
            }
            Err(error) => {
                tracing::error!(target: "mailrail_log::kafka", %error, "no new client to read with; the old one goes on");
            }
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
            let mut ahead = slot.ahead();
            ahead.put_off = ahead.full;
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

/// Checked when the reader was opened.
fn partition_number(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::kafka::producer::Appender;
    use crate::kafka::readers::KafkaReaders;
    use crate::{NewRecord, Readers};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < PATIENCE, "{what}: nothing happened for {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// X08: the client forgets the partition, as librdkafka's issue 5430 has it: it fetches nothing and says nothing.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn x08_a_client_that_does_not_read_on_is_replaced() {
        let cluster = MockCluster::new(1).expect("mock cluster");
        cluster.create_topic("t", 1, 1).expect("topic");
        let config = KafkaConfig {
            replication_factor: 1,
            min_insync_replicas: 1,
            ..KafkaConfig::new(&cluster.bootstrap_servers())
        };
        let appender = Appender::new(&config).expect("appender");
        let append = async || appender.append("t", 0, &[NewRecord::default()]).await.expect("appended");
        let readers = KafkaReaders::new(&config).expect("readers");
        let set = readers.set().clone();
        // From here on the set has no thread but this one.
        set.stopped.store(true, Ordering::Release);
        let _reader = readers.open("t", 0, 0).expect("reader");
        let slot = set.wanted.lock().expect("unpoisoned").values().next().expect("a slot").clone();
        let mut fetcher = Fetcher::new(&config, set).expect("a client");
        let read = |fetcher: &mut Fetcher, next| {
            until("a record", || {
                fetcher.bring_in_line();
                fetcher.poll();
                slot.ahead().next == next
            });
        };
        append().await;
        read(&mut fetcher, 1);

        let mut all = TopicPartitionList::new();
        all.add_partition("t", 0);
        fetcher.consumer.incremental_unassign(&all).expect("forgotten");
        append().await;
        for looked in 1..=3 {
            assert_eq!(fetcher.assigned.len(), 1, "still the first client at look {looked}");
            fetcher.look_for_stalls();
        }
        assert!(fetcher.assigned.is_empty(), "a new one");
        read(&mut fetcher, 2);
        assert_eq!(slot.ahead().records.len(), 2, "no record twice");
    }
}
