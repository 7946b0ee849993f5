//! Metrics of the logs themselves.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tracing::Level;

use super::register::{counter, family};

/// Label `level`: of a log line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LevelLabels {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
}

impl LevelLabels {
    /// The label of a level.
    #[must_use]
    pub fn of(level: Level) -> Self {
        let level = match level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        Self { level }
    }
}

/// Metrics of the logs.
#[derive(Debug, Clone)]
pub struct LogMetrics {
    /// `mailrail_log_lines_suppressed_total`
    pub suppressed: Family<LevelLabels, Counter>,
    /// `mailrail_log_lines_lost_total`
    pub lost: Counter,
}

impl LogMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        let help = "Log lines that were not written because their place in the code said too many, by level";
        let lost = "Log lines that were not written because nobody read standard error, or not fast enough";
        Self { suppressed: family(r, "lines_suppressed", help), lost: counter(r, "lines_lost", lost) }
    }
}
