//! How long to wait after each failed attempt.

use std::time::Duration;

use thiserror::Error;

/// Most attempts of a schedule: as many as the longest public schedule (EventBridge, 185) and some; more is a loop.
pub const ATTEMPTS_MAX: u32 = 200;

/// Longest wait before jitter: a delivery that waits longer than a week is forgotten, not retried.
pub const DELAY_MAX: Duration = Duration::from_hours(7 * 24);

/// Waits shorter than this spread over half of themselves, longer ones over ±20 %: a short wait is there to let a
/// crowd come back apart, a long one to keep its word about the time.
const LONG_FROM: Duration = Duration::from_mins(5);

/// How waits are spread, so that deliveries that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Exactly the schedule. Sentry's mailboxes do this; it makes herds.
    None,
    /// A wait `b` becomes `b/2 ..= b` when it is shorter than 5 minutes and `0.8 b ..= 1.2 b` otherwise. Never near
    /// zero, unlike full jitter (aws-sdk-net #4341).
    #[default]
    Spread,
}

/// Why a schedule is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No attempts, or more than [`ATTEMPTS_MAX`].
    #[error(
        "a retry schedule has 1 to {ATTEMPTS_MAX} attempts, the first one counted: change the number of attempts"
    )]
    Attempts,
    /// A wait above [`DELAY_MAX`].
    #[error("a wait between attempts is at most 7 days: shorten it")]
    Delay,
    /// An exponential schedule with a zero base.
    #[error("the base of an exponential schedule is its first wait: make it longer than zero")]
    Base,
    /// An exponential schedule that does not grow, or is not a number.
    #[error("the factor of an exponential schedule is a number from 1 to 100: change it")]
    Factor,
}

/// Waits between attempts, and how many attempts there are.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrySchedule {
    waits: Waits,
    attempts_max: u32,
    jitter: Jitter,
}

#[derive(Debug, Clone, PartialEq)]
enum Waits {
    List(Vec<Duration>),
    Exponential { base: Duration, factor: f64, cap: Duration },
}

impl Default for RetrySchedule {
    /// [`RetrySchedule::standard_webhooks`].
    fn default() -> Self {
        Self::standard_webhooks()
    }
}

impl RetrySchedule {
    /// The schedule of the Standard Webhooks specification: 10 attempts over 75 h 35 min 5 s, spread.
    #[must_use]
    pub fn standard_webhooks() -> Self {
        let hours = |h: u64| Duration::from_hours(h);
        let waits = vec![
            Duration::from_secs(5),
            Duration::from_mins(5),
            Duration::from_mins(30),
            hours(2),
            hours(5),
            hours(10),
            hours(14),
            hours(20),
            hours(24),
        ];
        Self { waits: Waits::List(waits), attempts_max: 10, jitter: Jitter::Spread }
    }

    /// The curve of Sentry's mailboxes: `min(3 min × 1.4ⁿ, 60 min)` after failure n, 10 attempts, no jitter.
    #[must_use]
    pub fn sentry() -> Self {
        // 3 min × 1.4, the wait after the first failure.
        let base = Duration::from_secs(252);
        let waits = Waits::Exponential { base, factor: 1.4, cap: Duration::from_mins(60) };
        Self { waits, attempts_max: 10, jitter: Jitter::None }
    }

    /// Waits as they are listed, one attempt more than waits.
    ///
    /// # Errors
    /// [`ScheduleError`] for too many waits or a wait that is too long.
    pub fn list(waits: Vec<Duration>) -> Result<Self, ScheduleError> {
        let attempts_max = u32::try_from(waits.len()).ok().and_then(|n| n.checked_add(1)).unwrap_or(u32::MAX);
        if attempts_max > ATTEMPTS_MAX {
            return Err(ScheduleError::Attempts);
        }
        if waits.iter().any(|wait| *wait > DELAY_MAX) {
            return Err(ScheduleError::Delay);
        }
        Ok(Self { waits: Waits::List(waits), attempts_max, jitter: Jitter::default() })
    }

    /// `min(base × factorⁿ⁻¹, cap)` after failure n: `base` is the first wait.
    ///
    /// # Errors
    /// [`ScheduleError`] for a number outside its range.
    pub fn exponential(
        base: Duration,
        factor: f64,
        cap: Duration,
        attempts_max: u32,
    ) -> Result<Self, ScheduleError> {
        if !(1..=ATTEMPTS_MAX).contains(&attempts_max) {
            return Err(ScheduleError::Attempts);
        }
        if cap > DELAY_MAX {
            return Err(ScheduleError::Delay);
        }
        if base.is_zero() {
            return Err(ScheduleError::Base);
        }
        if !(1.0..=100.0).contains(&factor) {
            return Err(ScheduleError::Factor);
        }
        let waits = Waits::Exponential { base, factor, cap };
        Ok(Self { waits, attempts_max, jitter: Jitter::default() })
    }

    /// The same schedule with another jitter.
    #[must_use]
    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// How many attempts there are, the first one counted.
    #[must_use]
    pub const fn attempts_max(&self) -> u32 {
        self.attempts_max
    }

    /// How waits are spread.
    #[must_use]
    pub const fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The wait after failure `failed_attempt` (from 1) without jitter, as if there was always another attempt.
    #[must_use]
    pub fn wait(&self, failed_attempt: u32) -> Duration {
        let steps = failed_attempt.max(1) - 1;
        match &self.waits {
            Waits::List(waits) => {
                let at = usize::try_from(steps).unwrap_or(usize::MAX);
                waits.get(at).or_else(|| waits.last()).copied().unwrap_or_default()
            }
            Waits::Exponential { base, factor, cap } => {
                let grown = base.as_secs_f64() * factor.powf(f64::from(steps));
                // `min` first: the power may be infinite, and a Duration may not.
                Duration::from_secs_f64(grown.min(cap.as_secs_f64()))
            }
        }
    }

    /// The wait after failure `failed_attempt` (from 1), spread by `unit_random` from `0.0..1.0`; `None` when that was
    /// the last attempt. A number outside the range, NaN too, counts as the nearest one in it.
    #[must_use]
    pub fn delay(&self, failed_attempt: u32, unit_random: f64) -> Option<Duration> {
        (failed_attempt < self.attempts_max).then(|| {
            let wait = self.wait(failed_attempt);
            match self.jitter {
                Jitter::None => wait,
                Jitter::Spread if wait < LONG_FROM => wait.mul_f64(0.5 + 0.5 * unit(unit_random)),
                Jitter::Spread => wait.mul_f64(0.8 + 0.4 * unit(unit_random)),
            }
        })
    }
}

/// `random` in `0.0..=1.0`; NaN is 0.
pub(crate) fn unit(random: f64) -> f64 {
    if random > 0.0 { random.min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests;
