//! The sections of what lies beneath: log and store.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretText;
use super::units::{self, DurationText};

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSettings {
    /// Which adapter.
    pub(crate) kind: LogKind,
    /// Folder of the local log; only for `kind = "local"`.
    pub(crate) path: PathBuf,
    /// Only for `kind = "kafka"`.
    pub(crate) kafka: KafkaSettings,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            kind: LogKind::Kafka,
            path: PathBuf::from("mailrail-data/log"),
            kafka: KafkaSettings::default(),
        }
    }
}

/// Adapters of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogKind {
    /// A Kafka cluster: for production.
    Kafka,
    /// A folder on this machine, used by one process: for a laptop.
    Local,
}

/// `[log.kafka]`
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KafkaSettings {
    /// Brokers to start from, as `host:port`.
    pub(crate) brokers: Vec<String>,
    /// Name of this client in the broker's logs and quotas.
    pub(crate) client_id: String,
    /// More librdkafka properties, for example `"security.protocol" = "SASL_SSL"`. The properties that mailrail's
    /// promises rest on (acks, idempotence, commits, offsets) are refused. With SASL, `sasl.mechanism` is one of `PLAIN`,
    /// `SCRAM-SHA-256`, `SCRAM-SHA-512` and `OAUTHBEARER`. As an environment variable the name
    /// follows the key with `_` for `.`, which keeps passwords out of the file:
    /// `MAILRAIL__LOG__KAFKA__PROPERTIES__SASL_PASSWORD`.
    pub(crate) properties: BTreeMap<String, String>,
    /// Copies of each topic. A topic that has another number is refused at start.
    pub(crate) replication_factor: u16,
    /// Copies that must have a record before it counts as written. A topic that has another number is refused at
    /// start.
    pub(crate) min_insync_replicas: u16,
    /// How long an append may take before it counts as failed.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) delivery_timeout: Duration,
    /// Whom this process stands for in its groups, over its restarts: the UID of its pod, for example, which the chart gives. A process
    /// that dies and comes back under the same name has its partitions again at once, and holds nobody up; without a name the group
    /// waits until the session of the one that died is over. No two processes that run at the same time may have the same: the later one
    /// takes the partitions of the other, which says `name_taken` and ends after a session. Letters, digits, `.`, `_` and `-`, at most 249.
    pub(crate) group_instance_id: Option<String>,
    /// After this long without a heartbeat the group gives a member's partitions to others. Must leave room for
    /// `deliver.attempt_timeout`.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) session_timeout: Duration,
}

impl Default for KafkaSettings {
    fn default() -> Self {
        Self {
            brokers: Vec::new(),
            client_id: "mailrail".to_owned(),
            properties: BTreeMap::new(),
            replication_factor: 3,
            min_insync_replicas: 2,
            delivery_timeout: Duration::from_secs(30),
            group_instance_id: None,
            session_timeout: Duration::from_secs(60),
        }
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of properties are left out: some of them are passwords.
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("replication_factor", &self.replication_factor)
            .field("min_insync_replicas", &self.min_insync_replicas)
            .field("delivery_timeout", &self.delivery_timeout)
            .field("group_instance_id", &self.group_instance_id)
            .field("session_timeout", &self.session_timeout)
            .finish()
    }
}

/// `[store]`
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreSettings {
    /// `postgres://user@host/database` or `sqlite:PATH`. A URL with a password belongs into
    /// `MAILRAIL__STORE__URL`, not into the file.
    pub(crate) url: String,
    /// File that holds the key that secrets are encrypted with: 32 bytes in hex or base64. `MAILRAIL_ENCRYPTION_KEY`
    /// wins over it. One of the two is required outside `mailrail dev`.
    pub(crate) encryption_key_file: Option<PathBuf>,
    /// The key itself, from `MAILRAIL_ENCRYPTION_KEY` or `encryption_key_file`.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) encryption_key: Option<SecretText>,
}

impl StoreSettings {
    /// The URL without user, password and query, for summaries.
    pub(crate) fn public_url(&self) -> String {
        if !self.url.contains("://") {
            return self.url.clone();
        }
        let Ok(mut url) = url::Url::parse(&self.url) else { return "(unreadable)".to_owned() };
        // Neither can fail for a URL that has a host; one without has no credentials to hide.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.into()
    }
}

impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings")
            .field("url", &self.public_url())
            .field("encryption_key_file", &self.encryption_key_file)
            .field("encryption_key", &self.encryption_key)
            .finish()
    }
}
