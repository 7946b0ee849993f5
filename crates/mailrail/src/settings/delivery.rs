//! The section of stage two: `deliver`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{self, DurationText, SizeText};

/// `[deliver]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DeliverSettings {
    /// Most requests that one process has open at once. An endpoint has at most twice as many as could still be opened:
    /// two thirds of them, when it is alone.
    pub(crate) attempts_in_flight_max: usize,
    /// Failures in a row after which an endpoint is left alone for a while: its mail waits and one request at a time probes
    /// it. 0: never.
    pub(crate) breaker_failures: u32,
    /// Most records of one partition held in memory. When a window is full its partition is not read any further.
    pub(crate) window_records: usize,
    /// Most bytes of one partition held in memory.
    #[serde(with = "units::size")]
    #[schemars(with = "SizeText")]
    pub(crate) window_bytes: u64,
    /// Total time of one attempt, from name lookup to the end of the answer.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) attempt_timeout: Duration,
    /// How often a partition notes what is finished, and how often what is noted is committed. After a kill is sent again what was on its
    /// way, and what was finished since the last commit that the log took: in about twice this time (a second), and more where the log is slow.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) commit_interval: Duration,
    /// How long open requests may finish when the process stops or the group takes a partition away; at most 8s, because
    /// the group waits 10s. What is cut is sent again by the next owner.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) drain: Duration,
    /// When a failed delivery is tried again.
    pub(crate) retry: RetrySettings,
    /// A delivery that is older than this is given up. Counted from the acceptance of its event.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) delivery_deadline: Duration,
}

impl Default for DeliverSettings {
    fn default() -> Self {
        Self {
            attempts_in_flight_max: 512,
            breaker_failures: 10,
            window_records: 2000,
            window_bytes: 8 * 1024 * 1024,
            attempt_timeout: Duration::from_secs(30),
            commit_interval: Duration::from_millis(500),
            drain: Duration::from_secs(8),
            retry: RetrySettings::default(),
            delivery_deadline: Duration::from_secs(4 * 86_400),
        }
    }
}

/// `[deliver.retry]`. Waits are spread at random around these times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetrySettings {
    /// A ready-made schedule. Not read when `delays` is given.
    pub(crate) preset: RetryPreset,
    /// A schedule of your own: the wait before the second attempt, the third, and so on. After the last one the
    /// delivery is dead-lettered. Empty: the preset.
    #[serde(with = "units::durations")]
    #[schemars(with = "Vec<DurationText>")]
    pub(crate) delays: Vec<Duration>,
}

/// Ready-made retry schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RetryPreset {
    /// 10 attempts over about 75 hours.
    #[default]
    Standard,
    /// Sentry's curve: 3 minutes times 1.4 per attempt, at most an hour apart.
    Sentry,
}
