//! Metrics of stage two.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::delivery::DeliveryMetrics;
use super::labels::ReasonLabels;
use super::register::{AGE_BUCKETS, ATTEMPT_BUCKETS, counter, extreme, family, gauge, seconds};
use crate::extreme::Extreme;

/// Metrics of stage two.
#[derive(Debug, Clone)]
pub struct DeliverMetrics {
    /// What is counted of deliveries.
    pub delivery: DeliveryMetrics,
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
    /// `mailrail_deliver_passed_over`
    pub passed_over: Gauge,
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

impl DeliverMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        let (takeover_seconds, prefix_seconds) = times(r);
        let Held {
            held,
            held_by_reason,
            held_mailboxes,
            oldest_held_seconds,
            lane_blocked_seconds,
            journal_pinned_entries,
            journal_pinned_bytes,
        } = Held::register(r);
        let Owned {
            passed_over,
            isolated_partitions,
            window_records,
            window_bytes,
            window_fill,
            lease_margin_seconds,
            partitions,
        } = Owned::register(r);
        Self {
            delivery: DeliveryMetrics::register(r),
            takeover_seconds,
            prefix_seconds,
            in_flight: gauge(r, "in_flight", "Attempts running now"),
            held,
            held_by_reason,
            held_mailboxes,
            oldest_held_seconds,
            lane_blocked_seconds,
            journal_pinned_entries,
            journal_pinned_bytes,
            passed_over,
            isolated_partitions,
            window_records,
            window_bytes,
            window_fill,
            lease_margin_seconds,
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
            partitions,
        }
    }
}

/// How long it takes until a partition may start, and how far its commit is behind.
fn times(r: &mut Registry) -> (Histogram, Histogram) {
    let takeover = "Time from an assignment to the first delivery that may start";
    let prefix = "Age of the oldest record that holds the commit, as looked at";
    (seconds(r, "takeover", takeover, &ATTEMPT_BUCKETS), seconds(r, "prefix", prefix, &AGE_BUCKETS))
}

/// What is parked, and what that holds.
struct Held {
    held: Gauge,
    held_by_reason: Family<ReasonLabels, Gauge>,
    held_mailboxes: Family<ReasonLabels, Gauge>,
    oldest_held_seconds: Extreme,
    lane_blocked_seconds: Extreme,
    journal_pinned_entries: Gauge,
    journal_pinned_bytes: Gauge,
}

impl Held {
    fn register(r: &mut Registry) -> Self {
        Self {
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
        }
    }
}

/// What partitions that are owned now use.
struct Owned {
    passed_over: Gauge,
    isolated_partitions: Gauge,
    window_records: Gauge,
    window_bytes: Gauge,
    window_fill: Extreme,
    lease_margin_seconds: Extreme,
    partitions: Gauge,
}

impl Owned {
    fn register(r: &mut Registry) -> Self {
        Self {
            passed_over: gauge(
                r,
                "passed_over",
                "Mailboxes with a delivery that could go, and deliveries set aside, that wait for their endpoint's share of the process",
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
            partitions: gauge(r, "partitions", "Partitions of the deliveries topic owned now"),
        }
    }
}
