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

use super::client::{Reading, aside, bounds_in, unavailable};
use super::config::KafkaConfig;
use super::copy_out::{Slots, Untold, copy_out};
use super::readers::{Key, Set, Slot};
use super::replacements::Replacements;
use super::stalls::{Stalls, begin_at};
use crate::{Bounds, LogError};

/// Longest sleep of the thread; it is woken for everything it waits for, this is for a wake-up that librdkafka loses.
const IDLE_MAX: Duration = Duration::from_millis(100);
/// Wait before a question to the brokers is asked again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Answer of a broker to where a partition starts and ends, and all of them.
const BOUND_WAIT: Duration = Duration::from_secs(1);
const BOUNDS_WAIT: Duration = Duration::from_secs(5);
/// All answers of a look whether the client reads on.
const LOOK_WAIT: Duration = Duration::from_millis(500);
/// Records after which the thread looks whether something else is due.
const TAKEN_MAX: usize = 10_000;
/// How long all wait for one full buffer at most.
const ROOM_WAIT: Duration = Duration::from_millis(20);
/// The same when somebody has nothing left meanwhile: what comes next may be theirs.
const ROOM_WAIT_STARVING: Duration = Duration::from_millis(2);
/// Between two looks whether somebody else has to wait.
const ROOM_LOOK: Duration = Duration::from_millis(1);

/// The thread of a set.
pub(super) struct Fetcher {
    config: KafkaConfig,
    consumer: BaseConsumer<Reading>,
    set: Arc<Set>,
    assigned: Slots,
    untold: Untold,
    /// Some partition's position does not exist; librdkafka does not say which.
    check_bounds: Option<Instant>,
    /// Which partition is asked about first.
    bounds_turn: usize,
    /// The client refused an assignment.
    assign_again: Option<Instant>,
    stalls: Stalls,
    /// Of clients that lost their brokers.
    replacements: Replacements,
}

