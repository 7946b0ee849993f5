//! What is counted of deliveries, under labels that say what kind of delivery it was.
//!
//! **Always holds**: whatever tenants set up and producers send, there are at most [`DELIVERY_KINDS_MAX`] kinds and one more for the
//! rest: less than 3,000 series. Each kind keeps its series, so that counting a delivery hashes nothing.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use mailrail_types::Outcome;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{DeadLabels, DeliveryLabels, FirstAttemptLabels};
use super::register::{AGE_BUCKETS, ATTEMPT_BUCKETS, DELAY_BUCKETS, TRIES_BUCKETS, family};

/// Kinds with an event type of their own: the first combinations of region, event type and class that a process counts.
pub const DELIVERY_KINDS_NAMED_MAX: usize = 7;
/// Kinds in all but one. Those beyond [`DELIVERY_KINDS_NAMED_MAX`] are of the event type `other`, by region and class; what comes
/// when there is no room for these either is `other` in all three.
pub const DELIVERY_KINDS_MAX: usize = 9;
/// Longest event type that is named, in bytes: producers choose it, and every series repeats it. Longer ones are `other`.
const EVENT_TYPE_LABEL_MAX: usize = 64;
/// The label of what has none of its own.
const OTHER: &str = "other";

/// Codes of [`Outcome`].
const OUTCOMES: [&str; 5] = ["delivered", "retry", "dead", "expired", "cancelled"];

/// Makes histograms with these bounds.
#[derive(Debug, Clone, Copy)]
pub struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// What is counted of deliveries.
#[derive(Debug, Clone)]
pub struct DeliveryMetrics {
    /// `mailrail_deliver_attempts_total`
    pub attempts: Family<DeliveryLabels, Counter>,
    /// `mailrail_deliver_settled_total`
    pub settled: Family<DeliveryLabels, Counter>,
    /// `mailrail_deliver_dead_letters_total`
    pub dead: Family<DeadLabels, Counter>,
    /// `mailrail_deliver_attempt_seconds`
    pub attempt_seconds: Family<DeliveryLabels, Histogram, Buckets>,
    /// `mailrail_deliver_first_attempt_delay_seconds`
    pub first_attempt_delay_seconds: Family<FirstAttemptLabels, Histogram, Buckets>,
    /// `mailrail_deliver_age_seconds`
    pub age_seconds: Family<DeliveryLabels, Histogram, Buckets>,
    /// `mailrail_deliver_attempts_per_delivery`
    pub attempts_per_delivery: Family<DeliveryLabels, Histogram, Buckets>,
    kinds: Arc<RwLock<Vec<Arc<DeliveryKind>>>>,
}

/// One combination of region, event type and class, with the series that were used of it.
#[derive(Debug)]
pub struct DeliveryKind {
    region: Arc<str>,
    event_type: Arc<str>,
    class: Arc<str>,
    attempts: [OnceLock<(Counter, Histogram)>; OUTCOMES.len()],
    ends: [OnceLock<(Counter, Histogram)>; OUTCOMES.len()],
    /// By outcome, then by whether it was held.
    first_attempts: [[OnceLock<Histogram>; 2]; OUTCOMES.len()],
    age: OnceLock<Histogram>,
}

impl DeliveryKind {
    fn new([region, event_type, class]: Name<'_>) -> Self {
        Self {
            region: region.into(),
            event_type: event_type.into(),
            class: class.into(),
            attempts: Default::default(),
            ends: Default::default(),
            first_attempts: Default::default(),
            age: OnceLock::new(),
        }
    }

    fn is(&self, [region, event_type, class]: Name<'_>) -> bool {
        *self.event_type == *event_type && *self.class == *class && *self.region == *region
    }

    fn labels(&self, outcome: &'static str) -> DeliveryLabels {
        let (region, event_type, class) = (self.region.clone(), self.event_type.clone(), self.class.clone());
        DeliveryLabels { outcome, event_type, class, region }
    }
}

/// Region, event type, class.
type Name<'a> = [&'a str; 3];

fn place(outcome: Outcome) -> usize {
    let code = outcome.code();
    OUTCOMES.iter().position(|known| *known == code).unwrap_or_default()
}

