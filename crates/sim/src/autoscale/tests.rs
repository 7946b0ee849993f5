//! The whole of it, in little: fewer phases and fewer loads than `make sim-autoscale` has.

use super::figures::{Figures, Role};
use super::mutation::MUTATIONS;
use super::proof::{ERROR_MAX, prove};
use super::recording::Recording;
use super::replay::Replay;
use super::scenario::TO_MAX_SECONDS;
use super::service::Rates;
use super::summary::{Failed, Summary, mutation_row, outcome_row, proof_row};
use super::survey::Survey;
use super::verdict::Failure;

const VALUES: &str = include_str!("../../../../helm/mailrail/values.yaml");

fn survey() -> Survey {
    Survey::new(VALUES, 1, 2).expect("the chart and the recordings")
}

/// N21, A23: with the chart's figures and the recorded lag: up within the time for all loads, no flapping, few rebalances,
/// down slowly.
#[test]
fn n21_the_chart_scales_without_flapping_and_in_time() {
    let survey = survey();
    let outcomes = survey.run(|_| {});
    for outcome in &outcomes {
        assert_eq!(outcome.failures, [], "{}", outcome_row(outcome));
        assert!(!outcome_row(outcome).contains("FAILED"));
    }
    let summary = Summary::of(&outcomes, &survey.proofs(), &[true]);
    summary.check().expect("a success");
    assert_eq!(summary.flaps, 0);
    assert!(summary.seconds_to_max.is_some_and(|seconds| (60..=TO_MAX_SECONDS).contains(&seconds)));
}

/// N21: the model of the replicas is held against the recordings.
#[test]
fn n21_the_model_is_as_recorded() {
    for proof in survey().proofs() {
        assert!(proof.error <= ERROR_MAX, "{}", proof_row(&proof));
    }
    // And a model that is not is noticed: replicas that do half, or that need far longer to hand over. That they need no time at all
    // cannot be told from the two seconds that were recorded.
    let rates = super::calibrate::rates(Role::Deliver).expect("recorded");
    let half = Rates { per_replica: rates.per_replica / 2.0, ..rates };
    let slow = Rates { hand_over: rates.hand_over * 5.0, ..rates };
    for (what, wrong) in [("grow", half), ("rollout", slow)] {
        let proof = prove(&Recording::of(Role::Deliver, what).expect("recorded"), wrong, 500);
        assert!(proof.error > ERROR_MAX, "{wrong:?}: {}", proof_row(&proof));
    }
}

/// N21: deliveries that wait for an endpoint scale nothing.
#[test]
fn n21_held_deliveries_scale_nothing() {
    let figures = Figures::read(VALUES, Role::Deliver).expect("the chart");
    let outage = Recording::of(Role::Deliver, "outage").expect("recorded");
    let during = outage.when("outage").zip(outage.when("recovery")).expect("an outage");
    let replay = Replay::new(&outage, during);
    let most = u64::from(figures.limits.max_replicas) * figures.trigger.lag_threshold;
    assert!(replay.held_max() > most, "{} held deliveries would ask for all replicas", replay.held_max());
    for phase in 0..15 {
        let run = replay.run(&figures, (phase, 0), false);
        assert_eq!(run.steps, [], "with {} of lag", run.lag_max);
        let counted = replay.run(&figures, (phase, 0), true);
        assert_eq!(counted.steps.iter().map(|step| step.to).max(), Some(figures.limits.max_replicas));
    }
}

/// N21, A23: figures that flap, or scale too late or too far, are noticed.
#[test]
fn n21_figures_that_are_wrong_are_noticed() {
    let survey = survey();
    for mutation in &MUTATIONS {
        let caught = survey.catches(mutation);
        assert!(caught.is_some(), "{}", mutation_row(mutation, caught.as_ref()));
    }
}

#[test]
fn a_run_in_which_something_does_not_hold_is_no_success() {
    let survey = survey();
    let mut outcomes = survey.run(|_| {});
    let proofs = survey.proofs();
    assert!(Summary::of(&outcomes, &proofs, &[true]).check().is_ok());
    assert_eq!(
        Summary::of(&outcomes, &proofs, &[true, false]).check().expect_err("missed").to_string(),
        "1 wrong figures were not noticed"
    );
    let mut wrong = proofs.clone();
    wrong[0].error = ERROR_MAX + 0.0001;
    assert!(matches!(Summary::of(&outcomes, &wrong, &[]).check(), Err(Failed::Model(_))));
    // What proves nothing is worse than any error, wherever it stands among the others; and so is no proof at all.
    for at in [0, wrong.len() - 1] {
        let mut nothing = wrong.clone();
        nothing[at].error = f64::NAN;
        assert!(matches!(Summary::of(&outcomes, &nothing, &[]).check(), Err(Failed::NoProof)));
        assert!(proof_row(&nothing[at]).contains("PROVES NOTHING"));
    }
    assert!(matches!(Summary::of(&outcomes, &[], &[]).check(), Err(Failed::NoProof)));
    outcomes[0].failures.push(Failure::Flaps(1));
    assert_eq!(
        Summary::of(&outcomes, &proofs, &[]).check().expect_err("flaps").to_string(),
        "1 scenarios failed"
    );
    assert!(outcome_row(&outcomes[0]).contains("FAILED: 1 times up, down and up again"));
}
