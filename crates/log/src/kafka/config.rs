//! Settings of the Kafka adapter, and what each kind of client makes of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::brokers::{PRODUCER_REPORT_INTERVAL_MS, REPORT_INTERVAL_MS};
use super::properties::is_of_producers_only;
use crate::LogError;
use crate::port::RELEASE_WAIT;

/// What a record may take in a batch beside key, value and headers.
pub(super) const RECORD_OVERHEAD_BYTES: usize = 16 * 1024;
/// Librdkafka's queue for the producer. Our own budget is smaller, so that a call is refused before its first record.
pub(super) const PRODUCER_QUEUE_KIB: usize = 128 * 1024;
pub(super) const PRODUCER_QUEUE_RECORDS: usize = 200_000;
/// What a release may take beyond the session. A session is longer than the longest attempt by 10 s at least, and that is enough for
/// the hand-over (8 s) and the rest of a cut attempt. A commit that is on its way then, which may take 20 s, does not fit as well:
/// the group goes on without the last commit, and what that would have said comes twice.
const RELEASE_BEYOND_SESSION: Duration = Duration::from_secs(10);
/// What a revocation may take beyond its release: the event that tells of it, and the last commits, 10 s each at most.
const REVOCATION_BEYOND_RELEASE: Duration = Duration::from_secs(30);
/// After this long without a poll a member is put out, at least.
const POLL_INTERVAL_MIN: Duration = Duration::from_secs(120);

/// Settings of the Kafka adapter.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// `host:port` of some brokers, separated by commas.
    pub brokers: String,
    /// Name of this client in the brokers' logs and quotas.
    pub client_id: String,
    /// Further librdkafka properties, such as `security.protocol` and `sasl.*`. What keeps records safe cannot be
    /// overridden here.
    pub properties: BTreeMap<String, String>,
    /// Replicas of a topic that is made, and the least that an existing one may have.
    pub replication_factor: u16,
    /// `min.insync.replicas` of a topic that is made, and the least that an existing one may have.
    pub min_insync_replicas: u16,
    /// Largest record: key, value and headers, in bytes.
    pub record_bytes_max: usize,
    /// How long an append may wait for its acknowledgement.
    pub delivery_timeout: Duration,
    /// Whom the members of this process stand for, over its restarts: who comes back under the same name has its partitions again at
    /// once. `None`: each start is somebody new. No two processes that run at the same time have the same.
    pub group_instance_id: Option<String>,
    /// How long a member may be silent before its partitions go to others.
    pub session_timeout: Duration,
    /// Between two signs of life of a member; at most a third of the session timeout.
    pub heartbeat_interval: Duration,
}

impl KafkaConfig {
    /// Settings for `brokers` with the defaults: three replicas of which two must have a record, records up to 1 MiB.
    #[must_use]
    pub fn new(brokers: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            client_id: "mailrail".to_owned(),
            properties: BTreeMap::new(),
            replication_factor: 3,
            min_insync_replicas: 2,
            record_bytes_max: 1024 * 1024,
            delivery_timeout: Duration::from_secs(20),
            group_instance_id: None,
            session_timeout: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(3),
        }
    }
}

/// Property values may be secrets: only their names are shown.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("replication_factor", &self.replication_factor)
            .field("min_insync_replicas", &self.min_insync_replicas)
            .field("record_bytes_max", &self.record_bytes_max)
            .field("delivery_timeout", &self.delivery_timeout)
            .field("group_instance_id", &self.group_instance_id)
            .field("session_timeout", &self.session_timeout)
            .field("heartbeat_interval", &self.heartbeat_interval)
            .finish()
    }
}

impl KafkaConfig {
    /// Refuses what cannot work, with what to change.
    ///
    /// # Errors
    /// [`LogError::Config`]: what to change. Values of properties are not repeated.
    pub fn check(&self) -> Result<(), LogError> {
        let refuse = |text: String| Err(LogError::Config(text));
        if self.brokers.trim().is_empty() {
            return refuse("kafka needs brokers: set host:port of at least one".to_owned());
        }
        self.check_client_id()?;
        self.check_group_instance_id()?;
        self.check_properties()?;
        self.check_mechanism()?;
        if self.replication_factor == 0 || self.min_insync_replicas == 0 {
            return refuse("kafka replication_factor and min_insync_replicas must be at least 1".to_owned());
        }
        if self.min_insync_replicas > self.replication_factor {
            return refuse(format!(
                "kafka min_insync_replicas {} is more than replication_factor {}: nothing could ever be written",
                self.min_insync_replicas, self.replication_factor
            ));
        }
        if self.heartbeat_interval * 3 > self.session_timeout {
            return refuse("kafka heartbeat_interval must be at most a third of session_timeout".to_owned());
        }
        // Names and values that no client has ever heard of. Makes none.
        for client in [self.producer(), self.reader(), self.member("any"), self.admin()] {
            client.create_native_config().map_err(|it| self.refused(it))?;
        }
        Ok(())
    }

    /// How long the group waits for the release of partitions that it takes away.
    pub(super) fn release_wait(&self) -> Duration {
        RELEASE_WAIT.max(self.session_timeout + RELEASE_BEYOND_SESSION)
    }

