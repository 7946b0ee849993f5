//! What a survey of the protocol shows, and whether it shows what it must.

use serde::Serialize;
use thiserror::Error as ThisError;

use super::Mutation;
use super::survey::{Failed, Total};

/// The figures of a survey; its form as JSON is what `make sim` ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Seeds that were run with all rules.
    pub seeds: u64,
    /// Deliveries of them.
    pub deliveries: u64,
    /// Seeds that lost one.
    pub lost: u64,
    /// Seeds that received a strict mailbox out of its order.
    pub disorder: u64,
    /// Rules that were switched off, one at a time.
    pub mutations: usize,
    /// Those whose absence some seed saw.
    pub caught: usize,
}

/// A survey that does not show what it must.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A seed failed with all rules.
    #[error("{count} seeds failed, first {seed}: {failure}")]
    Failed {
        /// How many.
        count: usize,
        /// The first of them.
        seed: u64,
        /// How it failed.
        failure: String,
    },
    /// A rule was switched off and nobody saw it.
    #[error("no seed misses these rules: {0}; run more seeds, or the simulation no longer reaches them")]
    NotCaught(String),
}

impl Summary {
    /// The figures of these runs.
    #[must_use]
    pub fn of(seeds: u64, total: &Total, caught: &[Option<Failed>]) -> Self {
        let count =
            |is: fn(&super::Failure) -> bool| total.failed.iter().filter(|f| is(&f.failure)).count() as u64;
        Self {
            seeds,
            deliveries: total.deliveries,
            lost: count(super::Failure::is_loss),
            disorder: count(super::Failure::is_disorder),
            mutations: caught.len(),
            caught: caught.iter().flatten().count(),
        }
    }

    /// Whether every seed holds and every rule is missed when it is switched off.
    ///
    /// # Errors
    /// Says which is not so.
    pub fn check(total: &Total, caught: &[Option<Failed>]) -> Result<(), Error> {
        if let Some(first) = total.failed.first() {
            let failure = first.failure.to_string();
            return Err(Error::Failed { count: total.failed.len(), seed: first.seed, failure });
        }
        let missed = Mutation::ALL.iter().zip(caught).filter(|(_, caught)| caught.is_none());
        let missed: Vec<&str> = missed.map(|(mutation, _)| mutation.name).collect();
        if missed.is_empty() { Ok(()) } else { Err(Error::NotCaught(missed.join(", "))) }
    }
}

/// The row of a mutation, for a person.
#[must_use]
pub fn row(mutation: &Mutation, caught: Option<&Failed>) -> String {
    let seen = caught.map_or_else(|| "NOT CAUGHT".to_owned(), |c| format!("seed {}: {}", c.seed, c.failure));
    format!("  {:<32}{:<5}{:<62}{seen}", mutation.name, mutation.rule, mutation.answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Failure;

    fn failed(failure: Failure) -> Failed {
        Failed { seed: 7, failure }
    }

    #[test]
    fn a_survey_that_does_not_show_it_fails() {
        let seen = || Some(failed(Failure::Spin { partition: 0 }));
        let all: Vec<_> = Mutation::ALL.iter().map(|_| seen()).collect();
        assert_eq!(Summary::check(&Total::default(), &all), Ok(()));
        let mut some = all.clone();
        some[0] = None;
        let missed = Err(Error::NotCaught(Mutation::ALL[0].name.to_owned()));
        assert_eq!(Summary::check(&Total::default(), &some), missed);
        let lost =
            Total { failed: vec![failed(Failure::Lost { partition: 0, delivery: 3 })], ..Total::default() };
        assert!(matches!(Summary::check(&lost, &all), Err(Error::Failed { count: 1, seed: 7, .. })));
        let summary = Summary::of(1, &lost, &some);
        assert_eq!((summary.lost, summary.disorder, summary.caught), (1, 0, Mutation::ALL.len() - 1));
    }

    #[test]
    fn the_line_is_json_with_these_keys() {
        let summary = Summary { seeds: 2, deliveries: 90, lost: 0, disorder: 0, mutations: 24, caught: 24 };
        let line = serde_json::to_string(&summary).expect("numbers");
        assert_eq!(line, r#"{"seeds":2,"deliveries":90,"lost":0,"disorder":0,"mutations":24,"caught":24}"#);
    }
}