/// The client of a set. It wakes the thread of the set.
fn client(config: &KafkaConfig, set: &Arc<Set>) -> Result<BaseConsumer<Reading>, LogError> {
    let made = config.reader().create_with_context(Reading::default());
    let mut consumer: BaseConsumer<Reading> = made.map_err(|it| config.refused(it))?;
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
            bounds_turn: 0,
            assign_again: None,
            stalls: Stalls::default(),
            replacements: Replacements::default(),
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
            self.look_for_brokers(Instant::now());
            let signs = self.consumer.context().signs.load(Ordering::Relaxed);
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
        for _ in 0..TAKEN_MAX {
            let events = self.consumer.context().plain.events.load(Ordering::Relaxed);
            let full = match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => copy_out(&self.assigned, &mut self.untold, &message),
                Some(Err(error)) => {
                    self.failed(&error);
                    None
                }
                None if self.consumer.context().plain.events.load(Ordering::Relaxed) != events => None,
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
        busy
    }

    /// Waits until the buffer has room; false when it has none soon, or somebody else would have to wait.
    fn gets_room(&self, slot: &Slot) -> bool {
        let began = Instant::now();
        let mut full = true;
        while full {
            let asked = self.set.changed.load(Ordering::Acquire) || self.set.stopped.load(Ordering::Acquire);
            let wait = if self.somebody_starves() { ROOM_WAIT_STARVING } else { ROOM_WAIT };
            if asked || began.elapsed() >= wait {
                break;
            }
            std::thread::park_timeout(ROOM_LOOK);
            full = slot.ahead().full;
        }
        for slot in self.slots() {
            let mut ahead = slot.ahead();
            ahead.next_then = ahead.next;
        }
        !full
    }

    /// Whether a partition that had records since the last wait has none left.
    fn somebody_starves(&self) -> bool {
        self.slots().any(|slot| {
            let ahead = slot.ahead();
            ahead.records.is_empty() && ahead.next != ahead.next_then
        })
    }

    fn failed(&mut self, error: &KafkaError) {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AutoOffsetReset) => {
                self.check_bounds.get_or_insert_with(Instant::now);
            }
            Some(RDKafkaErrorCode::BadMessage) => {
                // The client would go on behind what it could not read. It does not say of which partition: all begin again
                // where their buffers end, and the damaged one stands still as long as it is damaged.
                tracing::error!(target: "mailrail_log::kafka", %error, "records are damaged; a partition stands still");
                self.let_go_of_all();
                self.assign_again = Some(Instant::now() + RETRY_PAUSE);
            }
            _ => {
                tracing::warn!(target: "mailrail_log::kafka", %error, "reading is disturbed; the client goes on trying");
            }
        }
    }

    /// Un-assigns everything; what is wanted is assigned anew when [`Self::bring_in_line`] runs next.
    fn let_go_of_all(&mut self) {
        let mut all = TopicPartitionList::new();
        for slot in self.slots() {
            all.add_partition(&slot.topic, partition_number(slot.partition));
        }
        self.unassign(&all);
        self.assigned.clear();
    }

    fn unassign(&self, partitions: &TopicPartitionList) {
        if let Err(error) = self.consumer.incremental_unassign(partitions) {
            tracing::error!(target: "mailrail_log::kafka", %error, "partitions could not be un-assigned");
        }
    }

    /// Buffers of what is assigned.
    fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.assigned.values().flat_map(HashMap::values)
    }

    /// Replaces the client when it knows no broker any more.
    fn look_for_brokers(&mut self, now: Instant) {
        if !self.consumer.context().brokers.are_forgotten() || !self.replacements.is_due(now) {
            return;
        }
        if self.replace_client() {
            tracing::warn!(target: "mailrail_log::kafka", "a client to read with knew no broker any more; it was replaced");
            self.replacements.replaced(now);
        } else {
            self.replacements.failed(now);
        }
    }

    /// Replaces the client when it does not read on although there is more.
    fn look_for_stalls(&mut self) {
        let mut read = Vec::new();
        for slot in self.slots() {
            let ahead = slot.ahead();
            if !ahead.full && ahead.failed.is_none() {
                read.push(((slot.topic.clone(), slot.partition), ahead.next));
            }
        }
        let (consumer, until) = (&self.consumer, Instant::now() + LOOK_WAIT);
        let end = |(topic, partition): &Key| {
            let left = until.checked_duration_since(Instant::now())?;
            let places = consumer.fetch_watermarks(topic, partition_number(*partition), left);
            Some(bounds_in(places.ok()?)?.high)
        };
        let stalled = self.stalls.look(read, end);
        self.stalls.looked(Instant::now());
        if let Some(key) = stalled {
            let (topic, partition) = &key;
            if self.replace_client() {
                tracing::warn!(target: "mailrail_log::kafka", topic, partition, "a client did not read on although there is more; it was replaced");
            }
            self.stalls.replaced(key, Instant::now());
        }
    }

    /// A new client reads everything on from where the buffers end. False when there is none.
    fn replace_client(&mut self) -> bool {
        match client(&self.config, &self.set) {
            Ok(new) => {
                let old = std::mem::replace(&mut self.consumer, new);
                self.assigned.clear();
                self.stalls.forget(self.consumer.context().signs.load(Ordering::Relaxed));
                self.set.changed.store(true, Ordering::Release);
                if let Err(error) = aside(move || drop(old)) {
                    tracing::error!(target: "mailrail_log::kafka", %error, "no thread to end a client; it was ended at once");
                }
                true
            }
            Err(error) => {
                tracing::error!(target: "mailrail_log::kafka", %error, "no new client to read with; the old one goes on");
                false
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
        if gone.count() > 0 {
            self.unassign(&gone);
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

    /// Fails the readers whose position is outside what exists. Then everything is assigned anew: the complaint may have been about
    /// a moment that passed, and nobody says which partition stands still. Nothing is read meanwhile, so it takes a bounded time,
    /// and goes on with the others a second later.
    fn find_out_of_range(&mut self) {
        let until = Instant::now() + BOUNDS_WAIT;
        let mut slots: Vec<_> = self.slots().cloned().collect();
        slots.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        begin_at(&mut slots, self.bounds_turn);
        for slot in slots {
            self.bounds_turn = self.bounds_turn.wrapping_add(1);
            let partition = partition_number(slot.partition);
            let left = until.saturating_duration_since(Instant::now()).min(BOUND_WAIT);
            let places = self.consumer.fetch_watermarks(&slot.topic, partition, left);
            let bounds = places.map_err(unavailable).map(bounds_in);
            let Ok(Some(Bounds { low, high })) = bounds else {
                let problem = bounds.err().map(|it| it.to_string());
                tracing::warn!(target: "mailrail_log::kafka", problem, topic = slot.topic, partition, "bounds are unknown");
                self.check_bounds = Some(Instant::now() + RETRY_PAUSE);
                if left < BOUND_WAIT {
                    break;
                }
                continue;
            };
            let mut ahead = slot.ahead();
            if ahead.next < low || ahead.next > high {
                let (topic, partition, wanted) = (slot.topic.clone(), slot.partition, ahead.next);
                ahead.failed = Some(LogError::OutOfRange { topic, partition, wanted, low, high });
                drop(ahead);
                slot.ready.notify_one();
            }
        }
        self.set.changed.store(true, Ordering::Release);
        if self.check_bounds.is_none() {
            self.let_go_of_all();
        }
    }
}

/// Checked when the reader was opened.
fn partition_number(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