    /// After this long without a poll a member is put out. A release is waited for between two polls.
    fn poll_interval_max(&self) -> Duration {
        POLL_INTERVAL_MIN.max(self.release_wait() + REVOCATION_BEYOND_RELEASE)
    }

    /// Largest batch on the wire.
    pub(super) fn message_max_bytes(&self) -> usize {
        self.record_bytes_max + RECORD_OVERHEAD_BYTES
    }

    fn client(&self, producer: bool) -> ClientConfig {
        let mut client = ClientConfig::new();
        for (name, value) in &self.properties {
            if producer || !is_of_producers_only(name) {
                client.set(name, value);
            }
        }
        client
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", &self.client_id)
            .set("allow.auto.create.topics", "false")
            .set("statistics.interval.ms", REPORT_INTERVAL_MS)
            .set_log_level(RDKafkaLogLevel::Warning);
        self.unless_set(&mut client, "socket.keepalive.enable", "true");
        // After an outage a client is back when its last pause ends, and a member needs three connections one after the other.
        // By default a pause grows to 10 s. Who sets the least pause says how long they become.
        if !self.properties.contains_key("reconnect.backoff.ms") {
            self.unless_set(&mut client, "reconnect.backoff.max.ms", "2000");
        }
        client
    }

    fn unless_set(&self, client: &mut ClientConfig, name: &str, value: &str) {
        if !self.properties.contains_key(name) {
            client.set(name, value);
        }
    }

    /// The idempotent producer. A record never times out inside librdkafka: that would fail it alone and send those
    /// behind it, a gap. Our own timeout gives up the producer with everything in it.
    pub(super) fn producer(&self) -> ClientConfig {
        let mut client = self.client(true);
        // Lz4: records of a partition leave in small batches, and zstd took a fifth of the CPU time of a delivery to unpack them.
        for (name, value) in [("linger.ms", "5"), ("batch.size", "262144"), ("compression.type", "lz4")] {
            let alias = if name == "compression.type" { "compression.codec" } else { name };
            if !self.properties.contains_key(name) && !self.properties.contains_key(alias) {
                client.set(name, value);
            }
        }
        client
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("enable.gapless.guarantee", "true")
            .set("message.timeout.ms", "0")
            .set("statistics.interval.ms", PRODUCER_REPORT_INTERVAL_MS)
            .set("message.max.bytes", self.message_max_bytes().to_string())
            .set("queue.buffering.max.kbytes", PRODUCER_QUEUE_KIB.to_string())
            .set("queue.buffering.max.messages", PRODUCER_QUEUE_RECORDS.to_string())
            // Topics are made and verified before anything is appended: an unknown one need not be waited for.
            .set("topic.metadata.propagation.max.ms", "5000");
        client
    }

    /// The client of a set of readers. Outside any group: partitions that stay ours flow on through a rebalance.
    pub(super) fn reader(&self) -> ClientConfig {
        let mut client = self.client(false);
        client
            .set("group.id", format!("{}-unused", self.client_id))
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("check.crcs", "true")
            .set("queued.max.messages.kbytes", "16384")
            .set("queued.min.messages", "1000")
            .set("fetch.queue.backoff.ms", "50")
            .set("fetch.wait.max.ms", "100")
            // Unpacked, a fetch of a partition should fit into its buffer: the rest would be thrown away.
            .set("fetch.message.max.bytes", "131072")
            .set("fetch.max.bytes", self.message_max_bytes().max(8 * 1024 * 1024).to_string());
        client
    }

    /// The member of a group. It is assigned partitions and commits; it never fetches a record.
    pub(super) fn member(&self, group: &str) -> ClientConfig {
        let mut client = self.client(false);
        client
            .set("group.id", group)
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", self.session_timeout.as_millis().to_string())
            .set("heartbeat.interval.ms", self.heartbeat_interval.as_millis().to_string())
            .set("max.poll.interval.ms", self.poll_interval_max().as_millis().to_string())
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("queued.min.messages", "1")
            .set("fetch.message.max.bytes", "4096");
        if let Some(instance) = &self.group_instance_id {
            client.set("group.instance.id", instance);
        }
        // A connection to the coordinator that dies without a word is noticed only by a request that gets no answer in time, and a
        // heartbeat has the whole session for that: then it is over. A commit has this long. One that gets no answer ends the
        // connection, the coordinator is looked for again, and heartbeats go on before the session ends. Not much less: a commit may
        // stand behind a request to join on the same connection, which waits for others of the group.
        self.unless_set(&mut client, "socket.timeout.ms", "20000");
        client
    }

    /// Asks what a group committed, without being a member.
    pub(super) fn observer(&self, group: &str) -> ClientConfig {
        let mut client = self.client(false);
        client
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            // Nobody polls this client all the time: what it says would pile up.
            .set("statistics.interval.ms", "0")
            .set_log_level(RDKafkaLogLevel::Emerg);
        client
    }

