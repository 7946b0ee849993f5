//! What a survey shows, and whether it shows what it must.

use serde::Serialize;
use thiserror::Error as ThisError;

use super::{Changes, Rule, Sample, Survey};

/// Most width changes of a steady sender in a day under our rule: it may start beside a threshold and settle (S12).
pub const CHANGES_MAX: u32 = 2;
/// Least share of steady senders that flap under the plain rule: with fewer the simulation would not show the problem.
pub const FLAPPING_MIN: f64 = 0.25;
/// Changes in three hours from which a sender flaps.
const FLAPS_FROM: f64 = 4.0;

/// The figures of a survey; its form as JSON is what `make sim-mailboxes` ends with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Senders.
    pub rates: u32,
    /// Virtual hours of each.
    pub hours: u32,
    /// Most width changes of a steady sender under our rule.
    pub max_changes: u32,
    /// Share of steady senders whose width changes more than 4 times in 3 hours under the plain rule.
    pub plain_rule_flapping: f64,
}

/// A survey that does not show what it must.
#[derive(Debug, Clone, Copy, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Our rule flaps.
    #[error("a steady sender changed its width {0} times, {CHANGES_MAX} are allowed: see `next_width`")]
    Flapping(u32),
    /// The plain rule does not.
    #[error(
        "the plain rule flaps for a share of {0} of the rates, more than {FLAPPING_MIN} is expected: the simulation no longer \
         reaches its thresholds"
    )]
    NotShown(f64),
}

impl Summary {
    /// The figures of these samples.
    #[must_use]
    pub fn of(survey: &Survey, samples: &[Sample]) -> Self {
        let flapping = flapping(samples.iter().map(|sample| sample.steady), Rule::Plain, survey.hours);
        Self {
            rates: survey.rates,
            hours: survey.hours,
            max_changes: samples.iter().map(|s| s.steady[Rule::Ours as usize]).max().unwrap_or(0),
            plain_rule_flapping: (flapping * 1000.0).round() / 1000.0,
        }
    }

    /// Whether our rule holds and the plain one fails.
    ///
    /// # Errors
    /// Says which of the two is not so.
    pub fn check(&self) -> Result<(), Error> {
        if self.max_changes > CHANGES_MAX {
            return Err(Error::Flapping(self.max_changes));
        }
        if self.plain_rule_flapping <= FLAPPING_MIN {
            return Err(Error::NotShown(self.plain_rule_flapping));
        }
        Ok(())
    }

    /// A table of all rules, for a person.
    #[must_use]
    pub fn table(survey: &Survey, samples: &[Sample]) -> String {
        let mut table =
            format!("{:<26}{:>28}{:>28}\n", "", "steady: changes/3 h, flap", "Poisson: changes/3 h, flap");
        for rule in Rule::ALL {
            let row = |changes: fn(&Sample) -> Changes| {
                let total: f64 = samples.iter().map(|s| f64::from(changes(s)[rule as usize])).sum();
                let mean = per_3_hours(total, survey.hours) / samples.len().max(1) as f64;
                let share = flapping(samples.iter().map(changes), rule, survey.hours);
                format!("{mean:.2}, {:.1} %", share * 100.0)
            };
            table += &format!("{:<26}{:>28}{:>28}\n", rule.name(), row(|s| s.steady), row(|s| s.poisson));
        }
        table
    }
}

/// Changes of `hours`, as many as three hours have.
pub(super) fn per_3_hours(changes: f64, hours: u32) -> f64 {
    changes * 3.0 / f64::from(hours.max(1))
}

fn flapping(changes: impl ExactSizeIterator<Item = Changes>, rule: Rule, hours: u32) -> f64 {
    let all = changes.len().max(1) as f64;
    let flaps = |changes: &Changes| per_3_hours(f64::from(changes[rule as usize]), hours) > FLAPS_FROM;
    changes.filter(flaps).count() as f64 / all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S12: at most two width changes in 24 virtual hours, where the plain rule flaps for a third of rates.
    /// The small form of `make sim-mailboxes`: 24 virtual hours of 64 log-uniform rates.
    #[test]
    fn s12_ours_holds_and_the_plain_rule_flaps_for_a_third_of_rates() {
        let survey = Survey { rates: 64, hours: 24, seed: 1 };
        let samples = survey.run(|_| ());
        let summary = Summary::of(&survey, &samples);
        assert_eq!(summary.check(), Ok(()), "seed {}: {summary:?}", survey.seed);
        let random = |rule| flapping(samples.iter().map(|sample| sample.poisson), rule, survey.hours);
        let shares = Rule::ALL.map(random);
        assert!(shares[Rule::Plain as usize] > 0.5, "{shares:?}");
        assert!(shares[Rule::Ours as usize] < 0.08, "{shares:?}");
        // Neither half is enough alone.
        assert!(shares[Rule::Weighted as usize] > 0.25 && shares[Rule::Held as usize] > 0.1, "{shares:?}");
    }

    #[test]
    fn a_survey_that_does_not_show_it_fails() {
        let summary = Summary { rates: 1, hours: 24, max_changes: 2, plain_rule_flapping: 0.3 };
        assert_eq!(summary.check(), Ok(()));
        assert_eq!(Summary { max_changes: 3, ..summary }.check(), Err(Error::Flapping(3)));
        let still = Summary { plain_rule_flapping: 0.25, ..summary };
        assert_eq!(still.check(), Err(Error::NotShown(0.25)));
    }

    #[test]
    fn the_line_is_json_with_these_keys() {
        let summary = Summary { rates: 1000, hours: 24, max_changes: 1, plain_rule_flapping: 0.322 };
        let line = serde_json::to_string(&summary).expect("numbers");
        assert_eq!(line, r#"{"rates":1000,"hours":24,"max_changes":1,"plain_rule_flapping":0.322}"#);
    }
}
