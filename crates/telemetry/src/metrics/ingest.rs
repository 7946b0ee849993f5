//! Metrics of the front door.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::door::DoorMetrics;
use super::labels::{ReasonLabels, StatusLabels};
use super::register::{APPEND_BUCKETS, counter, family, seconds};

/// Metrics of the front door.
#[derive(Debug, Clone)]
pub struct IngestMetrics {
    /// `mailrail_ingest_request_seconds`, `mailrail_ingest_requests_in_flight`
    pub door: DoorMetrics,
    /// `mailrail_ingest_requests_total`
    pub requests: Family<StatusLabels, Counter>,
    /// `mailrail_ingest_events_accepted_total`
    pub accepted: Counter,
    /// `mailrail_ingest_events_refused_total`
    pub refused: Family<ReasonLabels, Counter>,
    /// `mailrail_ingest_append_seconds`
    pub append_seconds: Histogram,
    /// `mailrail_ingest_inbound_without_cells_total`
    pub inbound_without_cells: Counter,
}

impl IngestMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            door: DoorMetrics::register(r),
            requests: family(r, "requests", "Requests answered, by HTTP status"),
            accepted: counter(r, "events_accepted", "Events that the log acknowledged"),
            refused: family(r, "events_refused", "Events refused, by problem code"),
            append_seconds: seconds(
                r,
                "append",
                "Time until the log acknowledged an append",
                &APPEND_BUCKETS,
            ),
            inbound_without_cells: counter(
                r,
                "inbound_without_cells",
                "Third parties' webhooks that were answered and not kept: their integration has no cells",
            ),
        }
    }
}
