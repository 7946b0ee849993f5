//! The floor of match: one thread that consumes every record and produces one in so many again, as it is.
//!
//! It knows no event, no tenant and no filter, and commits nothing. Its clients have the settings that mailrail's have.

use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::ONE_IN;

/// Longest sleep without a record, and of a producer whose queue is full.
const POLL_MAX: Duration = Duration::from_millis(100);
/// How long the producer may take to end.
const FLUSH_MAX: Duration = Duration::from_secs(30);

/// What the bare loop is told by `stage`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `host:port` of a broker.
    #[arg(long)]
    kafka: String,
    /// What is consumed.
    #[arg(long)]
    from: String,
    /// Offset of the first record of each partition.
    #[arg(long, value_delimiter = ',')]
    offsets: Vec<i64>,
    /// Records that are consumed.
    #[arg(long)]
    records: u64,
    /// What is produced to, with as many partitions.
    #[arg(long)]
    to: String,
}

/// Passes on until all records were consumed, then stays until the process is killed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let consumer = consumer(args)?;
    let producer: ThreadedProducer<DefaultProducerContext> =
        crate::clients::producer_config(&args.kafka).create()?;
    let mut count = 0;
    while count < args.records {
        let Some(message) = consumer.poll(POLL_MAX) else { continue };
        let message = message?;
        count += 1;
        if count % ONE_IN == 0 {
            let (key, payload) = (message.key().unwrap_or_default(), message.payload().unwrap_or_default());
            send(&producer, &args.to, message.partition(), key, payload)?;
        }
    }
    producer.flush(FLUSH_MAX).context("the last records")?;
    loop {
        std::thread::park();
    }
}

/// The settings of a reader in `crates/log/src/kafka/config.rs`.
fn consumer(args: &Args) -> Result<BaseConsumer> {
    let mut all = TopicPartitionList::new();
    for (partition, offset) in (0..).zip(&args.offsets) {
        all.add_partition_offset(&args.from, partition, Offset::Offset(*offset))?;
    }
    crate::clients::reader(&args.kafka, "mailrail-bench-loop", &all)
}

fn send(
    producer: &ThreadedProducer<DefaultProducerContext>,
    topic: &str,
    partition: i32,
    key: &[u8],
    payload: &[u8],
) -> Result<()> {
    let mut record = BaseRecord::to(topic).partition(partition).key(key).payload(payload);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                std::thread::sleep(POLL_MAX);
                record = again;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
