//! What a cell's answer means for a forwarded webhook, and how long it is tried.

use std::time::Duration;

use mailrail_policy::{RetrySchedule, classify};
use mailrail_types::{AttemptResult, DeadReason, Outcome, Timestamp};

/// Age at which a forwarded webhook is given up, counted from its acceptance.
pub const FORWARD_LIFETIME: Duration = Duration::from_hours(3 * 24);

/// Attempts after which it is given up: those of [`forward_schedule`].
pub const FORWARD_ATTEMPTS_MAX: u32 = 10;

/// Answers that no later attempt can change. Every other one that is not 2xx is tried again, also 410: cells are ours, and
/// one that does not know a path today is often a deployment that is not finished.
pub const FORWARD_DEAD_STATUSES: [u16; 5] = [400, 401, 403, 404, 409];

/// The waits between attempts: the curve of Sentry's mailboxes.
#[must_use]
pub fn forward_schedule() -> RetrySchedule {
    RetrySchedule::sentry()
}

/// What `result` means for a forwarded webhook. As [`classify`] with [`forward_schedule`], but for answers of 4xx: those in
/// [`FORWARD_DEAD_STATUSES`] are dead, the others are tried again. Dead is a dead letter, never a deleted one.
#[must_use]
pub fn classify_forwarded(
    result: &AttemptResult,
    retry_after: Option<Duration>,
    attempt: u32,
    now: Timestamp,
    deadline: Timestamp,
    unit_random: f64,
) -> Outcome {
    let as_policy_sees_it = match result.status {
        Some(status) if FORWARD_DEAD_STATUSES.contains(&status) => {
            return Outcome::Dead(DeadReason::Rejected);
        }
        // To the schedule it is a cell that cannot now; 429 has a reason of its own.
        Some(400..=428 | 430..=499) => &AttemptResult { status: Some(503), ..AttemptResult::default() },
        _ => result,
    };
    classify(as_policy_sees_it, retry_after, attempt, now, &forward_schedule(), deadline, unit_random)
}

#[cfg(test)]
mod tests {
    use mailrail_types::{ErrorCode, RetryReason};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn status(status: u16, attempt: u32) -> Outcome {
        let result = AttemptResult { status: Some(status), ..AttemptResult::default() };
        classify_forwarded(&result, None, attempt, NOW, NOW.plus(FORWARD_LIFETIME), 0.5)
    }

    #[test]
    fn a_table_of_answers() {
        for ok in [200, 202, 204] {
            assert_eq!(status(ok, 1), Outcome::Delivered, "{ok}");
        }
        for dead in [400, 401, 403, 404, 409] {
            assert_eq!(status(dead, 1), Outcome::Dead(DeadReason::Rejected), "{dead}");
        }
        for (again, reason) in [
            (402, RetryReason::ServerError),
            (405, RetryReason::ServerError),
            (408, RetryReason::ServerError),
            (410, RetryReason::ServerError),
            (422, RetryReason::ServerError),
            (429, RetryReason::Throttled),
            (451, RetryReason::ServerError),
            (500, RetryReason::ServerError),
            (503, RetryReason::ServerError),
            (302, RetryReason::UnexpectedStatus),
        ] {
            let due = NOW.plus(Duration::from_secs(252));
            assert_eq!(status(again, 1), Outcome::Retry { due, reason }, "{again}");
        }
        let error = |code| AttemptResult { error: Some(code), ..AttemptResult::default() };
        let of = |result| classify_forwarded(&result, None, 1, NOW, NOW.plus(FORWARD_LIFETIME), 0.5);
        assert!(matches!(
            of(error(ErrorCode::TlsError)),
            Outcome::Retry { reason: RetryReason::NoAnswer, .. }
        ));
        assert_eq!(of(error(ErrorCode::InvalidUrl)), Outcome::Dead(DeadReason::Unsendable));
    }

    /// The waits of the original's table, in seconds, and that they end in a dead letter.
    #[test]
    fn the_curve_is_sentrys_and_ends() {
        let schedule = forward_schedule();
        assert_eq!(schedule.attempts_max(), FORWARD_ATTEMPTS_MAX);
        let waits: Vec<u64> = (1..10).map(|n| schedule.wait(n).as_secs()).collect();
        assert_eq!(waits, [252, 352, 493, 691, 968, 1355, 1897, 2656, 3600]);
        assert!(matches!(status(500, 9), Outcome::Retry { .. }));
        assert_eq!(status(500, 10), Outcome::Dead(DeadReason::Exhausted));
        assert_eq!(status(410, 10), Outcome::Dead(DeadReason::Exhausted));
    }

    #[test]
    fn age_ends_it_too_and_retry_after_is_heard() {
        let result = AttemptResult { status: Some(429), ..AttemptResult::default() };
        let hour = Some(Duration::from_hours(1));
        let of = |deadline| classify_forwarded(&result, hour, 1, NOW, deadline, 0.5);
        assert_eq!(
            of(NOW.plus(FORWARD_LIFETIME)),
            Outcome::Retry { due: NOW.plus(Duration::from_hours(1)), reason: RetryReason::Throttled }
        );
        assert_eq!(of(NOW.plus(Duration::from_mins(30))), Outcome::Dead(DeadReason::Expired));
    }
}