impl DeliveryMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            attempts: family(r, "attempts", "Attempts, by outcome"),
            settled: family(r, "settled", "Deliveries that ended, by outcome"),
            dead: family(r, "dead_letters", "Deliveries given up, by reason"),
            attempt_seconds: seconds(r, "attempt", "Time of one attempt", &ATTEMPT_BUCKETS),
            first_attempt_delay_seconds: seconds(
                r,
                "first_attempt_delay",
                "Time from accepted to the start of the first attempt, without letters that were put back; held: it waited for its endpoint (paused, limited, down), or parked behind others of its mailbox",
                &DELAY_BUCKETS,
            ),
            age_seconds: seconds(
                r,
                "age",
                "Time from accepted to delivered, end to end; retries are in it, and letters that were put back, from when they were accepted",
                &AGE_BUCKETS,
            ),
            attempts_per_delivery: tries(r),
            kinds: Arc::default(),
        }
    }

    /// The kind of a delivery in this region, of this event type, whose mailbox is of this class; within the limits, so that what
    /// tenants name makes no unbounded number of series.
    #[must_use]
    pub fn kind(&self, region: &str, event_type: &str, class: &str) -> Arc<DeliveryKind> {
        let event_type = if event_type.len() > EVENT_TYPE_LABEL_MAX { OTHER } else { event_type };
        let names = [[region, event_type, class], [region, OTHER, class], [OTHER; 3]];
        let known = find(&self.kinds.read().unwrap_or_else(PoisonError::into_inner), names);
        known.unwrap_or_else(|_| {
            let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have made it meanwhile.
            find(&kinds, names).unwrap_or_else(|name| {
                let kind = Arc::new(DeliveryKind::new(name));
                // All outcomes at once: a series that begins with its first count hides that count from a rate, and one that
                // is missing hides everything from a ratio.
                for outcome in OUTCOMES {
                    let labels = kind.labels(outcome);
                    drop(self.attempts.get_or_create(&labels));
                    drop(self.settled.get_or_create(&labels));
                }
                kinds.push(kind.clone());
                kind
            })
        })
    }

    /// A request was made, took so long, and came to `outcome`.
    pub fn attempted(&self, kind: &DeliveryKind, outcome: Outcome, seconds: f64) {
        let (attempts, time) = kind.attempts[place(outcome)].get_or_init(|| {
            let labels = kind.labels(outcome.code());
            (self.attempts.get_or_create_owned(&labels), self.attempt_seconds.get_or_create_owned(&labels))
        });
        attempts.inc();
        time.observe(seconds);
    }

    /// The first attempt began so long after the event was accepted; `held`: something of the recipient's held it back.
    pub fn first_attempted(&self, kind: &DeliveryKind, outcome: Outcome, held: bool, seconds: f64) {
        let delay = kind.first_attempts[place(outcome)][usize::from(held)].get_or_init(|| {
            // Both are there as soon as one is: a ratio of them must not wait for the other.
            let [not_held, was_held] = ["false", "true"].map(|held| {
                let DeliveryLabels { outcome, event_type, class, region } = kind.labels(outcome.code());
                let labels = FirstAttemptLabels { held, outcome, event_type, class, region };
                self.first_attempt_delay_seconds.get_or_create_owned(&labels)
            });
            if held { was_held } else { not_held }
        });
        delay.observe(seconds);
    }

    /// A delivery ended after so many attempts.
    pub fn ended(&self, kind: &DeliveryKind, outcome: Outcome, attempts: u32) {
        let (settled, tries) = kind.ends[place(outcome)].get_or_init(|| {
            let labels = kind.labels(outcome.code());
            (
                self.settled.get_or_create_owned(&labels),
                self.attempts_per_delivery.get_or_create_owned(&labels),
            )
        });
        settled.inc();
        tries.observe(f64::from(attempts));
        if let Outcome::Dead(reason) = outcome {
            let DeliveryLabels { outcome, event_type, class, region } = kind.labels(outcome.code());
            let labels = DeadLabels { reason: reason.code(), outcome, event_type, class, region };
            self.dead.get_or_create(&labels).inc();
        }
    }

    /// A delivery was delivered so long after its event was accepted.
    pub fn delivered(&self, kind: &DeliveryKind, seconds: f64) {
        let age = kind
            .age
            .get_or_init(|| self.age_seconds.get_or_create_owned(&kind.labels(Outcome::Delivered.code())));
        age.observe(seconds);
    }
}

/// The first of these names that is there.
///
/// # Errors
/// The first one before it for which there is room.
fn find<'a>(kinds: &[Arc<DeliveryKind>], names: [Name<'a>; 3]) -> Result<Arc<DeliveryKind>, Name<'a>> {
    let room = [DELIVERY_KINDS_NAMED_MAX, DELIVERY_KINDS_MAX, DELIVERY_KINDS_MAX + 1];
    for (name, room) in names.into_iter().zip(room) {
        if let Some(kind) = kinds.iter().find(|kind| kind.is(name)) {
            return Ok(kind.clone());
        }
        if kinds.len() < room {
            return Err(name);
        }
    }
    // Full: the last one is there, or it is the first that was named like it.
    kinds.last().cloned().ok_or([OTHER; 3])
}

