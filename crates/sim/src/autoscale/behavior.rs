//! `spec.behavior` of a HorizontalPodAutoscaler: how fast, in which direction.

use serde::{Deserialize, Deserializer};

use super::hpa::Change;

/// Both directions. The chart always gives both, so that no default of Kubernetes applies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// More replicas.
    pub scale_up: Rules,
    /// Fewer replicas.
    pub scale_down: Rules,
}

/// The rules of one direction.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rules {
    /// How long a change must have been wanted.
    pub stabilization_window_seconds: u64,
    /// Which policy decides.
    #[serde(default)]
    pub select_policy: Select,
    /// How far it may go at once.
    pub policies: Vec<Policy>,
    /// Part of the target that the metric may be away from it; `None`: the default of Kubernetes.
    #[serde(default, deserialize_with = "quantity")]
    pub tolerance: Option<f64>,
}

/// Which of several policies decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Select {
    /// The one that lets most change.
    #[default]
    Max,
    /// The one that lets least change.
    Min,
    /// None: this direction is off.
    Disabled,
}

/// So much in so many seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// What `value` counts.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// How many of it.
    pub value: u32,
    /// In how long.
    pub period_seconds: u64,
}

/// What a policy counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Kind {
    /// Replicas.
    Pods,
    /// Hundredths of the replicas at the start of the period.
    Percent,
}

impl Rules {
    /// The most replicas that `scaleUp` allows now.
    pub(super) fn highest(&self, now: u64, current: u32, ups: &[Change], downs: &[Change]) -> u32 {
        let allowed = self.policies.iter().map(|policy| {
            let start = policy.start(now, current, ups, downs);
            match policy.kind {
                Kind::Pods => start.saturating_add(policy.value),
                // Rounded up, so that one replica is not too few to ever grow.
                Kind::Percent => (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as u32,
            }
        });
        let selected = match self.select_policy {
            Select::Max => allowed.max(),
            Select::Min => allowed.min(),
            Select::Disabled => None,
        };
        selected.unwrap_or(current)
    }

    /// The fewest replicas that `scaleDown` allows now.
    pub(super) fn lowest(&self, now: u64, current: u32, ups: &[Change], downs: &[Change]) -> u32 {
        let allowed = self.policies.iter().map(|policy| {
            let start = policy.start(now, current, ups, downs);
            match policy.kind {
                Kind::Pods => start.saturating_sub(policy.value),
                // Rounded down, as a conversion in Go does.
                Kind::Percent => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)).max(0.0) as u32,
            }
        });
        let selected = match self.select_policy {
            Select::Max => allowed.min(),
            Select::Min => allowed.max(),
            Select::Disabled => None,
        };
        selected.unwrap_or(current)
    }
}

impl Policy {
    /// Replicas at the start of the period that ends now.
    fn start(&self, now: u64, current: u32, ups: &[Change], downs: &[Change]) -> u32 {
        let within = |change: &&Change| change.at + self.period_seconds > now;
        let sum = |changes: &[Change]| changes.iter().filter(within).map(|change| change.by).sum::<u32>();
        (current + sum(downs)).saturating_sub(sum(ups))
    }
}

/// A number as text, as the chart's README asks for, or as a number.
fn quantity<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Text(String),
        Number(f64),
    }
    Ok(match Option::<Given>::deserialize(from)? {
        None => None,
        Some(Given::Number(number)) => Some(number),
        Some(Given::Text(text)) => Some(text.parse().map_err(serde::de::Error::custom)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(yaml: &str) -> Rules {
        serde_yaml_ng::from_str(yaml).expect("rules")
    }

    const TWO: &str = "policies: [{type: Percent, value: 100, periodSeconds: 60}, {type: Pods, value: 4, periodSeconds: 60}]";

    #[test]
    fn the_policy_that_is_selected_decides() {
        let with = |select: &str| {
            rules(&format!("{{stabilizationWindowSeconds: 0, selectPolicy: {select}, {TWO}}}"))
        };
        let up = |select, current| with(select).highest(100, current, &[], &[]);
        assert_eq!([up("Max", 2), up("Max", 16), up("Min", 2), up("Min", 16)], [6, 32, 4, 20]);
        assert_eq!(up("Disabled", 7), 7);
        let down = |select, current| with(select).lowest(100, current, &[], &[]);
        assert_eq!([down("Max", 16), down("Min", 16), down("Disabled", 16)], [0, 12, 16]);
    }

    #[test]
    fn what_changed_during_the_period_counts_against_it() {
        let rules = rules(&format!("{{stabilizationWindowSeconds: 0, {TWO}}}"));
        let ups = [Change { at: 40, by: 4 }];
        // 6 now, 2 at the start of the period: 6 is the most.
        assert_eq!(rules.highest(99, 6, &ups, &[]), 6);
        assert_eq!(rules.highest(100, 6, &ups, &[]), 12);
        assert_eq!(rules.highest(99, 4, &[], &[Change { at: 50, by: 4 }]), 16, "it was 8");
    }

    #[test]
    fn percents_round_up_when_it_grows_and_down_when_it_shrinks() {
        let half = rules(
            "{stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 50, periodSeconds: 60}]}",
        );
        assert_eq!([1, 3, 4].map(|current| half.highest(0, current, &[], &[])), [2, 5, 6]);
        assert_eq!([1, 3, 4].map(|current| half.lowest(0, current, &[], &[])), [0, 1, 2]);
    }
}
