//! What the log says of deliveries, under one set of names. A healthy one says nothing at the default level.

use mailrail_telemetry::delivery_line;
use mailrail_types::{Attempt, Delivery, Outcome};

/// Says what came of an attempt, or of a turn that ended a delivery without one. The answer's body is never said: what is
/// kept of it is in the attempt's record. A delivery that is given up is told of when its dead letter is written.
pub(crate) fn tell(delivery: &Delivery, attempt: &Attempt) {
    let Attempt { number, duration_ms, result, outcome, .. } = attempt;
    let (status, error) = (result.status, result.error.map(|error| error.code()));
    match outcome {
        Outcome::Delivered => {
            delivery_line!(debug, delivery, outcome.code(), number, duration_ms, status, "delivered");
        }
        Outcome::Retry { due, reason } => delivery_line!(
            debug,
            delivery,
            outcome.code(),
            reason = reason.code(),
            number,
            duration_ms,
            status,
            error,
            due = due.0,
            "attempt failed; tried again later"
        ),
        Outcome::Dead(reason) => delivery_line!(
            info,
            delivery,
            outcome.code(),
            reason = reason.code(),
            number,
            duration_ms,
            status,
            error,
            "delivery given up"
        ),
        Outcome::Cancelled(reason) => delivery_line!(
            info,
            delivery,
            outcome.code(),
            reason = reason.code(),
            number,
            "delivery cancelled"
        ),
    }
}

/// Says that a delivery ends in quarantine, and why.
pub(crate) fn tell_quarantined(delivery: &Delivery, partition: u32, offset: u64, problem: &str) {
    delivery_line!(error, delivery, "quarantined", partition, offset, problem, "delivery goes to quarantine");
}
