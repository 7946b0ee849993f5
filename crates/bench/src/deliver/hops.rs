//! Two bare hops through the log: produce, consume, produce, consume, with the settings that mailrail's clients have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::BaseConsumer;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use super::Args;
use super::latency::pace;
use super::rig::{Rig, WIDTH};
use crate::events::Bodies;
use crate::sink::Receipts;

/// Longest sleep of a consumer that has nothing.
const POLL_MAX: Duration = Duration::from_millis(100);
/// How long the producers may take to end.
const FLUSH_MAX: Duration = Duration::from_secs(5);

type Producing = Arc<ThreadedProducer<DefaultProducerContext>>;

/// Running hops.
pub(super) struct Hops {
    pub(super) receipts: Arc<Receipts>,
    producer: Producing,
    topic: String,
    /// Partition of each event in turn: where its source mailbox lives.
    places: Arc<[i32]>,
    bodies: Bodies,
    next: AtomicU64,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Hops {
    /// Makes two topics of their own and starts to pass records on. For `events` in all.
    pub(super) async fn start(
        args: &Args,
        rig: &mut Rig,
        name: &str,
        linger_ms: u32,
        events: u64,
    ) -> Result<Self> {
        let topics = ["first", "second"].map(|hop| rig.recipe.topic(&format!("hop-{name}-{hop}")));
        let partitions = args.partitions.get();
        for topic in &topics {
            let new = NewTopic::new(topic, i32::try_from(partitions)?, TopicReplication::Fixed(1));
            let made = rig.recipe.admin()?.create_topics(&[new], &AdminOptions::new()).await?;
            made.into_iter()
                .next()
                .context("no answer")?
                .map_err(|(topic, code)| anyhow::anyhow!("topic {topic} was not made: {code}"))?;
            rig.recipe.online(&*rig.log, topic).await?;
            rig.topics.push(topic.clone());
        }
        let (receipts, stop) = (Receipts::new(events), Arc::new(AtomicBool::new(false)));
        let producer = producer(&args.services.kafka, linger_ms)?;
        let tos = (0..u64::from(args.endpoints) * u64::from(WIDTH)).map(|n| rig.to(n));
        let sources: Vec<i32> = tos.clone().map(|to| rig.mail.source_partition(to).cast_signed()).collect();
        let mailboxes: Vec<i32> =
            tos.map(|to| Ok(rig.mail.partition(to)?.cast_signed())).collect::<Result<_>>()?;
        let [first, second] = &topics;
        let pass_on = PassOn {
            consumer: consumer(&args.services.kafka, first, partitions)?,
            producer: self::producer(&args.services.kafka, linger_ms)?,
            topic: second.clone(),
            places: mailboxes,
            stop: stop.clone(),
        };
        let last = consumer(&args.services.kafka, second, partitions)?;
        let (noting, stopping) = (receipts.clone(), stop.clone());
        let threads = vec![
            spawn("hop-first", move || pass_on.run())?,
            spawn("hop-second", move || note(&last, &noting, &stopping))?,
        ];
        let (topic, bodies) = (first.clone(), rig.bodies.clone());
        let places = sources.into();
        Ok(Self { receipts, producer, topic, places, bodies, next: AtomicU64::new(0), stop, threads })
    }

    /// Sends records at their times. Gives the number of the first and when it is due.
    pub(super) fn send(&self, rate: u32, count: u64) -> Result<(u64, Instant, JoinHandle<Result<()>>)> {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let (producer, topic, places) = (self.producer.clone(), self.topic.clone(), self.places.clone());
        let bodies = self.bodies.clone();
        let (start, thread) = pace(rate, count, move |number| {
            let number = first + number;
            send(&producer, &topic, place(&places, number), number, bodies.of(number))
        })?;
        Ok((first, start, thread))
    }

    /// Ends the threads; what became of them does not matter any more.
    pub(super) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        let _ = self.producer.flush(FLUSH_MAX);
    }
}

fn spawn(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<JoinHandle<Result<()>>> {
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(run)?)
}

fn place(places: &[i32], number: u64) -> i32 {
    places[usize::try_from(number).unwrap_or(0) % places.len()]
}

/// The settings of `crates/log/src/kafka/config.rs`.
fn producer(brokers: &str, linger_ms: u32) -> Result<Producing> {
    let mut client = crate::clients::producer_config(brokers);
    Ok(Arc::new(client.set("linger.ms", linger_ms.to_string()).create()?))
}

/// The settings of a reader there, from the start of a topic that is new.
fn consumer(brokers: &str, topic: &str, partitions: u32) -> Result<BaseConsumer> {
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        all.add_partition_offset(topic, partition.cast_signed(), Offset::Offset(0))?;
    }
    crate::clients::reader(brokers, "mailrail-bench-hops", &all)
}

/// A record: the number of an event, and its body.
fn send(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    partition: i32,
    number: u64,
    body: &[u8],
) -> Result<()> {
    let key = number.to_be_bytes();
    let record = BaseRecord::to(topic).partition(partition).key(&key[..]).payload(body);
    producer.send(record).map_err(|(error, _)| error.into())
}

/// The first hop's end and the second one's begin.
struct PassOn {
    consumer: BaseConsumer,
    producer: Producing,
    topic: String,
    places: Vec<i32>,
    stop: Arc<AtomicBool>,
}

impl PassOn {
    fn run(self) -> Result<()> {
        each(&self.consumer, &self.stop, |number, body| {
            send(&self.producer, &self.topic, place(&self.places, number), number, body)
        })
    }
}

fn note(consumer: &BaseConsumer, receipts: &Receipts, stop: &AtomicBool) -> Result<()> {
    each(consumer, stop, |number, _| {
        receipts.note(number);
        Ok(())
    })
}

/// Every record, until told to stop.
fn each(
    consumer: &BaseConsumer,
    stop: &AtomicBool,
    mut record: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let Some(message) = consumer.poll(POLL_MAX) else { continue };
        let message = message?;
        let key = message.key().and_then(|key| key.try_into().ok()).context("a record without a number")?;
        record(u64::from_be_bytes(key), message.payload().unwrap_or_default())?;
    }
    Ok(())
}