fn seconds<L>(
    r: &mut Registry,
    name: &str,
    help: &str,
    buckets: &'static [f64],
) -> Family<L, Histogram, Buckets>
where
    L: prometheus_client::encoding::EncodeLabelSet
        + Clone
        + std::hash::Hash
        + Eq
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let metric = Family::new_with_constructor(Buckets(buckets));
    r.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

fn tries(r: &mut Registry) -> Family<DeliveryLabels, Histogram, Buckets> {
    let metric = Family::new_with_constructor(Buckets(&TRIES_BUCKETS));
    let help = "Attempts of a delivery when it ended; 0 where none was made";
    r.register("attempts_per_delivery", help, metric.clone());
    metric
}

#[cfg(test)]
mod tests {
    use mailrail_types::{CancelReason, DeadReason, RetryReason, Timestamp};

    use super::*;
    use crate::Metrics;

    const OUTCOMES: [Outcome; 5] = [
        Outcome::Delivered,
        Outcome::Retry { due: Timestamp::ZERO, reason: RetryReason::ServerError },
        Outcome::Dead(DeadReason::Rejected),
        Outcome::Dead(DeadReason::Expired),
        Outcome::Cancelled(CancelReason::SubscriptionDeleted),
    ];

    /// Everything that can be counted of a delivery.
    fn count_all(metrics: &DeliveryMetrics, [region, event_type, class]: Name<'_>) {
        for outcome in OUTCOMES {
            let kind = metrics.kind(region, event_type, class);
            metrics.attempted(&kind, outcome, 0.1);
            for held in [false, true] {
                metrics.first_attempted(&kind, outcome, held, 0.1);
            }
            metrics.ended(&kind, outcome, 1);
            metrics.delivered(&kind, 0.1);
        }
    }

    /// A55: every counter and histogram of deliveries has region, event type, class and outcome.
    #[test]
    fn a55_everything_of_deliveries_has_the_four_labels() {
        let metrics = Metrics::new();
        count_all(&metrics.deliver.delivery, ["eu", "push", "strict"]);
        let page = metrics.render();
        for name in [
            "attempts_total",
            "settled_total",
            "dead_letters_total",
            "attempt_seconds_count",
            "first_attempt_delay_seconds_count",
            "age_seconds_count",
            "attempts_per_delivery_count",
        ] {
            let of = |line: &&str| line.starts_with(&format!("mailrail_deliver_{name}{{"));
            let lines: Vec<&str> = page.lines().filter(of).collect();
            assert!(!lines.is_empty(), "{name}: {page}");
            for label in ["outcome=\"", "event_type=\"push\"", "class=\"strict\"", "region=\"eu\""] {
                assert!(lines.iter().all(|line| line.contains(label)), "{label}: {lines:?}");
            }
        }
    }

    /// A55: however many event types, classes and regions there are, there are few series, and nothing is counted nowhere.
    #[test]
    fn a55_kinds_are_bounded_and_the_rest_is_counted_together() {
        const NAMES: usize = 1_000;
        let metrics = Metrics::new();
        for n in 0..NAMES {
            let (event_type, class) = (format!("type.{n}"), format!("class-{}", n / 3));
            count_all(&metrics.deliver.delivery, ["eu", &event_type, &class]);
            count_all(&metrics.deliver.delivery, ["eu", "type.0", "class-0"]);
        }
        let page = metrics.render();
        let series = page.lines().filter(|line| line.starts_with("mailrail_deliver_")).count();
        assert!(series <= 3_000, "{series} of one process, whatever happens");
        let all: u64 = metrics
            .deliver
            .delivery
            .kinds
            .read()
            .expect("lock")
            .iter()
            .map(|kind| metrics.deliver.delivery.settled.get_or_create(&kind.labels("delivered")).get())
            .sum();
        assert_eq!(all, 2 * NAMES as u64);
        let kinds = metrics.deliver.delivery.kinds.read().expect("lock");
        assert_eq!(kinds.len(), DELIVERY_KINDS_MAX + 1);
        let named = kinds.iter().filter(|kind| &*kind.event_type != OTHER).count();
        assert_eq!(named, DELIVERY_KINDS_NAMED_MAX);
        assert!(
            page.contains("event_type=\"other\",class=\"class-2\",region=\"eu\""),
            "by class as long as there is room"
        );
        assert!(page.contains("event_type=\"other\",class=\"other\",region=\"other\""));
    }
}
