//! What KEDA's Kafka trigger reads: the end of each partition and what the group committed. It joins no group.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// Longest wait for one answer of a broker.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// One partition at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionOffsets {
    /// Offset of the next record.
    pub(super) end: i64,
    /// What the group committed; -1: it never did.
    pub(super) committed: i64,
}

/// Asks Kafka. A cheap clone.
#[derive(Clone)]
pub(super) struct Offsets {
    consumer: Arc<BaseConsumer>,
    topic: String,
    partitions: u32,
}

impl Offsets {
    pub(super) fn new(kafka: &str, group: &str, topic: &str, partitions: u32) -> Result<Self> {
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", kafka)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .create()?;
        Ok(Self { consumer: Arc::new(consumer), topic: topic.to_owned(), partitions })
    }

    /// All partitions, in order. Commits are read first, as KEDA does: an end is never older than the commit beside it.
    pub(super) async fn read(&self) -> Result<Vec<PartitionOffsets>> {
        let asker = self.clone();
        tokio::task::spawn_blocking(move || asker.ask()).await.context("the task that asks Kafka")?
    }

    fn ask(&self) -> Result<Vec<PartitionOffsets>> {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.topic, 0, i32::try_from(self.partitions)? - 1);
        let committed = self.consumer.committed_offsets(list, ANSWER_WAIT).context("committed offsets")?;
        let mut read = Vec::new();
        for partition in 0..i32::try_from(self.partitions)? {
            let at = committed.find_partition(&self.topic, partition).map(|found| found.offset());
            let committed = match at {
                Some(Offset::Offset(offset)) => offset,
                _ => -1,
            };
            let (_, end) = self.consumer.fetch_watermarks(&self.topic, partition, ANSWER_WAIT)?;
            read.push(PartitionOffsets { end, committed });
        }
        Ok(read)
    }
}
