//! What an attempt meant for its delivery and its mailbox.

use std::sync::Arc;

use mailrail_mailbox::Settlement;
use mailrail_telemetry::{DeliverMetrics, DeliveryKind, DeliveryMetrics};
use mailrail_types::{Attempt, Outcome};

use crate::contents::Held;
use crate::tell::tell;

/// Notes the attempt on the delivery and says how its mailbox goes on. That a delivery is given up is not told here but by
/// [`tell_end`], once its letter is written.
pub(crate) fn settle(held: &mut Held, attempt: Attempt, metrics: &DeliverMetrics) -> Settlement {
    let outcome = attempt.outcome;
    count_attempt(held, &attempt, &metrics.delivery);
    held.note(attempt);
    if !matches!(outcome, Outcome::Dead(_)) {
        tell_end(held, metrics);
    }
    match outcome {
        Outcome::Retry { due, .. } => Settlement::Retry { due, history: held.delivery.history.clone() },
        Outcome::Delivered | Outcome::Dead(_) | Outcome::Cancelled(_) => Settlement::Ended,
    }
}

/// Counts and says what the last attempt came to. For a delivery that is given up this is called when its letter is in the
/// log: nobody shall look for a letter that is not there.
pub(crate) fn tell_end(held: &Held, metrics: &DeliverMetrics) {
    if let Some(attempt) = held.attempts.last() {
        count_end(held, attempt, &metrics.delivery);
        tell(&held.delivery, attempt);
    }
}

/// Whose mailbox is of no class any more.
const NO_CLASS: &str = "unknown";

/// Under which labels it is counted.
fn kind(held: &Held, metrics: &DeliveryMetrics) -> Arc<DeliveryKind> {
    let class = held.class.as_ref().map_or(NO_CLASS, |class| class.id.as_str());
    metrics.kind(&held.delivery.mailbox.region, &held.delivery.event.attributes.event_type, class)
}

fn count_attempt(held: &Held, attempt: &Attempt, metrics: &DeliveryMetrics) {
    if attempt.number > held.delivery.history.attempts {
        let kind = kind(held, metrics);
        metrics.attempted(&kind, attempt.outcome, f64::from(attempt.duration_ms) / 1000.0);
        // What was put back was accepted long ago: that time is no delay of ours.
        if attempt.number == 1 && held.delivery.history.redrives == 0 {
            let delay = attempt.started_at.since(held.delivery.event.accepted_at);
            let was_held = held.waited_for_recipient;
            metrics.first_attempted(&kind, attempt.outcome, was_held, delay.as_secs_f64());
        }
    }
}

