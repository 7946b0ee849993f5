//! Metrics of stage one.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::ReasonLabels;
use super::register::{counter, family, gauge};

/// Metrics of stage one.
#[derive(Debug, Clone)]
pub struct MatchMetrics {
    /// `mailrail_match_events_total`
    pub events: Counter,
    /// `mailrail_match_events_unmatched_total`
    pub unmatched: Counter,
    /// `mailrail_match_deliveries_total`
    pub deliveries: Counter,
    /// `mailrail_match_denied_by_producer_total`
    pub denied_by_producer: Counter,
    /// `mailrail_match_filter_errors_total`
    pub filter_errors: Counter,
    /// `mailrail_match_filter_failures_total`
    pub filter_failures: Family<ReasonLabels, Counter>,
    /// `mailrail_match_quarantined_total`
    pub quarantined: Counter,
    /// `mailrail_match_partitions`
    pub partitions: Gauge,
}

impl MatchMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            events: counter(r, "events", "Events evaluated"),
            unmatched: counter(r, "events_unmatched", "Events that no subscription wanted"),
            deliveries: counter(r, "deliveries", "Deliveries that the log acknowledged"),
            denied_by_producer: counter(
                r,
                "denied_by_producer",
                "Recipients that did not get an event because their app lacks a permission that its producer asks for",
            ),
            filter_errors: counter(
                r,
                "filter_errors",
                "Filters that gave no verdict on an event, where their subscription wants that counted",
            ),
            filter_failures: family(
                r,
                "filter_failures",
                "Filters that gave no verdict on an event, by what their subscription wants done then",
            ),
            quarantined: counter(r, "quarantined", "Records that could not be read and went to quarantine"),
            partitions: gauge(r, "partitions", "Partitions of the events topic owned now"),
        }
    }
}
