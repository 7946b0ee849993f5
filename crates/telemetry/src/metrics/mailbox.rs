//! Metrics of mailboxes, at both queues.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{DepthLabels, QueueLabels, RoutingLabels};
use super::register::{counter, family};

/// Metrics of mailboxes: their sizing, and what waits in them.
#[derive(Debug, Clone)]
pub struct MailboxMetrics {
    /// `mailrail_mailbox_routing_total`
    pub routing: Family<RoutingLabels, Counter>,
    /// `mailrail_mailbox_sizing_unavailable_total`
    pub sizing_unavailable: Counter,
    /// `mailrail_mailbox_depth`
    pub depth: Family<DepthLabels, Gauge>,
    /// `mailrail_mailbox_oldest_age_seconds`
    pub oldest_age_seconds: Family<QueueLabels, Gauge>,
    /// `mailrail_mailbox_waiting`
    pub waiting: Family<QueueLabels, Gauge>,
    /// `mailrail_mailbox_scan_complete`
    pub scan_complete: Family<QueueLabels, Gauge>,
}

impl MailboxMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        let oldest_age_seconds = Family::<QueueLabels, Gauge>::default();
        let help = "Age of the oldest record that waits in any mailbox; control looks once a minute";
        r.register_with_unit("oldest_age", help, Unit::Seconds, oldest_age_seconds.clone());
        Self {
            routing: family(
                r,
                "routing",
                "Payloads routed to mailboxes, by surface, reason and number of buckets",
            ),
            sizing_unavailable: counter(
                r,
                "sizing_unavailable",
                "Widths that were the cap because the rate was not known",
            ),
            depth: family(
                r,
                "depth",
                "Records in a mailbox: quantiles over the mailboxes of a class with something waiting",
            ),
            oldest_age_seconds,
            waiting: family(r, "waiting", "Mailboxes with something waiting"),
            scan_complete: family(
                r,
                "scan_complete",
                "1 when the last look at what waits saw all of it, 0 when depths are lower bounds or not known",
            ),
        }
    }

    /// Sets the total that sizing counts by itself.
    pub fn set_sizing_unavailable(&self, total: u64) {
        self.sizing_unavailable.inner().store(total, Ordering::Relaxed);
    }
}
