//! Every status and every error, and what bounds a retry.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const FAR: Timestamp = Timestamp(i64::MAX);

fn status(status: u16) -> AttemptResult {
    AttemptResult { status: Some(status), error: None, excerpt: Bytes::new() }
}

fn error(error: ErrorCode) -> AttemptResult {
    AttemptResult { status: None, error: Some(error), excerpt: Bytes::new() }
}

fn judge(result: &AttemptResult) -> Outcome {
    classify(result, None, 1, NOW, &RetrySchedule::sentry(), FAR, 0.5)
}

/// The wait in seconds with the schedule's first wait being 252 s exactly.
fn asked(retry_after: Duration, schedule: &RetrySchedule, random: f64) -> u64 {
    match classify(&status(503), Some(retry_after), 1, NOW, schedule, FAR, random) {
        Outcome::Retry { due, .. } => due.since(NOW).as_secs(),
        other => panic!("{other:?}"),
    }
}

/// S33: every status has its class.
#[test]
fn s33_every_status_has_its_class() {
    let retry = |reason| Outcome::Retry { due: NOW.plus(Duration::from_secs(252)), reason };
    for code in 0..=u16::MAX {
        let expected = match code {
            200..=299 => Outcome::Delivered,
            410 => Outcome::Dead(DeadReason::Gone),
            429 => retry(RetryReason::Throttled),
            408 | 409 | 425 => retry(RetryReason::ServerError),
            400..=499 => Outcome::Dead(DeadReason::Rejected),
            500..=599 => retry(RetryReason::ServerError),
            _ => retry(RetryReason::UnexpectedStatus),
        };
        assert_eq!(judge(&status(code)), expected, "{code}");
    }
}

/// S33: a new code has to be given its place here.
#[test]
fn s33_every_error_has_its_class() {
    let retry = Outcome::Retry { due: NOW.plus(Duration::from_secs(252)), reason: RetryReason::NoAnswer };
    let unsendable = Outcome::Dead(DeadReason::Unsendable);
    let table = [
        (ErrorCode::InvalidUrl, unsendable),
        (ErrorCode::BlockedDestination, retry),
        (ErrorCode::DnsFailure, retry),
        (ErrorCode::ConnectTimeout, retry),
        (ErrorCode::ConnectFailed, retry),
        (ErrorCode::TlsError, retry),
        (ErrorCode::Timeout, retry),
        (ErrorCode::ConnectionReset, retry),
        (ErrorCode::InvalidResponse, retry),
        (ErrorCode::InvalidRequest, unsendable),
    ];
    assert_eq!(table.map(|(code, _)| code), ErrorCode::ALL);
    for (code, expected) in table {
        assert_eq!(judge(&error(code)), expected, "{code:?}");
    }
    assert_eq!(judge(&AttemptResult::default()), retry);
}

/// Torture rows T31, T32, T35: a head is an answer, whatever becomes of the body.
#[test]
fn a_status_decides_even_when_the_body_broke_off() {
    for code in [ErrorCode::Timeout, ErrorCode::ConnectionReset, ErrorCode::InvalidResponse] {
        let both = |status| AttemptResult { status: Some(status), error: Some(code), excerpt: Bytes::new() };
        assert_eq!(judge(&both(200)), Outcome::Delivered);
        assert_eq!(judge(&both(404)), Outcome::Dead(DeadReason::Rejected));
    }
}

/// N09, S33, A44: `Retry-After` is honoured between the schedule and a day.
#[test]
fn n09_retry_after_is_clamped_between_the_schedule_and_a_day() {
    let plain = RetrySchedule::sentry();
    for (asked_secs, waited) in
        [(0, 252), (10, 252), (300, 300), (86_400, 86_400), (86_401, 86_400), (u64::MAX, 86_400)]
    {
        assert_eq!(asked(Duration::from_secs(asked_secs), &plain, 0.5), waited, "{asked_secs}");
    }
    let long = RetrySchedule::list(vec![Duration::from_hours(30)]).unwrap().with_jitter(Jitter::None);
    assert_eq!(asked(Duration::MAX, &long, 0.5), 30 * 3600, "the schedule's own wait is not cut");
}

/// A44: all were told the same second, and they do not come back in the same second.
#[test]
fn a44_a_common_retry_after_does_not_make_a_herd() {
    let schedule = RetrySchedule::list(vec![Duration::from_secs(1)]).unwrap();
    let waits = |secs| {
        let asked = |n: u32| asked(Duration::from_secs(secs), &schedule, f64::from(n) / 1000.0);
        (0..1000).map(asked).collect::<Vec<_>>()
    };
    let short = waits(10);
    assert!(short.iter().all(|wait| (10..=15).contains(wait)), "never earlier than asked");
    let long = waits(600);
    assert!(long.iter().all(|wait| (600..=660).contains(wait)));
    for (waits, seconds) in [(short, 5), (long, 60)] {
        let distinct: std::collections::HashSet<_> = waits.into_iter().collect();
        assert!(distinct.len() >= seconds, "{} distinct seconds", distinct.len());
    }
}

/// S31: what is exhausted, or older than its deadline, is dead with that reason, never anything else.
#[test]
fn the_last_attempt_exhausts_and_the_deadline_expires() {
    let schedule = RetrySchedule::sentry();
    let at = |attempt, deadline| classify(&status(500), None, attempt, NOW, &schedule, deadline, 0.5);
    assert!(matches!(at(9, FAR), Outcome::Retry { .. }));
    assert_eq!(at(10, FAR), Outcome::Dead(DeadReason::Exhausted));
    assert_eq!(at(u32::MAX, FAR), Outcome::Dead(DeadReason::Exhausted));
    let due = NOW.plus(Duration::from_secs(252));
    assert_eq!(at(1, due), Outcome::Retry { due, reason: RetryReason::ServerError });
    assert_eq!(at(1, Timestamp(due.0 - 1)), Outcome::Dead(DeadReason::Expired));
    assert_eq!(at(10, NOW), Outcome::Dead(DeadReason::Exhausted), "the reason that came first");
    let late = classify(&status(200), None, 1, NOW, &schedule, Timestamp::ZERO, 0.5);
    assert_eq!(late, Outcome::Delivered, "a delivery after its deadline is still a delivery");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_input_panics_and_no_retry_is_early_or_after_the_deadline(
        code in proptest::option::of(any::<u16>()),
        retry_after in proptest::option::of(any::<u64>()),
        attempt in any::<u32>(),
        now in any::<i64>(),
        deadline in any::<i64>(),
        random in any::<f64>(),
    ) {
        let result = AttemptResult { status: code, ..AttemptResult::default() };
        let schedule = RetrySchedule::default();
        let (now, deadline) = (Timestamp(now), Timestamp(deadline));
        let retry_after = retry_after.map(Duration::from_millis);
        let outcome = classify(&result, retry_after, attempt, now, &schedule, deadline, random);
        if let Outcome::Retry { due, .. } = outcome {
            let scheduled = schedule.delay(attempt, random).unwrap();
            prop_assert!(due <= deadline);
            prop_assert!(due >= now.plus(scheduled));
            prop_assert!(due <= now.plus(scheduled.max(RETRY_AFTER_MAX)));
        }
    }
}