    /// Topics: make, describe, delete records.
    pub(super) fn admin(&self) -> ClientConfig {
        let mut client = self.client(false);
        client.set("statistics.interval.ms", "0").set_log_level(RDKafkaLogLevel::Emerg);
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut KafkaConfig)) -> String {
        let mut config = KafkaConfig::new("127.0.0.1:9092");
        change(&mut config);
        config.check().expect_err("refused").to_string()
    }

    #[test]
    fn safety_settings_cannot_be_overridden() {
        for name in
            ["acks", "enable.idempotence", "auto.offset.reset", "enable.auto.commit", "plugin.library.paths"]
        {
            let text = refusal(|it| {
                it.properties.insert(name.to_owned(), "1".to_owned());
            });
            assert!(text.contains(name) && text.contains("remove it"), "{text}");
        }
        let text = refusal(|it| {
            it.properties.insert("delivery.timeout.ms".to_owned(), "1".to_owned());
        });
        assert!(text.contains("use delivery_timeout"), "{text}");
        let text = refusal(|it| {
            it.properties.insert("statistics.interval.ms".to_owned(), "0".to_owned());
        });
        assert!(text.contains("lost their brokers") && text.contains("remove it"), "{text}");
        for wrong in ["a\"b", "a\\b", "a\nb"] {
            assert!(refusal(|it| it.client_id = wrong.to_owned()).contains("client_id"), "{wrong}");
        }
        for wrong in ["", ".", "..", "a b", "a/b", &"a".repeat(250)] {
            let text = refusal(|it| it.group_instance_id = Some(wrong.to_owned()));
            assert!(text.contains("group_instance_id"), "{wrong}");
        }
        let text = refusal(|it| {
            it.properties.insert("group.instance.id".to_owned(), "a".to_owned());
        });
        assert!(text.contains("use group_instance_id"), "{text}");
        assert!(refusal(|it| it.brokers.clear()).contains("brokers"));
        assert!(refusal(|it| it.min_insync_replicas = 4).contains("nothing could ever be written"));
        assert!(refusal(|it| it.session_timeout = Duration::from_secs(5)).contains("a third"));
    }

    /// A record that times out there fails alone, and those behind it are sent.
    #[test]
    fn records_never_time_out_inside_librdkafka() {
        let producer = KafkaConfig::new("127.0.0.1:9092").producer();
        for (name, value) in [
            ("message.timeout.ms", "0"),
            ("acks", "all"),
            ("enable.idempotence", "true"),
            ("enable.gapless.guarantee", "true"),
        ] {
            assert_eq!(producer.get(name), Some(value), "{name}");
        }
    }

    #[test]
    fn clients_that_run_all_the_time_report_and_the_producer_more_seldom() {
        let config = KafkaConfig::new("127.0.0.1:9092");
        let interval = |client: ClientConfig| client.get("statistics.interval.ms").expect("set").to_owned();
        for (client, expected) in [
            (config.reader(), "5000"),
            (config.member("g"), "5000"),
            (config.producer(), "20000"),
            (config.observer("g"), "0"),
            (config.admin(), "0"),
        ] {
            assert_eq!(interval(client), expected);
        }
    }

    /// Several commits in a session may go without an answer before it ends.
    #[test]
    fn a_member_notices_a_dead_connection_within_a_third_of_its_session() {
        let mut config = KafkaConfig::new("127.0.0.1:9092");
        let timeout = |config: &KafkaConfig| {
            config.member("g").get("socket.timeout.ms").and_then(|ms| ms.parse::<u64>().ok()).expect("set")
        };
        assert!(u128::from(timeout(&config)) * 3 <= config.session_timeout.as_millis());
        config.properties.insert("socket.timeout.ms".to_owned(), "30000".to_owned());
        assert_eq!(timeout(&config), 30_000, "who sets it knows why");
    }

    /// I12: an owner that cannot say its last word lets its attempts end first, and a session is longer than those.
    #[test]
    fn i12_a_member_may_wait_for_a_release_as_long_as_its_longest_attempt_takes() {
        let of = |session| {
            let session_timeout = Duration::from_secs(session);
            let config = KafkaConfig { session_timeout, ..KafkaConfig::new("127.0.0.1:9092") };
            let poll = config.member("g").get("max.poll.interval.ms").and_then(|ms| ms.parse::<u64>().ok());
            (config.release_wait().as_secs(), poll.map(|ms| ms / 1000))
        };
        assert_eq!(of(12), (60, Some(120)));
        assert_eq!(of(60), (70, Some(120)));
        assert_eq!(of(310), (320, Some(350)));
    }

    #[test]
    fn security_properties_pass_and_their_values_are_never_shown() {
        let mut config = KafkaConfig::new("127.0.0.1:9092");
        config.properties.insert("sasl.password".to_owned(), "hunter2".to_owned());
        config.properties.insert("linger.ms".to_owned(), "1".to_owned());
        config.check().expect("allowed");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert_eq!(config.producer().get("sasl.password"), Some("hunter2"));
        assert_eq!(config.producer().get("linger.ms"), Some("1"));
        assert_eq!(config.reader().get("linger.ms"), None);
        assert_eq!(config.reader().get("sasl.password"), Some("hunter2"));
    }
}
