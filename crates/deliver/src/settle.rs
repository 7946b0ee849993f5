//! What an attempt meant for its delivery and its mailbox.

use mailrail_mailbox::Settlement;
use mailrail_telemetry::{DeliverMetrics, OutcomeLabels, ReasonLabels};
use mailrail_types::{Attempt, Outcome};

use crate::contents::Held;
use crate::tell::tell;

/// Notes the attempt on the delivery and says how its mailbox goes on. That a delivery is given up is not told here but by
/// [`tell_end`], once its letter is written.
pub(crate) fn settle(held: &mut Held, attempt: Attempt, metrics: &DeliverMetrics) -> Settlement {
    let outcome = attempt.outcome;
    count_attempt(held, &attempt, metrics);
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
        count_end(held, attempt, metrics);
        tell(&held.delivery, attempt);
    }
}

fn count_attempt(held: &Held, attempt: &Attempt, metrics: &DeliverMetrics) {
    if attempt.number > held.delivery.history.attempts {
        metrics.attempts.get_or_create(&OutcomeLabels { outcome: attempt.outcome.code() }).inc();
        // What was put back was accepted long ago: that time is no delay of ours.
        if attempt.number == 1 && held.delivery.history.redrives == 0 {
            let delay = attempt.started_at.since(held.delivery.event.accepted_at);
            metrics.first_attempt_delay_seconds.observe(delay.as_secs_f64());
        }
    }
}

fn count_end(held: &Held, attempt: &Attempt, metrics: &DeliverMetrics) {
    if attempt.outcome.is_terminal() {
        metrics.settled.get_or_create(&OutcomeLabels { outcome: attempt.outcome.code() }).inc();
        metrics.attempts_per_delivery.observe(f64::from(attempt.number));
    }
    match attempt.outcome {
        Outcome::Dead(reason) => {
            metrics.dead.get_or_create(&ReasonLabels { reason: reason.code() }).inc();
        }
        Outcome::Delivered => {
            let age = attempt.started_at.since(held.delivery.event.accepted_at).as_secs_f64();
            metrics.age_seconds.observe(age + f64::from(attempt.duration_ms) / 1000.0);
        }
        Outcome::Retry { .. } | Outcome::Cancelled(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mailrail_telemetry::Metrics;
    use mailrail_types::{
        AttemptResult, Attributes, DeadReason, Delivery, DeliveryId, EndpointId, Event, EventId, History,
        Mailbox, RetryReason, TenantId, Timestamp,
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

    /// A55: deliveries of a hundred thousand tenants, endpoints and event types show as many series as those of one.
    #[test]
    fn a55_a_hundred_thousand_tenants_make_no_new_series() {
        let metrics = Metrics::new();
        let series = || metrics.render().lines().filter(|line| !line.starts_with('#')).count();
        let mut of_one = 0;
        for n in 0..100_000 {
            let mut held = Held::new(delivery(n));
            for outcome in OUTCOMES {
                try_once(&mut held, outcome, &metrics);
            }
            if n == 0 {
                of_one = series();
            }
        }
        assert_eq!(series(), of_one);
        assert_eq!(
            metrics.deliver.settled.get_or_create(&OutcomeLabels { outcome: "delivered" }).get(),
            100_000
        );
    }

    #[test]
    fn n19_the_first_attempt_is_timed_and_a_letter_that_was_put_back_is_not() {
        let metrics = Metrics::new();
        let retry = OUTCOMES[2];
        let mut held = Held::new(delivery(1));
        try_once(&mut held, retry, &metrics);
        try_once(&mut held, Outcome::Delivered, &metrics);
        let mut again = delivery(2);
        again.history.redrives = 1;
        let mut again = Held::new(again);
        try_once(&mut again, Outcome::Delivered, &metrics);
        let text = metrics.render();
        for line in [
            "mailrail_deliver_first_attempt_delay_seconds_count 1",
            "mailrail_deliver_first_attempt_delay_seconds_sum 2.0",
            "mailrail_deliver_attempts_per_delivery_sum 3.0",
            "mailrail_deliver_age_seconds_count 2",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
