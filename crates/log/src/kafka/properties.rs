//! Which librdkafka properties may be set.

use super::config::KafkaConfig;
use crate::LogError;

/// Settings of ours with a field of their own.
const NAMED: &[(&str, &str)] = &[
    ("bootstrap.servers", "brokers"),
    ("metadata.broker.list", "brokers"),
    ("client.id", "client_id"),
    ("delivery.timeout.ms", "delivery_timeout"),
    ("message.timeout.ms", "delivery_timeout"),
    ("message.max.bytes", "record_bytes_max"),
    ("group.instance.id", "group_instance_id"),
    ("session.timeout.ms", "session_timeout"),
    ("heartbeat.interval.ms", "heartbeat_interval"),
];

/// What the promises of the log rest on.
const FIXED: &[&str] = &[
    "acks",
    "request.required.acks",
    "allow.auto.create.topics",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "fetch.message.max.bytes",
    "fetch.max.bytes",
    "group.id",
    "group.protocol",
    "group.remote.assignor",
    "isolation.level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "message.send.max.retries",
    "partition.assignment.strategy",
    "partitioner",
    "plugin.library.paths",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "queuing.strategy",
    "request.timeout.ms",
    "retries",
    "topic.metadata.propagation.max.ms",
    "transaction.timeout.ms",
    "transactional.id",
];

/// Longest `group.instance.id` that a broker takes: that of the name of a topic.
const INSTANCE_ID_BYTES_MAX: usize = 249;

/// Only producers know these; a consumer would complain about them.
const PRODUCER_ONLY: &[&str] = &[
    "batch.num.messages",
    "batch.size",
    "compression.codec",
    "compression.level",
    "compression.type",
    "linger.ms",
    "queue.buffering.max.ms",
    "sticky.partitioning.linger.ms",
];

/// What clients say about themselves shows which of them lost their brokers (see `brokers`).
const REPORTS: &str = "statistics.interval.ms";

/// A consumer would complain about the property.
pub(super) fn is_of_producers_only(name: &str) -> bool {
    PRODUCER_ONLY.contains(&name)
}

impl KafkaConfig {
    /// Refuses properties that have a setting of their own, and those that promises of the log rest on.
    pub(super) fn check_properties(&self) -> Result<(), LogError> {
        let refuse = |text: String| Err(LogError::Config(text));
        for name in self.properties.keys() {
            if let Some((_, field)) = NAMED.iter().find(|(property, _)| property == name) {
                return refuse(format!("kafka property {name} has a setting of its own: use {field}"));
            }
            if name == REPORTS {
                return refuse(format!(
                    "kafka property {name} is how clients that lost their brokers are found and cannot be set; remove it"
                ));
            }
            if FIXED.contains(&name.as_str()) {
                return refuse(format!(
                    "kafka property {name} keeps records safe and cannot be set; remove it"
                ));
            }
        }
        Ok(())
    }

    /// Librdkafka writes the name into its reports about a client as it is: with these they could not be read.
    pub(super) fn check_client_id(&self) -> Result<(), LogError> {
        if self.client_id.chars().any(|it| it == '"' || it == '\\' || it.is_control()) {
            return Err(LogError::Config(
                "kafka client_id has a quotation mark, a backslash or a control character; use others"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Brokers take what they take as the name of a topic.
    pub(super) fn check_group_instance_id(&self) -> Result<(), LogError> {
        let Some(instance) = &self.group_instance_id else { return Ok(()) };
        let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
        if (1..=INSTANCE_ID_BYTES_MAX).contains(&instance.len())
            && instance.chars().all(is_name)
            && instance != "."
            && instance != ".."
        {
            return Ok(());
        }
        Err(LogError::Config(format!(
            "kafka group_instance_id must be 1 to {INSTANCE_ID_BYTES_MAX} letters, digits, dots, underscores and hyphens; remove it \
             where no name stays over restarts"
        )))
    }
}
