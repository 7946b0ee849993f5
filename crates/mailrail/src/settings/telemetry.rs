//! `[telemetry]`: what is told of the work to programs of others, beside `/metrics` and the log lines.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::units::{self, DurationText};
use super::validate::Found;

/// Most events a second that are traced because their producers ask.
const ASKED_PER_SECOND_MAX: u32 = 100_000;
/// Most spans that may wait: each takes about a kilobyte.
const QUEUE_SPANS_MAX: usize = 65_536;
/// Most spans of an export: a few megabytes, under what collectors take by default.
const BATCH_SPANS_MAX: usize = 4_096;
/// Longest that a span may wait for others.
const EXPORT_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Longest export.
const EXPORT_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Longest export at the end: it goes on while the log is closed, for which grace periods have 5 s.
const SHUTDOWN_TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// Where OTLP over HTTP takes spans, below the collector's address.
const TRACES_PATH: &str = "v1/traces";

/// `[telemetry]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TelemetrySettings {
    /// Traces over OTLP. The same in every role: the front door decides which events are traced, and each role exports its own
    /// spans.
    pub(crate) traces: TracesSettings,
}

/// `[telemetry.traces]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TracesSettings {
    /// Address of a collector that takes OTLP over HTTP; `/v1/traces` is added. Unset: no traces.
    #[schemars(extend("examples" = ["http://127.0.0.1:4318"]))]
    pub(crate) otlp_endpoint: Option<String>,
    /// Share of the events that are traced, 0 to 1, of those whose producer sends no `traceparent`.
    pub(crate) sample_ratio: f64,
    /// Events per second, of each ingest process, that are traced because their producer asks for it: a `traceparent` with the
    /// sampled flag. Those beyond are not traced. 0: nobody can ask.
    pub(crate) asked_per_second_max: u32,
    /// Spans that may wait for their export. Those beyond are dropped and counted.
    pub(crate) queue_spans_max: usize,
    /// Spans of one export.
    pub(crate) batch_spans_max: usize,
    /// How long a span waits for others to be exported with.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) export_interval: Duration,
    /// Total time of an export. Its spans are dropped and counted then.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) export_timeout: Duration,
    /// How long the export may take when the process ends.
    #[serde(with = "units::duration")]
    #[schemars(with = "DurationText")]
    pub(crate) shutdown_timeout: Duration,
}

impl Default for TracesSettings {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            sample_ratio: 0.001,
            asked_per_second_max: 100,
            queue_spans_max: 2048,
            batch_spans_max: 512,
            export_interval: Duration::from_secs(1),
            export_timeout: Duration::from_secs(10),
            shutdown_timeout: Duration::from_secs(2),
        }
    }
}

impl TracesSettings {
    /// Where spans are posted to; `None` when there are no traces, or the address is none.
    pub(crate) fn url(&self) -> Option<Url> {
        let mut url = Url::parse(self.otlp_endpoint.as_deref()?).ok()?;
        let good = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let path = format!("{}/{TRACES_PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        good.then_some(url)
    }
}

impl Found<'_> {
    pub(super) fn traces(&mut self) {
        let traces = &self.settings.telemetry.traces;
        let (set, usable) = (traces.otlp_endpoint.is_some(), traces.url().is_some());
        // Said without the address: it may hold a password.
        self.check(!set || usable, "telemetry.traces.otlp_endpoint", || {
            "is not the address of a collector: write it as \"http://host:4318\", without user, query and fragment; put \
             credentials into OTEL_EXPORTER_OTLP_HEADERS"
                .to_owned()
        });
        let ratio = traces.sample_ratio;
        self.check((0.0..=1.0).contains(&ratio), "telemetry.traces.sample_ratio", || {
            format!("is {ratio}: set it to 0..=1, as in 0.01 for one event in a hundred")
        });
        let most = ASKED_PER_SECOND_MAX;
        self.between("telemetry.traces.asked_per_second_max", traces.asked_per_second_max, 0, most);
        self.between("telemetry.traces.queue_spans_max", traces.queue_spans_max, 1, QUEUE_SPANS_MAX);
        self.between("telemetry.traces.batch_spans_max", traces.batch_spans_max, 1, BATCH_SPANS_MAX);
        self.lasting("telemetry.traces.export_interval", traces.export_interval, EXPORT_INTERVAL_MAX);
        self.lasting("telemetry.traces.export_timeout", traces.export_timeout, EXPORT_TIMEOUT_MAX);
        self.lasting("telemetry.traces.shutdown_timeout", traces.shutdown_timeout, SHUTDOWN_TIMEOUT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Role, Settings};

    fn problems(set: impl FnOnce(&mut TracesSettings)) -> Vec<String> {
        let mut settings = Settings::dev(std::path::Path::new("data"));
        set(&mut settings.telemetry.traces);
        let Err(error) = settings.validate(Role::Dev) else { return Vec::new() };
        let all = error.problems.into_iter().map(|problem| problem.message);
        all.filter(|message| message.starts_with("telemetry")).collect()
    }

    #[test]
    fn the_path_of_otlp_is_added_to_the_address() {
        for (set, url) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("https://otlp.example.com/prefix", "https://otlp.example.com/prefix/v1/traces"),
        ] {
            let traces = TracesSettings { otlp_endpoint: Some(set.to_owned()), ..TracesSettings::default() };
            assert_eq!(traces.url().map(String::from).as_deref(), Some(url));
        }
        assert_eq!(TracesSettings::default().url(), None);
        assert_eq!(problems(|_| {}), [""; 0]);
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_being_shown() {
        for bad in [
            "",
            "collector:4318",
            "ftp://collector",
            "grpc://collector:4317",
            "http://user:canary@collector:4318",
            "http://collector:4318/?token=canary",
        ] {
            let found = problems(|traces| traces.otlp_endpoint = Some(bad.to_owned()));
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(found[0].contains("http://host:4318") && !found[0].contains("canary"), "{found:?}");
        }
    }

    #[test]
    fn limits_and_the_ratio_are_checked() {
        for ratio in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let found = problems(|traces| traces.sample_ratio = ratio);
            assert!(found.len() == 1 && found[0].contains("set it to 0..=1"), "{ratio}: {found:?}");
        }
        let found = problems(|traces| {
            traces.queue_spans_max = 0;
            traces.batch_spans_max = 0;
            traces.export_timeout = Duration::ZERO;
            traces.shutdown_timeout = Duration::from_secs(6);
        });
        assert_eq!(found.len(), 4, "{found:?}");
    }
}
