//! Metrics of the limits of endpoints that processes share.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{OutcomeLabels, ReasonLabels};
use super::register::{counter, family, gauge};

/// Metrics of the limits of endpoints.
#[derive(Debug, Clone)]
pub struct LimitsMetrics {
    /// `mailrail_limits_leases`
    pub leases: Gauge,
    /// `mailrail_limits_lease_asks_total`
    pub asks: Family<OutcomeLabels, Counter>,
    /// `mailrail_limits_lease_exchanges_total`
    pub exchanges: Counter,
    /// `mailrail_limits_leases_lost_total`
    pub leases_lost: Counter,
    /// `mailrail_limits_leases_left_to_expire_total`
    pub leases_expiring: Counter,
    /// `mailrail_limits_store_failures_total`
    pub failures: Family<ReasonLabels, Counter>,
    /// `mailrail_limits_processes`
    pub processes: Gauge,
    /// `mailrail_limits_on_share`
    pub on_share: Gauge,
}

impl LimitsMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            leases: gauge(
                r,
                "leases",
                "Leases of endpoints with max_in_flight that this process has, in use or kept for a moment",
            ),
            asks: family(
                r,
                "lease_asks",
                "Deliveries that asked for a lease: kept and granted got one, share got one of this process' share while the store was away, refused are held",
            ),
            exchanges: counter(r, "lease_exchanges", "Round trips to the store of leases"),
            leases_lost: counter(
                r,
                "leases_lost",
                "Leases in use that the store had forgotten or let expire when they were renewed",
            ),
            leases_expiring: counter(
                r,
                "leases_left_to_expire",
                "Leases that could not be given back and were left to their expiry",
            ),
            failures: family(r, "store_failures", "Exchanges and signs of life that failed, by code"),
            processes: gauge(
                r,
                "processes",
                "Processes that take leases, as last seen; 0 when not known yet",
            ),
            on_share: gauge(
                r,
                "on_share",
                "1 while this process keeps to its share of each limit, because the store is away or may not know all leases",
            ),
        }
    }
}
