//! The catalogue: every metric, its labels and its help.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::Ordering;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::extreme::Extreme;

/// Label `status`: HTTP status of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StatusLabels {
    /// HTTP status.
    pub status: u16,
}

/// Label `outcome`: a code of `types::Outcome`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabels {
    /// The code.
    pub outcome: &'static str,
}

/// Label `reason`: a code of a closed set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabels {
    /// The code.
    pub reason: &'static str,
}

/// Labels of a routed payload. `buckets` is a power of two or a strict width: few values, whatever senders do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RoutingLabels {
    /// `source` at the front door; `product_event` or `forward` for a recipient's mailbox.
    pub surface: &'static str,
    /// Whether the payload went to one of several buckets.
    pub bucketed: &'static str,
    /// Why: `no_key`, `under_rate`, `bucketed`, `fixed` or `sizing_unavailable`.
    pub reason: &'static str,
    /// How many buckets; empty when no width was asked for.
    pub buckets: Option<u32>,
}

/// Label `queue`: `source` (on the way to match) or `recipient` (on the way to an endpoint).
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabels {
    /// The queue.
    pub queue: &'static str,
}

/// Labels of the depth of mailboxes. Operators name classes; there are few.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DepthLabels {
    /// As [`QueueLabels::queue`].
    pub queue: &'static str,
    /// Class of the mailboxes; `unknown` when what they belong to is not set up any more.
    pub class: String,
    /// `0.5`, `0.9`, `0.99` or `1` (the deepest).
    pub quantile: &'static str,
}

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Of the front door.
    pub ingest: IngestMetrics,
    /// Of the sizing of mailboxes, at both queues.
    pub mailbox: MailboxMetrics,
    /// Of stage one.
    pub matching: MatchMetrics,
    /// Of stage two.
    pub deliver: DeliverMetrics,
    /// Of the limits of endpoints that processes share.
    pub limits: LimitsMetrics,
}

/// Metrics of the front door.
#[derive(Debug, Clone)]
pub struct IngestMetrics {
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

/// Metrics of stage two.
#[derive(Debug, Clone)]
pub struct DeliverMetrics {
    /// `mailrail_deliver_attempts_total`
    pub attempts: Family<OutcomeLabels, Counter>,
    /// `mailrail_deliver_settled_total`
    pub settled: Family<OutcomeLabels, Counter>,
    /// `mailrail_deliver_dead_letters_total`
    pub dead: Family<ReasonLabels, Counter>,
    /// `mailrail_deliver_attempt_seconds`
    pub attempt_seconds: Histogram,
    /// `mailrail_deliver_age_seconds`
    pub age_seconds: Histogram,
    /// `mailrail_deliver_takeover_seconds`
    pub takeover_seconds: Histogram,
    /// `mailrail_deliver_prefix_seconds`
    pub prefix_seconds: Histogram,
    /// `mailrail_deliver_in_flight`
    pub in_flight: Gauge,
    /// `mailrail_deliver_held`
    pub held: Gauge,
    /// `mailrail_deliver_held_by_reason`
    pub held_by_reason: Family<ReasonLabels, Gauge>,
    /// `mailrail_deliver_held_mailboxes`
    pub held_mailboxes: Family<ReasonLabels, Gauge>,
    /// `mailrail_deliver_oldest_held_seconds`
    pub oldest_held_seconds: Extreme,
    /// `mailrail_deliver_lane_blocked_seconds`
    pub lane_blocked_seconds: Extreme,
    /// `mailrail_deliver_journal_pinned_entries`
    pub journal_pinned_entries: Gauge,
    /// `mailrail_deliver_journal_pinned_bytes`
    pub journal_pinned_bytes: Gauge,
    /// `mailrail_deliver_isolated_partitions`
    pub isolated_partitions: Gauge,
    /// `mailrail_deliver_window_records`
    pub window_records: Gauge,
    /// `mailrail_deliver_window_bytes`
    pub window_bytes: Gauge,
    /// `mailrail_deliver_window_fill`
    pub window_fill: Extreme,
    /// `mailrail_deliver_lease_margin_seconds`
    pub lease_margin_seconds: Extreme,
    /// `mailrail_deliver_unclean_takeovers_total`
    pub unclean_takeovers: Counter,
    /// `mailrail_deliver_duplicates_suspected_total`
    pub duplicates_suspected: Counter,
    /// `mailrail_deliver_quarantined_total`
    pub quarantined: Counter,
    /// `mailrail_deliver_partitions`
    pub partitions: Gauge,
}

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

const APPEND_BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
const ATTEMPT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 30.0];
const AGE_BUCKETS: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0, 21_600.0, 86_400.0];

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics, at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("mailrail");
        let ingest = IngestMetrics::register(registry.sub_registry_with_prefix("ingest"));
        let matching = MatchMetrics::register(registry.sub_registry_with_prefix("match"));
        let deliver = DeliverMetrics::register(registry.sub_registry_with_prefix("deliver"));
        let mailbox = MailboxMetrics::register(registry.sub_registry_with_prefix("mailbox"));
        let limits = LimitsMetrics::register(registry.sub_registry_with_prefix("limits"));
        Metrics { registry, ingest, mailbox, matching, deliver, limits }
    }

    /// The OpenMetrics text of `/metrics`; its content type is
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let metric = Counter::default();
    registry.register(name, help, metric.clone());
    metric
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let metric = Gauge::default();
    registry.register(name, help, metric.clone());
    metric
}

fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
where
    L: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static,
    M: EncodeMetric + TypedMetric + Default + Debug + Send + Sync + 'static,
{
    let metric = Family::<L, M>::default();
    registry.register(name, help, metric.clone());
    metric
}

fn extreme(registry: &mut Registry, name: &str, unit: Option<Unit>, help: &str, metric: Extreme) -> Extreme {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric.metric()),
        None => registry.register(name, help, metric.metric()),
    }
    metric
}

fn seconds(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let metric = Histogram::new(buckets.iter().copied());
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

impl IngestMetrics {
    fn register(r: &mut Registry) -> Self {
        Self {
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

impl MailboxMetrics {
    fn register(r: &mut Registry) -> Self {
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

impl MatchMetrics {
    fn register(r: &mut Registry) -> Self {
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

impl DeliverMetrics {
    fn register(r: &mut Registry) -> Self {
        Self {
            attempts: family(r, "attempts", "Attempts, by outcome"),
            settled: family(r, "settled", "Deliveries that ended, by outcome"),
            dead: family(r, "dead_letters", "Deliveries given up, by reason"),
            attempt_seconds: seconds(r, "attempt", "Time of one attempt", &ATTEMPT_BUCKETS),
            age_seconds: seconds(r, "age", "Time from accepted to delivered", &AGE_BUCKETS),
            takeover_seconds: seconds(
                r,
                "takeover",
                "Time from an assignment to the first delivery that may start",
                &ATTEMPT_BUCKETS,
            ),
            prefix_seconds: seconds(
                r,
                "prefix",
                "Age of the oldest record that holds the commit, as looked at",
                &AGE_BUCKETS,
            ),
            in_flight: gauge(r, "in_flight", "Attempts running now"),
            held: gauge(r, "held", "Deliveries parked in the journal, waiting for their time or turn"),
            held_by_reason: family(
                r,
                "held_by_reason",
                "Parked deliveries, by what they wait for; those behind another one of their mailbox are behind_head; looked at every 10 s when there are many",
            ),
            held_mailboxes: family(
                r,
                "held_mailboxes",
                "Mailboxes with parked deliveries, by what the first of them waits for; looked at as held_by_reason",
            ),
            oldest_held_seconds: extreme(
                r,
                "oldest_held",
                Some(Unit::Seconds),
                "Longest time that a parked delivery that is first in its mailbox, or set aside, has been held: since its first attempt where a retry is in the journal, else since it was parked, but not from before this process took its partition over",
                Extreme::largest(),
            ),
            lane_blocked_seconds: extreme(
                r,
                "lane_blocked",
                Some(Unit::Seconds),
                "Longest time that a mailbox has been held up by its first delivery, parked or not; counted as for oldest_held, without deliveries set aside; 0 when none is held up",
                Extreme::largest(),
            ),
            journal_pinned_entries: gauge(
                r,
                "journal_pinned_entries",
                "Entries of the journals from the first one that is still needed to the end",
            ),
            journal_pinned_bytes: gauge(
                r,
                "journal_pinned_bytes",
                "About how many bytes those entries have, before compression: their number times the mean size of those that were read",
            ),
            isolated_partitions: gauge(
                r,
                "isolated_partitions",
                "Owned partitions that try one delivery at a time, since processes died while they owned them",
            ),
            window_records: gauge(r, "window_records", "Records in the windows of owned partitions"),
            window_bytes: gauge(r, "window_bytes", "Bytes in the windows of owned partitions"),
            window_fill: extreme(
                r,
                "window_fill",
                None,
                "How full the fullest window of an owned partition is, 0 to 1, by records, bytes or offsets, whichever is nearest to its limit; at 1 its partition is not read any further",
                Extreme::largest(),
            ),
            lease_margin_seconds: extreme(
                r,
                "lease_margin",
                Some(Unit::Seconds),
                "Time until no attempt may start unless a commit is accepted before; negative when that time has passed; no sample where no partition is owned or the log takes none away",
                Extreme::smallest(),
            ),
            unclean_takeovers: counter(
                r,
                "unclean_takeovers",
                "Partitions taken over from an owner that ended without its last word",
            ),
            duplicates_suspected: counter(
                r,
                "duplicates_suspected",
                "Deliveries that the owner before may have sent and whose end a takeover did not find, so that they may be sent once more; an upper bound for the window, see docs/mailboxes.md",
            ),
            quarantined: counter(r, "quarantined", "Records that could not be read and went to quarantine"),
            partitions: gauge(r, "partitions", "Partitions of the deliveries topic owned now"),
        }
    }
}

impl LimitsMetrics {
    fn register(r: &mut Registry) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// N19: names end in their unit, and a fresh process shows every plain metric.
    #[test]
    fn n19_catalogue_renders() {
        let metrics = Metrics::new();
        metrics.deliver.attempts.get_or_create(&OutcomeLabels { outcome: "delivered" }).inc();
        let queue = "source";
        metrics.mailbox.oldest_age_seconds.get_or_create(&QueueLabels { queue }).set(7);
        let labels = DepthLabels { queue, class: "strict".to_owned(), quantile: "0.99" };
        metrics.mailbox.depth.get_or_create(&labels).set(3);
        let text = metrics.render();
        for name in [
            "mailrail_ingest_events_accepted_total",
            "mailrail_ingest_append_seconds_bucket",
            "mailrail_match_events_total",
            "mailrail_deliver_attempts_total{outcome=\"delivered\"} 1",
            "mailrail_deliver_in_flight",
            "mailrail_deliver_duplicates_suspected_total 0",
            "mailrail_deliver_unclean_takeovers_total 0",
            "mailrail_deliver_lane_blocked_seconds 0.0",
            "mailrail_deliver_window_fill 0.0",
            "mailrail_mailbox_sizing_unavailable_total 0",
            "mailrail_mailbox_oldest_age_seconds{queue=\"source\"} 7",
            "mailrail_mailbox_depth{queue=\"source\",class=\"strict\",quantile=\"0.99\"} 3",
        ] {
            assert!(text.contains(name), "{name} is missing in\n{text}");
        }
    }
}
