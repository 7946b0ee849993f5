//! What an attempt meant for its delivery and its mailbox.

use mailrail_mailbox::Settlement;
use mailrail_telemetry::{DeliverMetrics, OutcomeLabels, ReasonLabels};
use mailrail_types::{Attempt, Outcome};

use crate::contents::Held;

/// Notes the attempt on the delivery and says how its mailbox goes on.
pub(crate) fn settle(held: &mut Held, attempt: Attempt, metrics: &DeliverMetrics) -> Settlement {
    let outcome = attempt.outcome;
    count(held, &attempt, metrics);
    held.note(attempt);
    match outcome {
        Outcome::Retry { due, .. } => Settlement::Retry { due, history: held.delivery.history.clone() },
        Outcome::Delivered | Outcome::Dead(_) | Outcome::Cancelled(_) => Settlement::Ended,
    }
}

fn count(held: &Held, attempt: &Attempt, metrics: &DeliverMetrics) {
    let outcome = OutcomeLabels { outcome: attempt.outcome.code() };
    if attempt.number > held.delivery.history.attempts {
        metrics.attempts.get_or_create(&outcome).inc();
    }
    if attempt.outcome.is_terminal() {
        metrics.settled.get_or_create(&outcome).inc();
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
