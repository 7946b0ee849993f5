//! What the result of an attempt means.

use std::time::Duration;

use mailrail_types::{AttemptResult, DeadReason, ErrorCode, Outcome, RetryReason, Timestamp};

use crate::schedule::unit;
use crate::{Jitter, RetrySchedule};

/// Longest wait that an endpoint may ask for: one day, so that a broken clock at its side cannot park mail for ever.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// Least room in which deliveries spread that were all asked to come back after the same time.
const SPREAD_MIN: Duration = Duration::from_secs(5);

/// The class of a result, before the schedule has a say.
enum Class {
    Delivered,
    Dead(DeadReason),
    Retry(RetryReason),
}

/// What `result` means for its delivery.
///
/// A status decides as soon as there is one, even when the answer broke off after it: the endpoint has spoken, and
/// sending again would only make a duplicate.
///
/// | result | outcome |
/// |---|---|
/// | 2xx | delivered |
/// | 410 | dead: gone |
/// | 429 | retry: throttled |
/// | 408, 409, 425, 5xx | retry: server error |
/// | other 4xx | dead: rejected |
/// | any other status (1xx, 3xx, 600 and up) | retry: unexpected status; redirects are never followed |
/// | `invalid_url`, `invalid_request` | dead: unsendable; no later attempt can differ until the set-up is changed |
/// | any other error | retry: no answer |
///
/// `blocked_destination` is a retry: what a name resolves to, and what the operator allows, can be mended while the
/// delivery waits, and DNS tricks (rebinding) are often short. Nothing was sent, and the schedule bounds the tries.
///
/// A retry is due after the schedule's wait or after what the endpoint asked for, at most [`RETRY_AFTER_MAX`], whichever
/// is later. With jitter, what the endpoint asked for is stretched by up to a tenth of it or 5 s, whichever is more: it
/// is often the same for everyone, and they should not come back in the same second.
///
/// The last attempt of the schedule gives dead: exhausted. A retry that would be due after the deadline gives dead:
/// expired, at once: nobody would ever make that attempt, and the dead letter is of more use now than later.
///
/// `attempt` counts from 1; `now` is when the result was known; `deadline` is when the delivery expires; `unit_random`
/// is a random number in `0.0..1.0` for the jitter.
#[must_use]
pub fn classify(
    result: &AttemptResult,
    retry_after: Option<Duration>,
    attempt: u32,
    now: Timestamp,
    schedule: &RetrySchedule,
    deadline: Timestamp,
    unit_random: f64,
) -> Outcome {
    let reason = match class(result) {
        Class::Delivered => return Outcome::Delivered,
        Class::Dead(reason) => return Outcome::Dead(reason),
        Class::Retry(reason) => reason,
    };
    let Some(scheduled) = schedule.delay(attempt, unit_random) else {
        return Outcome::Dead(DeadReason::Exhausted);
    };
    let asked = retry_after.map_or(Duration::ZERO, |asked| stretched(asked, unit_random, schedule.jitter()));
    let due = now.plus(scheduled.max(asked));
    if due > deadline { Outcome::Dead(DeadReason::Expired) } else { Outcome::Retry { due, reason } }
}

/// What the endpoint asked for, bounded and spread.
fn stretched(asked: Duration, unit_random: f64, jitter: Jitter) -> Duration {
    let asked = asked.min(RETRY_AFTER_MAX);
    if jitter == Jitter::None || asked.is_zero() {
        return asked;
    }
    let room = (asked / 10).max(SPREAD_MIN);
    (asked + room.mul_f64(unit(unit_random))).min(RETRY_AFTER_MAX)
}

fn class(result: &AttemptResult) -> Class {
    match (result.status, result.error) {
        (Some(200..=299), _) => Class::Delivered,
        (Some(410), _) => Class::Dead(DeadReason::Gone),
        (Some(429), _) => Class::Retry(RetryReason::Throttled),
        (Some(408 | 409 | 425 | 500..=599), _) => Class::Retry(RetryReason::ServerError),
        (Some(400..=499), _) => Class::Dead(DeadReason::Rejected),
        (Some(_), _) => Class::Retry(RetryReason::UnexpectedStatus),
        (None, Some(ErrorCode::InvalidUrl | ErrorCode::InvalidRequest)) => {
            Class::Dead(DeadReason::Unsendable)
        }
        (None, _) => Class::Retry(RetryReason::NoAnswer),
    }
}

#[cfg(test)]
mod tests;
