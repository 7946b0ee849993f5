//! The one line of JSON, and whether the run is a success.

use serde::Serialize;

use super::mutation::Mutation;
use super::proof::{ERROR_MAX, PAIRS_MIN, Proof};
use super::scenario::LEVEL_REBALANCES_PER_HOUR_MAX;
use super::survey::Outcome;

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Scenarios.
    pub scenarios: usize,
    /// Times up, down and up again within the scale-down window, of all of them.
    pub flaps: usize,
    /// Most times that partitions moved in one scenario.
    pub max_rebalances: usize,
    /// Longest time from the start of a burst until the most replicas were members.
    pub seconds_to_max: Option<u64>,
    /// Scenarios in which something did not hold.
    pub failed: usize,
    /// Largest mean distance of the model from a recording; not a number (`null`) when a recording proves nothing, or there is none.
    pub model_error: f64,
    /// Wrong figures that were tried.
    pub mutations: usize,
    /// And those that nothing noticed.
    pub missed: usize,
}

/// Why a run is no success.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// A scenario.
    #[error("{0} scenarios failed")]
    Scenarios(usize),
    /// The model.
    #[error(
        "the model is {0:.3} away from a recording, at most {ERROR_MAX} is allowed: what it says is not proved"
    )]
    Model(f64),
    /// What the model is held against.
    #[error(
        "there is no recording, or one with fewer than {PAIRS_MIN} pairs of samples of a role under way: what the model says is not \
         proved; record lag again with `make record-lag`"
    )]
    NoProof,
    /// The checks.
    #[error("{0} wrong figures were not noticed")]
    Missed(usize),
}

impl Summary {
    /// Of everything that was run; one entry for each mutation, true if it was noticed.
    #[must_use]
    pub fn of(outcomes: &[Outcome], proofs: &[Proof], caught: &[bool]) -> Self {
        Self {
            scenarios: outcomes.len(),
            flaps: outcomes.iter().map(|outcome| outcome.flaps).sum(),
            max_rebalances: outcomes.iter().map(|outcome| outcome.rebalances).max().unwrap_or(0),
            seconds_to_max: outcomes.iter().filter_map(|outcome| outcome.seconds_to_max).max(),
            failed: outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count(),
            model_error: proofs.iter().map(|proof| proof.error).reduce(worse).map_or(f64::NAN, thousandths),
            mutations: caught.len(),
            missed: caught.iter().filter(|caught| !**caught).count(),
        }
    }

    /// # Errors
    ///
    /// If anything did not hold.
    pub fn check(&self) -> Result<(), Failed> {
        if self.failed > 0 {
            return Err(Failed::Scenarios(self.failed));
        }
        if self.model_error.is_nan() {
            return Err(Failed::NoProof);
        }
        if self.model_error > ERROR_MAX {
            return Err(Failed::Model(self.model_error));
        }
        if self.missed > 0 {
            return Err(Failed::Missed(self.missed));
        }
        Ok(())
    }
}

/// The larger error; what is no number is worse than any.
fn worse(most: f64, error: f64) -> f64 {
    if error.is_nan() || error > most { error } else { most }
}

/// Rounded up, so that what is above a limit stays there.
fn thousandths(error: f64) -> f64 {
    (error * 1000.0).ceil() / 1000.0
}

/// A line about an outcome.
#[must_use]
pub fn outcome_row(outcome: &Outcome) -> String {
    let to_max = outcome
        .seconds_to_max
        .map(|seconds| format!(", most replicas after {seconds} s"))
        .unwrap_or_default();
    let mut row = format!(
        "  {:<46} {} flaps, {} rebalances, lag up to {}{to_max}",
        outcome.scenario, outcome.flaps, outcome.rebalances, outcome.lag_max
    );
    for failure in &outcome.failures {
        row += &format!("\n    FAILED: {failure}");
    }
    row
}

/// A line about a proof.
#[must_use]
pub fn proof_row(proof: &Proof) -> String {
    if proof.error.is_nan() {
        return format!("  {:<18} PROVES NOTHING: too few samples of a role under way", proof.name);
    }
    format!(
        "  {:<18} peak {} recorded, {} in the model; {:.3} away on average",
        proof.name, proof.recorded_max, proof.model_max, proof.error
    )
}

/// A line about a mutation.
#[must_use]
pub fn mutation_row(mutation: &Mutation, caught: Option<&Outcome>) -> String {
    match caught {
        Some(outcome) => format!("  {:<70} noticed by {}", mutation.name, outcome.scenario),
        None => format!("  {:<70} NOT NOTICED", mutation.name),
    }
}

/// What the limit on loads that stay is, for people.
#[must_use]
pub fn limits_row() -> String {
    format!("a load that stays may move partitions {LEVEL_REBALANCES_PER_HOUR_MAX} times an hour")
}
