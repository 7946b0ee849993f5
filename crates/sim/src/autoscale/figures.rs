//! The figures of the chart, read from its `values.yaml`: what is simulated is what is installed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::behavior::Behavior;
use super::hpa::Limits;
use super::keda::Trigger;

/// Which role is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// `match` on `events.<pipeline>`.
    Match,
    /// `deliver` on `deliveries.<pipeline>`.
    Deliver,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Match, Self::Deliver];

    /// As the command line names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Deliver => "deliver",
        }
    }
}

/// All that decides how a role is scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Partitions of its topic.
    pub partitions: u32,
    /// Fewest and most replicas.
    pub limits: Limits,
    /// Seconds between two looks of KEDA at Kafka.
    pub polling_interval: u64,
    /// The autoscaler is answered from the last look, and not by a look of its own.
    pub use_cached_metrics: bool,
    /// What the lag becomes.
    pub trigger: Trigger,
    /// How fast.
    pub behavior: Behavior,
    /// Part of the replicas, in hundredths, that a rollout starts beside the others.
    pub max_surge_percent: u32,
    /// Part of the replicas, in hundredths, that a rollout may take away first.
    pub max_unavailable_percent: u32,
    /// Seconds that a new replica is ready before a rollout goes on.
    pub min_ready_seconds: u64,
}

/// Why figures cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Not the values of the chart.
    #[error("the values of the chart cannot be read: {0}")]
    Unreadable(#[from] serde_yaml_ng::Error),
    /// No pipeline of this name.
    #[error("the values have no pipeline `default` with partitions")]
    NoPipeline,
    /// Something that the simulation has no model of.
    #[error("{role}.autoscaling: {what} is not simulated; {instead}")]
    NotSimulated {
        /// Whose section.
        role: &'static str,
        /// Which setting.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
}

#[derive(Deserialize)]
struct Values {
    pipelines: BTreeMap<String, Option<Pipeline>>,
    #[serde(rename = "match")]
    matching: Workload,
    deliver: Workload,
}

#[derive(Deserialize)]
struct Pipeline {
    partitions: u32,
}

#[derive(Deserialize)]
struct Workload {
    autoscaling: Autoscaling,
    strategy: Strategy,
    #[serde(rename = "minReadySeconds")]
    min_ready_seconds: u64,
}

#[derive(Deserialize)]
struct Autoscaling {
    mode: String,
    #[serde(flatten)]
    limits: Limits,
    keda: Keda,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keda {
    polling_interval: u64,
    use_cached_metrics: bool,
    #[serde(flatten)]
    trigger: Trigger,
    behavior: Behavior,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Strategy {
    rolling_update: RollingUpdate,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RollingUpdate {
    max_surge: String,
    max_unavailable: String,
}

impl Figures {
    /// Those of a role of the pipeline `default` in the text of a `values.yaml`.
    ///
    /// # Errors
    ///
    /// If it is not the chart's, or has what the simulation does not know.
    pub fn read(values: &str, role: Role) -> Result<Self, Problem> {
        let values: Values = serde_yaml_ng::from_str(values)?;
        let pipeline = values.pipelines.get("default").and_then(Option::as_ref).ok_or(Problem::NoPipeline)?;
        let Workload { autoscaling, strategy, min_ready_seconds } = match role {
            Role::Match => values.matching,
            Role::Deliver => values.deliver,
        };
        let update = strategy.rolling_update;
        let (limits, keda) = (autoscaling.limits, autoscaling.keda);
        let percents = [&update.max_surge, &update.max_unavailable].map(|text| percent(text));
        let unknown = |what, instead| Problem::NotSimulated { role: role.name(), what, instead };
        match percents {
            _ if autoscaling.mode != "keda" => Err(unknown("a mode other than keda", "set mode: keda")),
            _ if limits.min_replicas == 0 => Err(unknown("minReplicas: 0", "let it be at least 1")),
            _ if keda.trigger.exclude_persistent_lag => Err(unknown("excludePersistentLag", "leave it off")),
            _ if keda.trigger.lag_threshold == 0 => Err(unknown("lagThreshold: 0", "let it be at least 1")),
            _ if keda.polling_interval == 0 => Err(unknown("pollingInterval: 0", "let it be at least 1")),
            [Some(max_surge_percent), Some(max_unavailable_percent)] => Ok(Self {
                partitions: pipeline.partitions,
                limits,
                polling_interval: keda.polling_interval,
                use_cached_metrics: keda.use_cached_metrics,
                trigger: keda.trigger,
                behavior: keda.behavior,
                max_surge_percent,
                max_unavailable_percent,
                min_ready_seconds,
            }),
            _ => Err(unknown("a strategy in numbers of pods", "give maxSurge and maxUnavailable in percent")),
        }
    }
}

fn percent(text: &str) -> Option<u32> {
    text.strip_suffix('%')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// N21, A23: each role is scaled by its own lag, with the figures that the chart installs.
    #[test]
    fn n21_the_figures_are_those_of_the_chart() {
        let values = include_str!("../../../../helm/mailrail/values.yaml");
        for role in Role::ALL {
            let figures = Figures::read(values, role).expect("the chart's own values can be simulated");
            assert!(figures.limits.max_replicas <= figures.partitions, "{role:?}");
            assert!(figures.limits.min_replicas <= figures.limits.max_replicas, "{role:?}");
            // Changed text, changed figures.
            let other = values.replace("pollingInterval: 15", "pollingInterval: 31");
            assert_eq!(Figures::read(&other, role).expect("readable").polling_interval, 31);
        }
    }

    #[test]
    fn what_is_not_simulated_is_refused() {
        let values = include_str!("../../../../helm/mailrail/values.yaml");
        let refused = |from: &str, to: &str| {
            let changed = values.replace(from, to);
            assert_ne!(changed, values);
            Figures::read(&changed, Role::Deliver).expect_err("refused").to_string()
        };
        assert_eq!(
            refused("excludePersistentLag: false", "excludePersistentLag: true"),
            "deliver.autoscaling: excludePersistentLag is not simulated; leave it off"
        );
        assert!(refused("mode: keda", "mode: hpa").contains("set mode: keda"));
        assert!(refused("minReplicas: 2", "minReplicas: 0").contains("minReplicas: 0"));
        assert!(
            refused("maxSurge: 25%, maxUnavailable: 25%", "maxSurge: \"1\", maxUnavailable: 25%")
                .contains("percent")
        );
        assert!(refused("lagThreshold: 500\n", "lagThreshold: 0\n").contains("lagThreshold: 0"));
        assert!(refused("partitions: 64", "parts: 64").contains("cannot be read"));
    }
}
