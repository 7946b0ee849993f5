//! Tables, bounds and spread of the schedules.

use proptest::prelude::*;

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// S31: the published curve, in seconds after failures 1 to 10, to the second.
#[test]
fn the_sentry_curve_is_met_to_the_second() {
    let schedule = RetrySchedule::sentry();
    let minutes = [4.2, 5.88, 8.232, 11.5248, 16.134_72, 22.588_608, 31.624_051, 44.273_672, 60.0, 60.0];
    let mut total = 0.0;
    for (failed, expected) in (1u32..).zip(minutes) {
        let wait = schedule.wait(failed).as_secs_f64();
        assert!((wait - expected * 60.0).abs() < 0.5, "after failure {failed}: {wait} s");
        total += wait / 60.0;
        let drawn = schedule.delay(failed, 0.77);
        assert_eq!(drawn, (failed < 10).then(|| schedule.wait(failed)), "no jitter, no 11th attempt");
    }
    assert!((total - 264.46).abs() < 0.01, "since the first failure: {total} min");
}

/// A44: a few attempts, further and further apart: ten over 75 hours by default.
#[test]
fn a44_the_default_is_ten_attempts_over_75_hours() {
    let schedule = RetrySchedule::default();
    assert_eq!(schedule.attempts_max(), 10);
    let plain = schedule.clone().with_jitter(Jitter::None);
    let total: Duration = (1..).map_while(|failed| plain.delay(failed, 0.0)).sum();
    assert_eq!(total, secs(75 * 3600 + 35 * 60 + 5));
    let sum = |random: f64| (1..).map_while(|failed| schedule.delay(failed, random)).sum::<Duration>();
    assert!(sum(0.0) >= Duration::from_hours(60) && sum(1.0) <= Duration::from_hours(91));
    assert_eq!(schedule.delay(10, 0.5), None);
    assert_eq!(schedule.delay(u32::MAX, 0.5), None);
    assert_eq!(schedule.delay(1, 0.0), Some(secs(5).mul_f64(0.5)));
    assert_eq!(schedule.delay(0, 0.0), schedule.delay(1, 0.0), "attempts count from 1; 0 does no harm");
}

/// A44: 10,000 draws per attempt: inside the bounds, and every twentieth of the range gets its share.
#[test]
fn a44_waits_stay_in_their_bounds_and_spread() {
    let schedule = RetrySchedule::default();
    for failed in 1..10 {
        let wait = schedule.wait(failed);
        let (low, high) = if wait < LONG_FROM { (0.5, 1.0) } else { (0.8, 1.2) };
        let (low, high) = (wait.mul_f64(low), wait.mul_f64(high));
        let mut buckets = [0u32; 20];
        for draw in 0..10_000u32 {
            // The golden ratio's multiples are spread evenly and are the same in every run.
            let random = (f64::from(draw) * 0.618_033_988_749_895).fract();
            let delay = schedule.delay(failed, random).unwrap();
            assert!(low <= delay && delay <= high, "after failure {failed}: {delay:?}");
            let place = (delay - low).as_secs_f64() / (high - low).as_secs_f64();
            let bucket = (0..19).find(|b| place < f64::from(b + 1) / 20.0).unwrap_or(19);
            buckets[usize::try_from(bucket).unwrap()] += 1;
        }
        assert!(buckets.iter().all(|&n| (450..=550).contains(&n)), "after failure {failed}: {buckets:?}");
    }
}

#[test]
fn an_exponential_schedule_grows_to_its_cap() {
    let schedule = RetrySchedule::exponential(secs(1), 2.0, secs(10), 8).unwrap().with_jitter(Jitter::None);
    let waits: Vec<_> = (1..).map_while(|failed| schedule.delay(failed, 0.9)).map(|d| d.as_secs()).collect();
    assert_eq!(waits, [1, 2, 4, 8, 10, 10, 10]);
    assert_eq!(schedule.wait(u32::MAX), secs(10));
}

#[test]
fn a_list_is_taken_as_it_is() {
    let schedule = RetrySchedule::list(vec![secs(20); 3]).unwrap().with_jitter(Jitter::None);
    assert_eq!(schedule.attempts_max(), 4);
    assert_eq!(
        (1..=4).map(|n| schedule.delay(n, 0.0)).collect::<Vec<_>>(),
        [Some(secs(20)), Some(secs(20)), Some(secs(20)), None]
    );
    let once = RetrySchedule::list(vec![]).unwrap();
    assert_eq!((once.attempts_max(), once.delay(1, 0.5), once.wait(1)), (1, None, Duration::ZERO));
}

#[test]
fn schedules_out_of_range_are_refused() {
    let (hour, week) = (Duration::from_hours(1), DELAY_MAX);
    let exponential =
        |base, factor, cap, attempts| RetrySchedule::exponential(base, factor, cap, attempts).err();
    assert_eq!(exponential(hour, 2.0, week, 200), None);
    assert_eq!(exponential(hour, 2.0, hour, 0), Some(ScheduleError::Attempts));
    assert_eq!(exponential(hour, 2.0, hour, 201), Some(ScheduleError::Attempts));
    assert_eq!(exponential(Duration::ZERO, 2.0, hour, 5), Some(ScheduleError::Base));
    assert_eq!(exponential(hour, 2.0, week + secs(1), 5), Some(ScheduleError::Delay));
    for factor in [0.0, 0.99, -2.0, 100.1, f64::NAN, f64::INFINITY] {
        assert_eq!(exponential(hour, factor, hour, 5), Some(ScheduleError::Factor), "{factor}");
    }
    assert_eq!(RetrySchedule::list(vec![hour; 200]).err(), Some(ScheduleError::Attempts));
    assert_eq!(RetrySchedule::list(vec![week + secs(1)]).err(), Some(ScheduleError::Delay));
    assert!(ScheduleError::Attempts.to_string().contains("200"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_input_leaves_the_bounds(
        base_ms in 1u64..1_000_000,
        factor in 1.0f64..100.0,
        cap_ms in 0u64..604_800_000,
        attempts in 1u32..=200,
        failed in any::<u32>(),
        random in any::<f64>(),
    ) {
        let cap = Duration::from_millis(cap_ms);
        let schedule = RetrySchedule::exponential(Duration::from_millis(base_ms), factor, cap, attempts).unwrap();
        let delay = schedule.delay(failed, random);
        prop_assert_eq!(delay.is_none(), failed >= attempts);
        let wait = schedule.wait(failed);
        prop_assert!(wait <= cap);
        prop_assert!(schedule.wait(failed.saturating_add(1)) >= wait);
        if let Some(delay) = delay {
            prop_assert!(delay >= wait.mul_f64(0.5) && delay <= wait.mul_f64(1.2));
        }
    }
}