fn count_end(held: &Held, attempt: &Attempt, metrics: &DeliveryMetrics) {
    if !attempt.outcome.is_terminal() {
        return;
    }
    let kind = kind(held, metrics);
    metrics.ended(&kind, attempt.outcome, attempt.number);
    if attempt.outcome == Outcome::Delivered {
        let age = attempt.started_at.since(held.delivery.event.accepted_at).as_secs_f64();
        metrics.delivered(&kind, age + f64::from(attempt.duration_ms) / 1000.0);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;
    use mailrail_telemetry::Metrics;
    use mailrail_types::{
        AttemptResult, Attributes, DeadReason, Delivery, DeliveryId, EndpointId, Event, EventId, History,
        HoldReason, Mailbox, RetryReason, TenantId, Timestamp,
    };

    use super::*;
    use crate::attempt::without_request;

    fn id<T: std::str::FromStr>(kind: &str, n: u32) -> T {
        let Ok(id) = format!("{kind}{n}").parse() else { panic!("an id") };
        id
    }

    fn delivery(n: u32) -> Delivery {
        let (tenant, subscription) = (id::<TenantId>("t", n), id("s", n));
        let endpoint: EndpointId = id("e", n);
        let attributes = Attributes {
            id: n.to_string(),
            source: format!("/{n}"),
            event_type: format!("type.{n}"),
            ..Attributes::default()
        };
        let event = Event {
            id: EventId::derive(&tenant, "/s", &n.to_string()),
            tenant: tenant.clone(),
            attributes,
            ordering_key: None,
            body: Bytes::new(),
            trace: None,
            accepted_at: Timestamp(1_000),
            setup_seq: 0,
            forwarded: None,
            unknown: Bytes::new(),
        };
        Delivery {
            id: DeliveryId::derive(&event.id, &tenant, &subscription),
            event,
            app: "app".parse().expect("an id"),
            subscription,
            endpoint: endpoint.clone(),
            mailbox: Mailbox {
                pipeline: "default".into(),
                region: "".into(),
                tenant,
                endpoint,
                event_type: None,
                bucket: 0,
            },
            setup_seq: 0,
            matched_at: Timestamp(1_000),
            deadline: Timestamp(i64::MAX),
            history: History::default(),
            unknown: Bytes::new(),
        }
    }

    fn tried(delivery: &Delivery, outcome: Outcome) -> Attempt {
        let attempt = without_request(delivery, Timestamp(3_000), outcome, AttemptResult::default());
        Attempt { number: delivery.history.attempts + 1, ..attempt }
    }

    fn try_once(held: &mut Held, outcome: Outcome, metrics: &Metrics) {
        let attempt = tried(&held.delivery, outcome);
        settle(held, attempt, &metrics.deliver);
        if let Outcome::Dead(_) = outcome {
            tell_end(held, &metrics.deliver);
        }
    }

    const OUTCOMES: [Outcome; 3] = [
        Outcome::Delivered,
        Outcome::Dead(DeadReason::Rejected),
        Outcome::Retry { due: Timestamp(9_000), reason: RetryReason::ServerError },
    ];

    /// A55: deliveries of a hundred thousand tenants, endpoints and event types show no more series than a process may have, and
    /// those of one event type as many as that of one tenant.
    #[test]
    fn a55_a_hundred_thousand_tenants_make_no_new_series() {
        for same_type in [true, false] {
            let metrics = Metrics::new();
            let series = || metrics.render().lines().filter(|line| !line.starts_with('#')).count();
            let mut of_few = 0;
            for n in 0..100_000 {
                let mut delivery = delivery(n);
                if same_type {
                    delivery.event.attributes.event_type = "push".to_owned();
                }
                let mut held = Held::new(delivery);
                for outcome in OUTCOMES {
                    try_once(&mut held, outcome, &metrics);
                }
                if n == if same_type { 0 } else { 100 } {
                    of_few = series();
                }
            }
            assert_eq!(series(), of_few);
            assert!(of_few < 3_000, "{of_few}");
            let page = metrics.render();
            assert_eq!(sum(&page, "mailrail_deliver_settled_total{outcome=\"delivered\","), 100_000.0);
        }
    }

    /// The sum of all samples that begin so.
    pub(crate) fn sum(page: &str, series: &str) -> f64 {
        let of = page.lines().filter(|line| line.starts_with(series));
        of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    #[test]
    fn n19_the_first_attempt_is_timed_and_a_letter_that_was_put_back_is_not() {
        let metrics = Metrics::new();
        let retry = OUTCOMES[2];
        let mut held = Held::new(delivery(1));
        try_once(&mut held, retry, &metrics);
        try_once(&mut held, Outcome::Delivered, &metrics);
        // What its recipient held back is told apart; what the rail itself was not ready for is not.
        let reasons = [HoldReason::Paused, HoldReason::BehindHead, HoldReason::Setup, HoldReason::Overflow];
        for (n, reason) in (3..).zip(reasons) {
            let mut late = Held::new(delivery(n));
            late.hold_back(reason);
            try_once(&mut late, Outcome::Delivered, &metrics);
        }
        let mut again = delivery(2);
        again.history.redrives = 1;
        let mut again = Held::new(again);
        try_once(&mut again, Outcome::Delivered, &metrics);
        let page = metrics.render();
        for (series, expected) in [
            ("first_attempt_delay_seconds_count{held=\"false\"", 3.0),
            ("first_attempt_delay_seconds_sum{held=\"false\"", 6.0),
            ("first_attempt_delay_seconds_count{held=\"true\"", 2.0),
            ("first_attempt_delay_seconds_sum{held=\"true\"", 4.0),
            ("attempts_per_delivery_sum", 7.0),
            ("age_seconds_count", 6.0),
        ] {
            assert_eq!(sum(&page, &format!("mailrail_deliver_{series}")), expected, "{series} in\n{page}");
        }
    }
}
