//! Settings: one TOML file, overridden by environment variables.
//!
//! The doc comments of the structs in `sections`, `backends`, `delivery` and `telemetry` are the reference
//! (`docs/reference/settings.md` is generated from them). A key that nobody reads is an error, never ignored.
//!
//! **Always holds**: [`Settings::load`] and [`Settings::validate`] report every problem they can see, each with its
//! file and line or its variable; no `Debug` output and no error text holds a secret.
//!
//! **Deliberately absent**: secrets in the file. They come from the environment or from files of their own.

pub(crate) mod backends;
mod check;
pub(crate) mod delivery;
mod error;
mod load;
mod reference;
mod schema;
mod secret;
pub(crate) mod sections;
mod telemetry;
mod understood;
mod units;
mod validate;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use backends::{LogKind, LogSettings, StoreSettings};
use delivery::DeliverSettings;
use sections::{
    AdminSettings, ControlSettings, EgressSettings, IngestSettings, LimitsSettings, LogsSettings,
    PipelineSettings,
};

pub(crate) use check::{CheckConfig, check_config};
pub(crate) use error::{Place, Problem, SettingsError};
pub(crate) use load::environment;
pub(crate) use reference::reference;
pub(crate) use secret::SecretText;
use telemetry::TelemetrySettings;
pub(crate) use validate::Role;

/// Partitions of a topic in `dev`: enough to show mailboxes side by side, few enough for one process.
const DEV_PARTITIONS: u32 = 8;

/// Everything that can be set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Put before the name of every topic and consumer group, so that several installations can share a Kafka
    /// cluster: `staging.` gives `staging.events.default`.
    pub(crate) topic_prefix: String,
    /// The region that this installation serves; part of every mailbox. At most 64 of letters, digits, `.`, `_` and `-`. Empty where
    /// there is one.
    pub(crate) region: String,
    /// The pipeline: its topics and how long they keep records.
    pub(crate) pipeline: PipelineSettings,
    /// The log: where events and deliveries are kept while they are on their way.
    pub(crate) log: LogSettings,
    /// The store: tenants, endpoints, subscriptions, keys.
    pub(crate) store: StoreSettings,
    /// What the processes share: rates, which size mailboxes, and the limits of endpoints.
    pub(crate) limits: LimitsSettings,
    /// The front door.
    pub(crate) ingest: IngestSettings,
    /// The control API.
    pub(crate) control: ControlSettings,
    /// The admin server: `/livez`, `/readyz`, `/metrics`. No authentication: keep it inside.
    pub(crate) admin: AdminSettings,
    /// Delivery: limits, times, retries.
    pub(crate) deliver: DeliverSettings,
    /// What outbound requests may reach.
    pub(crate) egress: EgressSettings,
    /// Log lines of the process, on standard error.
    pub(crate) logs: LogsSettings,
    /// What is told of the work to programs of others.
    pub(crate) telemetry: TelemetrySettings,
    /// Where each value that is not a default came from.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) origins: Origins,
}

/// Key to place, for errors.
pub(crate) type Origins = BTreeMap<String, Place>;

impl Settings {
    /// The settings of `mailrail dev`: every part embedded, under one folder, with loopback endpoints allowed.
    pub(crate) fn dev(data: &Path) -> Self {
        let mut settings = Self::default();
        settings.pipeline.partitions = DEV_PARTITIONS;
        settings.log.kind = LogKind::Local;
        settings.log.path = data.join("log");
        settings.store.url = format!("sqlite:{}", data.join("store.db").display());
        settings.egress.allow_http = true;
        settings.egress.allow_cidrs = sections::LOOPBACK.to_vec();
        settings
    }
}
