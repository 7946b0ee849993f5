//! What must hold of a run, and what a person is told when it does not.

use super::scenario::{Expected, TO_MAX_SECONDS};
use super::world::{Run, Step};

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Up, down and up again.
    #[error(
        "{0} times up, down and up again within the scale-down window: lengthen stabilizationWindowSeconds"
    )]
    Flaps(usize),
    /// The autoscaler should have left everything alone.
    #[error("it scaled from {} to {} at {} s, and nothing called for it: raise lagThreshold", .0.from, .0.to, .0.at)]
    Moved(Step),
    /// Too slow.
    #[error("the most replicas were members {} after the burst began, and must be within {TO_MAX_SECONDS} s: let scaleUp take larger steps, or wait less", after(*.0))]
    SlowToMax(Option<u64>),
    /// Too many rebalances.
    #[error("partitions moved {found} times, at most {most} are allowed: let each step be larger")]
    Rebalances {
        /// So many.
        found: usize,
        /// And not more than these.
        most: u32,
    },
    /// It did not come back.
    #[error(
        "{0} replicas were left at the end, and not the fewest: let scaleDown take larger steps, or wait less"
    )]
    NotBack(u32),
}

fn after(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds} s"))
}

/// Times that replicas were added, taken away and added again, from the last of the first additions to the first of the next ones
/// within `window` seconds.
#[must_use]
pub fn flaps(steps: &[Step], window: u64) -> usize {
    let up = |step: &Step| step.to > step.from;
    let mut flaps = 0;
    let (mut last_up, mut down_since) = (None, false);
    for step in steps {
        match (up(step), last_up) {
            (false, _) => down_since = true,
            (true, Some(before)) if down_since && step.at - before <= window => {
                flaps += 1;
                (last_up, down_since) = (Some(step.at), false);
            }
            (true, _) => (last_up, down_since) = (Some(step.at), false),
        }
    }
    flaps
}

/// Seconds from the start of the burst until the most replicas were members; `None`: never, or before it.
#[must_use]
pub fn seconds_to_max(run: &Run, expected: &Expected) -> Option<u64> {
    run.at_most?.checked_sub(expected.burst_at?)
}

/// Times that partitions moved, as far as they are judged.
#[must_use]
pub fn rebalances(run: &Run, expected: &Expected) -> usize {
    run.rebalances.iter().filter(|at| **at >= expected.judged_from).count()
}

/// Everything that does not hold. `window` is that of the chart's scale-down, and `fewest` its fewest replicas.
#[must_use]
pub fn judge(run: &Run, expected: &Expected, window: u64, fewest: u32) -> Vec<Failure> {
    let mut failures = Vec::new();
    let (flaps, moved) = (flaps(&run.steps, window), rebalances(run, expected));
    if flaps > 0 {
        failures.push(Failure::Flaps(flaps));
    }
    if let Some(step) = run.steps.first().filter(|_| expected.still) {
        failures.push(Failure::Moved(*step));
    }
    let to_max = seconds_to_max(run, expected);
    if expected.burst_at.is_some() && to_max.is_none_or(|seconds| seconds > TO_MAX_SECONDS) {
        failures.push(Failure::SlowToMax(to_max));
    }
    if moved > expected.rebalances_max as usize && !expected.still {
        failures.push(Failure::Rebalances { found: moved, most: expected.rebalances_max });
    }
    if expected.fewest_at_end && run.last != fewest {
        failures.push(Failure::NotBack(run.last));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(of: &[(u64, u32, u32)]) -> Vec<Step> {
        of.iter().map(|(at, from, to)| Step { at: *at, from: *from, to: *to }).collect()
    }

    #[test]
    fn a_flap_is_up_down_and_up_again_within_the_window() {
        let one = steps(&[(100, 2, 4), (200, 4, 2), (300, 2, 4)]);
        assert_eq!((flaps(&one, 200), flaps(&one, 199)), (1, 0));
        assert_eq!(flaps(&steps(&[(100, 2, 4), (200, 4, 8), (300, 8, 2)]), 900), 0, "up and back is none");
        let twice = steps(&[(0, 2, 4), (10, 4, 2), (20, 2, 4), (30, 4, 3), (40, 3, 2), (50, 2, 8)]);
        assert_eq!(flaps(&twice, 30), 2);
        assert_eq!(flaps(&steps(&[(0, 8, 4), (10, 4, 8), (20, 8, 4)]), 900), 0);
    }

    #[test]
    fn each_check_can_fail() {
        let expected =
            Expected { burst_at: Some(60), fewest_at_end: true, rebalances_max: 2, ..Expected::default() };
        let good = Run {
            steps: steps(&[(100, 2, 8), (2_000, 8, 2)]),
            rebalances: vec![120, 2_000],
            at_most: Some(240),
            last: 2,
            lag_max: 9,
        };
        assert_eq!(judge(&good, &expected, 900, 2), []);
        let slow = Run { at_most: Some(241), ..good.clone() };
        assert_eq!(judge(&slow, &expected, 900, 2), [Failure::SlowToMax(Some(181))]);
        let never = Run { at_most: None, ..good.clone() };
        assert_eq!(judge(&never, &expected, 900, 2), [Failure::SlowToMax(None)]);
        let often = Run { rebalances: vec![1, 2, 3], ..good.clone() };
        assert_eq!(judge(&often, &expected, 900, 2), [Failure::Rebalances { found: 3, most: 2 }]);
        let later = Expected { judged_from: 2, ..expected };
        assert_eq!(judge(&often, &later, 900, 2), []);
        assert_eq!(judge(&Run { last: 4, ..good.clone() }, &expected, 900, 2), [Failure::NotBack(4)]);
        let still = Expected { still: true, ..Expected::default() };
        let moved = judge(&good, &still, 900, 2);
        assert_eq!(moved, [Failure::Moved(Step { at: 100, from: 2, to: 8 })]);
        assert!(moved[0].to_string().contains("from 2 to 8 at 100 s"));
        let flapping = Run { steps: steps(&[(100, 2, 4), (200, 4, 2), (300, 2, 4)]), ..good };
        assert_eq!(judge(&flapping, &expected, 900, 2), [Failure::Flaps(1)]);
    }
}
