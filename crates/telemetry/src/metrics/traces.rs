//! Metrics of the export of traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::ReasonLabels;
use super::register::{counter, family};

/// Metrics of the export of traces.
#[derive(Debug, Clone)]
pub struct TraceMetrics {
    /// `mailrail_trace_spans_exported_total`
    pub exported: Counter,
    /// `mailrail_trace_spans_dropped_total`
    pub dropped: Family<ReasonLabels, Counter>,
    /// `mailrail_trace_events_asked_over_limit_total`
    pub asked_over_limit: Counter,
}

impl TraceMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            exported: counter(
                r,
                "spans_exported",
                "Spans that the collector took: those of exports that it answered with success, without those that it rejected",
            ),
            dropped: family(
                r,
                "spans_dropped",
                "Spans that were lost: queue_full while the collector was slow, export_failed when it refused or did not answer, rejected when it took only a part of an export",
            ),
            asked_over_limit: counter(
                r,
                "events_asked_over_limit",
                "Events that are not traced although their producers ask: more of them than telemetry.traces.asked_per_second_max",
            ),
        }
    }
}
