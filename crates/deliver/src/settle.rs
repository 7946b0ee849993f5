//! What an attempt meant for its delivery and its mailbox.

use mailrail_mailbox::Settlement;
use mailrail_telemetry::{DeliverMetrics, OutcomeLabels, ReasonLabels};
use mailrail_types::{Attempt, DeadLetter, Outcome};

use crate::decode::Held;

/// Notes the attempt on the delivery and says how its mailbox goes on. `set_aside`: its class tolerates reordering, so a
/// failed delivery does not hold the rest.
pub(crate) fn settle(
    held: &mut Held,
    attempt: Attempt,
    set_aside: bool,
    metrics: &DeliverMetrics,
) -> Settlement {
    let outcome = attempt.outcome;
    count(held, &attempt, metrics);
    let history = &mut held.delivery.history;
    if attempt.number > history.attempts {
        history.attempts = attempt.number;
        history.first_attempt_at.get_or_insert(attempt.started_at);
        history.last_attempt_at = Some(attempt.started_at);
        history.last_status = attempt.result.status;
    }
    held.attempts.push(attempt);
    if held.attempts.len() > DeadLetter::ATTEMPTS_MAX {
        held.attempts.remove(0);
    }
    match outcome {
        Outcome::Retry { due, .. } if set_aside => Settlement::SetAside(due),
        Outcome::Retry { due, .. } => Settlement::Retry(due),
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
            let age = attempt.started_at.since(held.delivery.event.accepted_at);
            metrics.age_seconds.observe(age.as_secs_f64());
        }
        Outcome::Retry { .. } | Outcome::Cancelled(_) => {}
    }
}
