//! Bare clients of Kafka with the settings that mailrail's have, for the floors.

use anyhow::Result;
use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

/// The settings of the producer in `crates/log/src/kafka/config.rs`.
pub(crate) fn producer_config(brokers: &str) -> ClientConfig {
    let mut client = ClientConfig::new();
    for (name, value) in [
        ("bootstrap.servers", brokers),
        ("client.id", "mailrail-bench-floor"),
        ("allow.auto.create.topics", "false"),
        ("socket.keepalive.enable", "true"),
        ("linger.ms", "5"),
        ("batch.size", "262144"),
        ("compression.type", "lz4"),
        ("acks", "all"),
        ("enable.idempotence", "true"),
        ("enable.gapless.guarantee", "true"),
        ("message.timeout.ms", "0"),
        ("message.max.bytes", "1589248"),
        ("queue.buffering.max.kbytes", "131072"),
        ("queue.buffering.max.messages", "200000"),
        ("topic.metadata.propagation.max.ms", "5000"),
    ] {
        client.set(name, value);
    }
    client
}

/// A consumer of these partitions, with the settings of a reader there.
pub(crate) fn reader(
    brokers: &str,
    client_id: &str,
    partitions: &TopicPartitionList,
) -> Result<BaseConsumer> {
    let mut client = ClientConfig::new();
    for (name, value) in [
        ("bootstrap.servers", brokers),
        ("client.id", client_id),
        ("group.id", "mailrail-bench-unused"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "error"),
        ("check.crcs", "true"),
        ("fetch.queue.backoff.ms", "50"),
        ("fetch.wait.max.ms", "100"),
        ("fetch.message.max.bytes", "131072"),
    ] {
        client.set(name, value);
    }
    let consumer: BaseConsumer = client.create()?;
    consumer.assign(partitions)?;
    Ok(consumer)
}
