//! Figures that are wrong on purpose: each must be noticed, else the checks check nothing.

use super::behavior::{Kind, Policy, Select};
use super::figures::Figures;
use super::verdict::Failure;

/// One thing that is wrong.
pub struct Mutation {
    /// What a person calls it.
    pub name: &'static str,
    /// Makes the figures wrong.
    pub change: fn(&mut Figures),
    /// Held deliveries are counted as lag.
    pub held: bool,
    /// Whether this is the failure that it must lead to.
    pub noticed: fn(&Failure) -> bool,
}

fn same(_: &mut Figures) {}

/// All of them.
pub const MUTATIONS: [Mutation; 7] = [
    Mutation {
        name: "no stabilisation",
        change: |figures| {
            for rules in [&mut figures.behavior.scale_up, &mut figures.behavior.scale_down] {
                rules.stabilization_window_seconds = 0;
                rules.policies = vec![Policy { kind: Kind::Percent, value: 100, period_seconds: 15 }];
            }
        },
        held: false,
        noticed: |failure| matches!(failure, Failure::Flaps(_)),
    },
    Mutation {
        name: "held deliveries counted as lag",
        change: same,
        held: true,
        noticed: |failure| matches!(failure, Failure::Moved(_)),
    },
    Mutation {
        name: "tolerance 0, any number of replicas, a threshold that noise reaches",
        change: |figures| {
            figures.behavior.scale_up.tolerance = Some(0.0);
            figures.behavior.scale_down.tolerance = Some(0.0);
            figures.behavior.scale_down.stabilization_window_seconds = 60;
            figures.trigger.ensure_even_distribution_of_partitions = false;
            figures.trigger.lag_threshold = (figures.trigger.lag_threshold / 20).max(1);
        },
        held: false,
        noticed: |failure| matches!(failure, Failure::Flaps(_)),
    },
    Mutation {
        name: "one pod a minute up",
        change: |figures| {
            figures.behavior.scale_up.policies =
                vec![Policy { kind: Kind::Pods, value: 1, period_seconds: 60 }];
        },
        held: false,
        noticed: |failure| matches!(failure, Failure::SlowToMax(_)),
    },
    Mutation {
        name: "one pod a minute down",
        change: |figures| {
            figures.behavior.scale_down.policies =
                vec![Policy { kind: Kind::Pods, value: 1, period_seconds: 60 }];
        },
        held: false,
        noticed: |failure| matches!(failure, Failure::Rebalances { .. }),
    },
    Mutation {
        name: "never down",
        change: |figures| figures.behavior.scale_down.select_policy = Select::Disabled,
        held: false,
        noticed: |failure| matches!(failure, Failure::NotBack(_)),
    },
    Mutation {
        name: "a threshold of a few records",
        change: |figures| figures.trigger.lag_threshold = (figures.trigger.lag_threshold / 100).max(1),
        held: false,
        noticed: |failure| matches!(failure, Failure::Moved(_)),
    },
];
