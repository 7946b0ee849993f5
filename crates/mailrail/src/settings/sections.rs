//! The smaller sections: pipeline, ingest, control, admin, egress, logs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mailrail_telemetry::LogOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretText;
use super::units::{self, DurationText, SizeText};

const DAY: Duration = Duration::from_secs(86_400);

/// Addresses of this machine: what `dev` lets endpoints be.
pub(super) const LOOPBACK: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
];

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// `[pipeline]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PipelineSettings {
    /// Name of the pipeline; part of the names of its topics and consumer groups.
    pub(crate) name: String,
    /// Partitions of each topic, 1 to 1024. Pinned: a mailbox lives in the partition that its key hashes to, so
    /// changing it moves mailboxes and breaks order. 8 in `mailrail dev`.
    pub(crate) partitions: u32,
    /// How long each topic keeps records.
    pub(crate) retention: RetentionSettings,
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self { name: "default".to_owned(), partitions: 64, retention: RetentionSettings::default() }
    }
}

/// `[pipeline.retention]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetentionSettings {
    /// Of accepted events. Match must have read them by then.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) events: Duration,
    /// Of deliveries. Must be longer than `deliver.delivery_deadline`, or mail is gone before it was given up.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) deliveries: Duration,
    /// Of dead letters, and of records that could not be read.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) dead_letters: Duration,
    /// Of the record of attempts.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) attempts: Duration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self { events: 7 * DAY, deliveries: 14 * DAY, dead_letters: 30 * DAY, attempts: 7 * DAY }
    }
}

/// `[ingest]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IngestSettings {
    /// Address and port of `POST /v1/events`.
    #[schemars(with = "String", extend("examples" = ["127.0.0.1:8080"]))]
    pub(crate) listen: SocketAddr,
    /// Largest request body. A larger one is answered 413.
    #[serde(with = "units::size")]
    #[schemars(with = "SizeText")]
    pub(crate) body_limit_bytes: u64,
    /// Most events in one batch request.
    pub(crate) batch_events_max: usize,
}

impl Default for IngestSettings {
    fn default() -> Self {
        Self { listen: local(8080), body_limit_bytes: 1024 * 1024, batch_events_max: 100 }
    }
}

/// `[control]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ControlSettings {
    /// Address and port of the control API.
    #[schemars(with = "String", extend("examples" = ["127.0.0.1:8081"]))]
    pub(crate) listen: SocketAddr,
    /// File that holds the administrator's token, 32 to 512 visible ASCII characters. `MAILRAIL_ADMIN_TOKEN` wins over it.
    pub(crate) token_file: Option<PathBuf>,
    /// The token itself, from `MAILRAIL_ADMIN_TOKEN` or `token_file`.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) token: Option<SecretText>,
    /// Most records that one look at the mailboxes reads, over all partitions of a queue: `mailrail mailboxes`, and once a minute the
    /// metrics of what waits. Each process of control looks for itself, and takes 10 s at most. As many mailboxes may be in its memory.
    pub(crate) scan_records_max: u64,
    /// Most records of the log that are looked at to say why a delivery waits or who gets an event (`mailrail why`, `mailrail explain`),
    /// over all topics and partitions.
    pub(crate) why_records_max: u64,
    /// Longest time of that look. A request of the control API has 30 s in all.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) why_timeout: Duration,
}

impl Default for ControlSettings {
    fn default() -> Self {
        Self {
            listen: local(8081),
            token_file: None,
            token: None,
            scan_records_max: 200_000,
            why_records_max: 1_500_000,
            why_timeout: Duration::from_secs(15),
        }
    }
}

/// `[admin]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AdminSettings {
    /// Address and port of `/livez`, `/readyz` and `/metrics`.
    #[schemars(with = "String", extend("examples" = ["127.0.0.1:9464"]))]
    pub(crate) listen: SocketAddr,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self { listen: local(9464) }
    }
}

/// `[limits]`
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSettings {
    /// Redis that the processes share: `redis://host:port/`, several addresses for a cluster. It holds rates, and the open
    /// requests of endpoints with `max_in_flight`; nothing that may not be lost. Empty: every process counts by
    /// itself. A URL with a password belongs into
    /// `MAILRAIL__LIMITS__REDIS`, not into the file.
    #[schemars(extend("examples" = ["redis://127.0.0.1:6379/"]))]
    pub(crate) redis: Vec<String>,
}

impl std::fmt::Debug for LimitsSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Addresses may hold passwords.
        f.debug_struct("LimitsSettings").field("redis", &self.redis.len()).finish()
    }
}

/// `[egress]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EgressSettings {
    /// Networks that endpoints may be in although they are denied by default (private, loopback, link-local,
    /// metadata and other special ranges). `mailrail dev` allows loopback.
    #[schemars(with = "Vec<String>", extend("examples" = ["10.0.0.0/8"]))]
    pub(crate) allow_cidrs: Vec<IpNet>,
    /// Networks that endpoints may never be in; wins over `allow_cidrs`.
    #[schemars(with = "Vec<String>", extend("examples" = ["10.0.0.0/8"]))]
    pub(crate) deny_cidrs: Vec<IpNet>,
    /// Whether an endpoint may have an `http:` URL. `mailrail dev` allows it.
    pub(crate) allow_http: bool,
    /// PEM file of additional certificate authorities for endpoints.
    pub(crate) ca_file: Option<PathBuf>,
}

/// `[logs]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogsSettings {
    /// How a log line looks.
    pub(crate) format: LogFormatSetting,
    /// What is logged: a tracing filter such as `info` or `info,mailrail_deliver=debug`. A word alone that is
    /// neither a level nor a target of ours is refused.
    pub(crate) filter: String,
    /// Lines that one place in the code may say in 10 seconds, but for those of target `audit`. What is beyond is counted,
    /// and said in one line. 0: no limit.
    pub(crate) lines_per_place_max: u32,
}

impl LogsSettings {
    /// As logging takes them.
    pub(crate) fn options(&self) -> LogOptions<'_> {
        let (format, lines_per_place_max) = (self.format.explicit(), self.lines_per_place_max);
        LogOptions { format, filter: &self.filter, lines_per_place_max }
    }
}

impl Default for LogsSettings {
    fn default() -> Self {
        Self { format: LogFormatSetting::Auto, filter: "info".to_owned(), lines_per_place_max: 100 }
    }
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormatSetting {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl LogFormatSetting {
    /// As telemetry wants it; `None`: it decides by itself.
    pub(crate) const fn explicit(self) -> Option<mailrail_telemetry::LogFormat> {
        match self {
            Self::Auto => None,
            Self::Json => Some(mailrail_telemetry::LogFormat::Json),
            Self::Text => Some(mailrail_telemetry::LogFormat::Text),
        }
    }
}
