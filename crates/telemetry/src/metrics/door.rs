//! Metrics of an HTTP door: how long its requests take, and how many are open.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::register::{REQUEST_BUCKETS, gauge};

/// Labels of a request. Both are of closed sets: callers choose paths, and may not choose series by them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// What was asked for, as a class of routes; `other` for whatever is not a route.
    pub route: &'static str,
    /// `2xx`, `3xx`, `4xx` or `5xx`; `other` for the rest.
    pub status_class: &'static str,
}

/// Metrics of a door.
#[derive(Debug, Clone)]
pub struct DoorMetrics {
    /// `…_request_seconds`
    pub request_seconds: Family<RequestLabels, Histogram>,
    /// `…_requests_in_flight`
    pub requests_in_flight: Gauge,
}

/// A request that is open; dropped, it is not: also when its caller went away. Its time is in the histogram only when
/// [`OpenRequest::answered`] says how it ended.
#[derive(Debug)]
pub struct OpenRequest {
    door: DoorMetrics,
    since: Instant,
}

impl DoorMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        let request_seconds = Family::<RequestLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(REQUEST_BUCKETS.iter().copied())
        });
        let help = "Time from the headers of a request to its answer, by class of route and of status";
        r.register_with_unit("request", help, Unit::Seconds, request_seconds.clone());
        let help = "Requests that are open: their body is read, or their answer is waited for";
        Self { request_seconds, requests_in_flight: gauge(r, "requests_in_flight", help) }
    }

    /// A request begins.
    #[must_use]
    pub fn begin(&self) -> OpenRequest {
        self.requests_in_flight.inc();
        OpenRequest { door: self.clone(), since: Instant::now() }
    }
}

impl OpenRequest {
    /// The request was answered with the HTTP status `status`. `route` is one of few.
    pub fn answered(self, route: &'static str, status: u16) {
        let labels = RequestLabels { route, status_class: status_class(status) };
        self.door.request_seconds.get_or_create(&labels).observe(self.since.elapsed().as_secs_f64());
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.door.requests_in_flight.dec();
    }
}

const fn status_class(status: u16) -> &'static str {
    match status / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        5 => "5xx",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n19_a_request_is_open_until_it_is_dropped_and_timed_when_it_was_answered() {
        let door = DoorMetrics::register(&mut Registry::default());
        let (gone, answered) = (door.begin(), door.begin());
        assert_eq!(door.requests_in_flight.get(), 2);
        drop(gone);
        answered.answered("events", 503);
        assert_eq!(door.requests_in_flight.get(), 0);
        let labels = RequestLabels { route: "events", status_class: "5xx" };
        assert!(door.request_seconds.get(&labels).is_some(), "the one that was answered");
        assert_eq!(
            [202, 301, 404, 500, 101, 999].map(status_class),
            ["2xx", "3xx", "4xx", "5xx", "other", "other"]
        );
    }
}
