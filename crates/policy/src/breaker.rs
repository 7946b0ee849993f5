//! A circuit breaker: an endpoint that is down is asked now and then, and not by everybody.

use std::time::Duration;

use mailrail_types::Timestamp;

/// When a breaker opens and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Failures in a row that open it. 0: it never opens.
    pub failures: u32,
    /// Permanent refusals in a row that open it, of an endpoint that was fine before: a load balancer that answers 404 in
    /// an outage must not empty a mailbox.
    pub refusals: u32,
    /// How long it is open at first; doubled with each probe that fails.
    pub open_min: Duration,
    /// Longest time between two probes.
    pub open_max: Duration,
}

impl Default for BreakerOptions {
    /// 10 failures or 20 refusals in a row; open for 5 s at first and 5 min at most.
    fn default() -> Self {
        Self {
            failures: 10,
            refusals: 20,
            open_min: Duration::from_secs(5),
            open_max: Duration::from_mins(5),
        }
    }
}

/// What a request said about its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It took it.
    Success,
    /// It could not: no answer, or a server's error.
    Failure,
    /// It refused it for good.
    Refusal,
    /// Nothing about whether it is up: it asked for less, or there was no request.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Closed,
    /// Nobody goes before this time; then one may, as a probe.
    Open { until: Timestamp },
    /// A probe is under way; another may go after this time, should nothing be heard of it.
    Probing { until: Timestamp },
}

/// The breaker of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breaker {
    state: State,
    failures: u32,
    refusals: u32,
    was_fine: bool,
    /// How often in a row it opened.
    opened: u32,
}

/// How long a probe may take before another one goes.
const PROBE_MAX: Duration = Duration::from_secs(60);
/// Doublings of the open time that are counted.
const DOUBLINGS_MAX: u32 = 16;

impl Breaker {
    /// Whether a request may go now.
    ///
    /// # Errors
    /// When to ask again.
    pub fn enter(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        match self.state {
            State::Closed => Ok(()),
            State::Open { until } | State::Probing { until } if now < until => Err(until),
            State::Open { .. } | State::Probing { .. } => {
                self.state = State::Probing { until: now.plus(PROBE_MAX) };
                Ok(())
            }
        }
    }

    /// Takes what a request said. `random` in `0.0..1.0` spreads the time to the next probe over ±20 %. `true`: it closed,
    /// and whoever waits may go.
    pub fn report(&mut self, signal: Signal, options: BreakerOptions, now: Timestamp, random: f64) -> bool {
        match signal {
            Signal::Success => {
                let closes = self.state != State::Closed;
                *self = Self { was_fine: true, ..Self::default() };
                return closes;
            }
            Signal::Nothing => {
                if matches!(self.state, State::Probing { .. }) {
                    self.state = State::Open { until: now };
                }
                return false;
            }
            Signal::Failure => self.failures = self.failures.saturating_add(1),
            Signal::Refusal => {
                // It answers, so it is up; but what it answers may be wrong.
                self.failures = 0;
                self.refusals = self.refusals.saturating_add(1);
            }
        }
        let probe_failed = matches!(self.state, State::Probing { .. });
        let too_many = options.failures > 0
            && (self.failures >= options.failures || (self.was_fine && self.refusals >= options.refusals));
        if probe_failed || (too_many && self.state == State::Closed) {
            let doubled = options.open_min.saturating_mul(1 << self.opened.min(DOUBLINGS_MAX));
            let open = doubled.min(options.open_max).mul_f64(0.8 + 0.4 * random.clamp(0.0, 1.0));
            self.opened = self.opened.saturating_add(1);
            self.state = State::Open { until: now.plus(open) };
        }
        false
    }

    /// Whether it is closed and knows nothing: then it can be forgotten.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.state == State::Closed && self.failures == 0 && self.refusals == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: BreakerOptions = BreakerOptions {
        failures: 3,
        refusals: 4,
        open_min: Duration::from_secs(10),
        open_max: Duration::from_secs(60),
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    fn fail(breaker: &mut Breaker, now: i64) {
        breaker.report(Signal::Failure, OPTIONS, at(now), 0.5);
    }

    /// N08: failures in a row open it; then one probe at a time goes, and its success closes it.
    #[test]
    fn n08_failures_in_a_row_open_it_and_one_probe_at_a_time_goes() {
        let mut breaker = Breaker::default();
        for now in 0..3 {
            assert_eq!(breaker.enter(at(now)), Ok(()));
            fail(&mut breaker, now);
        }
        assert_eq!(breaker.enter(at(3)), Err(at(12)), "open for 10 s");
        assert_eq!(breaker.enter(at(12)), Ok(()), "the probe");
        assert_eq!(breaker.enter(at(12)), Err(at(72)), "nobody beside it");
        fail(&mut breaker, 13);
        assert_eq!(breaker.enter(at(14)), Err(at(33)), "twice as long");
        assert_eq!(breaker.enter(at(33)), Ok(()));
        assert!(breaker.report(Signal::Success, OPTIONS, at(34), 0.5), "closed: who waits may go");
        assert_eq!(breaker.enter(at(34)), Ok(()));
        assert_eq!(breaker.enter(at(34)), Ok(()));
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let mut breaker = Breaker::default();
        for now in 0..30 {
            fail(&mut breaker, now);
            fail(&mut breaker, now);
            assert!(!breaker.report(Signal::Success, OPTIONS, at(now), 0.5));
        }
        assert_eq!(breaker.enter(at(30)), Ok(()));
    }

    #[test]
    fn a_run_of_refusals_opens_only_an_endpoint_that_was_fine() {
        let refuse = |breaker: &mut Breaker| {
            for _ in 0..10 {
                breaker.report(Signal::Refusal, OPTIONS, at(1), 0.5);
            }
        };
        let mut new = Breaker::default();
        refuse(&mut new);
        assert_eq!(new.enter(at(1)), Ok(()), "a wrong URL is a wrong URL");
        let mut fine = Breaker::default();
        fine.report(Signal::Success, OPTIONS, at(0), 0.5);
        refuse(&mut fine);
        assert!(fine.enter(at(1)).is_err());
    }

    #[test]
    fn the_time_between_probes_is_bounded_and_a_lost_probe_blocks_nobody_for_ever() {
        let mut breaker = Breaker::default();
        let mut now = 0;
        for _ in 0..40 {
            fail(&mut breaker, now);
            while let Err(again) = breaker.enter(at(now)) {
                assert!(again.since(at(now)) <= Duration::from_secs(72));
                now = again.secs() + 1;
            }
        }
        assert_eq!(breaker.enter(at(now + 61)), Ok(()), "nothing was heard of the probe");
    }

    #[test]
    fn zero_failures_switch_it_off() {
        let off = BreakerOptions { failures: 0, ..OPTIONS };
        let mut breaker = Breaker::default();
        for now in 0..50 {
            breaker.report(Signal::Failure, off, at(now), 0.5);
            assert_eq!(breaker.enter(at(now)), Ok(()));
        }
    }
}
