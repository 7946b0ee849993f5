//! The autoscaler of Kubernetes (HorizontalPodAutoscaler v2) for one external metric of type `AverageValue`.
//!
//! As `pkg/controller/podautoscaler` has it: the number that the metric asks for, then the limits, then stabilisation, then the
//! policies. Times are whole seconds on any clock that does not go back.

use serde::Deserialize;

use super::behavior::{Behavior, Rules};

/// How far the metric may be from its target without any change, where the behaviour does not say.
pub const TOLERANCE: f64 = 0.1;
/// Seconds between two looks, `--horizontal-pod-autoscaler-sync-period`.
pub const SYNC_SECONDS: u64 = 15;

/// Fewest and most replicas, both at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// `minReplicas`.
    pub min_replicas: u32,
    /// `maxReplicas`.
    pub max_replicas: u32,
}

/// One autoscaler with its memory.
#[derive(Debug, Clone)]
pub struct Hpa {
    limits: Limits,
    behavior: Behavior,
    /// Records that one replica may have waiting.
    target: u64,
    /// What was wanted when.
    recommendations: Vec<(u64, u32)>,
    ups: Vec<Change>,
    downs: Vec<Change>,
}

/// So many replicas more, or fewer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) at: u64,
    pub(super) by: u32,
}

impl Hpa {
    /// Begins at `now` with `current` replicas, which counts as the first recommendation.
    #[must_use]
    pub fn new(limits: Limits, behavior: Behavior, target: u64, now: u64, current: u32) -> Self {
        let (ups, downs) = (Vec::new(), Vec::new());
        Self { limits, behavior, target, recommendations: vec![(now, current)], ups, downs }
    }

    /// One look: how many replicas there are to be from now on.
    pub fn sync(&mut self, now: u64, current: u32, metric: u64) -> u32 {
        let Limits { min_replicas, max_replicas } = self.limits;
        let wanted = self.wanted(current, metric).clamp(min_replicas, max_replicas);
        let stable = self.stabilized(now, current, wanted);
        let replicas = self.limited(now, current, stable);
        if replicas > current {
            self.ups.push(Change { at: now, by: replicas - current });
        } else if replicas < current {
            self.downs.push(Change { at: now, by: current - replicas });
        }
        self.forget(now);
        replicas
    }

    /// What the metric asks for, without any limit.
    fn wanted(&self, current: u32, metric: u64) -> u32 {
        let ratio = metric as f64 / (self.target as f64 * f64::from(current));
        let tolerance = |rules: &Rules| rules.tolerance.unwrap_or(TOLERANCE);
        let (up, down) = (tolerance(&self.behavior.scale_up), tolerance(&self.behavior.scale_down));
        if (1.0 - down..=1.0 + up).contains(&ratio) {
            return current;
        }
        u32::try_from(metric.div_ceil(self.target)).unwrap_or(u32::MAX)
    }

    /// Up only to the least that was wanted during the window of `scaleUp`, down only to the most during that of `scaleDown`.
    fn stabilized(&mut self, now: u64, current: u32, wanted: u32) -> u32 {
        let since = |rules: &Rules| now.checked_sub(rules.stabilization_window_seconds);
        let within = |at: u64, since: Option<u64>| since.is_none_or(|since| at > since);
        let (up_since, down_since) = (since(&self.behavior.scale_up), since(&self.behavior.scale_down));
        let (mut up, mut down) = (wanted, wanted);
        for (at, recommended) in &self.recommendations {
            if within(*at, up_since) {
                up = up.min(*recommended);
            }
            if within(*at, down_since) {
                down = down.max(*recommended);
            }
        }
        self.recommendations.push((now, wanted));
        current.max(up).min(down)
    }

    /// As far as the policies let it go at once.
    fn limited(&self, now: u64, current: u32, stable: u32) -> u32 {
        let Limits { min_replicas, max_replicas } = self.limits;
        if stable > current {
            let most = self.behavior.scale_up.highest(now, current, &self.ups, &self.downs);
            stable.min(most.max(current).min(max_replicas))
        } else if stable < current {
            let least = self.behavior.scale_down.lowest(now, current, &self.ups, &self.downs);
            stable.max(least.min(current).max(min_replicas))
        } else {
            stable
        }
    }

    /// What no window and no period reaches any more.
    fn forget(&mut self, now: u64) {
        let rules = [&self.behavior.scale_up, &self.behavior.scale_down];
        let window = rules.iter().map(|it| it.stabilization_window_seconds).max().unwrap_or(0);
        let period = rules.iter().flat_map(|it| &it.policies).map(|it| it.period_seconds).max().unwrap_or(0);
        self.recommendations.retain(|(at, _)| at + window >= now);
        self.ups.retain(|change| change.at + period >= now);
        self.downs.retain(|change| change.at + period >= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the documentation of Kubernetes writes behaviours.
    fn behavior(yaml: &str) -> Behavior {
        serde_yaml_ng::from_str(yaml).expect("a behaviour")
    }

    const AT_ONCE: &str = "scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 10000, periodSeconds: 15}]}\n\
                           scaleDown: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, periodSeconds: 15}]}";

    fn hpa(yaml: &str, current: u32) -> Hpa {
        let limits = Limits { min_replicas: 1, max_replicas: 100 };
        Hpa::new(limits, behavior(yaml), 100, 0, current)
    }

    /// Replicas at each look, the metric always the same.
    fn looks(hpa: &mut Hpa, mut current: u32, metric: u64, count: u64) -> Vec<u32> {
        let look = |n| {
            current = hpa.sync(n * SYNC_SECONDS, current, metric);
            current
        };
        (1..=count).map(look).collect()
    }

    #[test]
    fn the_documented_ratio_of_metric_and_target() {
        // "if the current metric value is 200m, and the desired value is 100m, the number of replicas will be doubled";
        // "if the current value is instead 50m, you'll halve the number".
        assert_eq!(hpa(AT_ONCE, 4).sync(15, 4, 800), 8);
        let mut halved = hpa(AT_ONCE, 1);
        assert_eq!(halved.sync(15, 4, 200), 2);
        // It rounds up.
        assert_eq!(hpa(AT_ONCE, 4).sync(15, 4, 801), 9);
    }

    #[test]
    fn within_ten_percent_nothing_changes() {
        // 23 of 24 replicas wanting 24: inside of the dead band.
        assert_eq!(hpa(AT_ONCE, 23).sync(15, 23, 2_400), 23);
        assert_eq!(hpa(AT_ONCE, 10).sync(15, 10, 1_100), 10);
        assert_eq!(hpa(AT_ONCE, 10).sync(15, 10, 1_101), 12);
        let narrow = AT_ONCE.replace("scaleUp: {", "scaleUp: {tolerance: \"0.02\", ");
        assert_eq!(hpa(&narrow, 23).sync(15, 23, 2_400), 24);
    }

    #[test]
    fn up_waits_until_all_of_its_window_wants_more() {
        let slow = AT_ONCE.replacen("stabilizationWindowSeconds: 0", "stabilizationWindowSeconds: 60", 1);
        let mut one = hpa(&slow, 2);
        assert_eq!(looks(&mut one, 2, 800, 5), [2, 2, 2, 8, 8], "the first recommendation leaves at 60 s");
        let mut bump = hpa(&slow, 2);
        let mut current = 2;
        for (n, metric) in [800, 800, 200, 800, 800, 800].into_iter().enumerate() {
            current = bump.sync((n as u64 + 1) * SYNC_SECONDS, current, metric);
            assert_eq!(current, 2, "look {n}");
        }
    }

    #[test]
    fn down_goes_to_the_most_of_its_window() {
        // "The stabilization window is used ... the controller will ... use the highest value from the specified interval."
        let slow = "scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, periodSeconds: 15}]}\n\
                    scaleDown: {stabilizationWindowSeconds: 300, policies: [{type: Percent, value: 100, periodSeconds: 15}]}";
        let mut one = hpa(slow, 10);
        assert_eq!(one.sync(15, 10, 700), 10);
        assert_eq!(one.sync(285, 10, 300), 10, "10 was recommended at 0");
        assert_eq!(one.sync(300, 10, 300), 7, "7 was recommended at 15");
        assert_eq!(one.sync(315, 7, 300), 3);
    }

    #[test]
    fn the_documented_policies_of_scale_down() {
        // Pods 4 and Percent 10 per 60 s, the larger change wins: with 80 replicas 8 go, "72" next, then 8 (7.2 rounded up), and
        // from 40 on 4 each time.
        let both = "scaleUp: {stabilizationWindowSeconds: 0, policies: []}\nscaleDown: {stabilizationWindowSeconds: 0, policies: \
                    [{type: Pods, value: 4, periodSeconds: 60}, {type: Percent, value: 10, periodSeconds: 60}]}";
        let mut one = hpa(both, 80);
        let each_minute = |hpa: &mut Hpa, mut current, minutes: std::ops::Range<u64>| {
            let look = |n| {
                current = hpa.sync(n * 60, current, 1_000);
                current
            };
            minutes.map(look).collect::<Vec<u32>>()
        };
        assert_eq!(each_minute(&mut one, 80, 1..6), [72, 64, 57, 51, 45]);
        assert_eq!(each_minute(&mut hpa(both, 40), 40, 1..4), [36, 32, 28]);
        assert_eq!(one.sync(301, 45, 1_000), 45, "the period is not over");
    }

    #[test]
    fn a_quadruple_each_minute_is_two_steps_to_the_most() {
        let quick = "scaleUp: {stabilizationWindowSeconds: 30, policies: [{type: Percent, value: 300, periodSeconds: 60}]}\n\
                     scaleDown: {stabilizationWindowSeconds: 900, policies: [{type: Percent, value: 50, periodSeconds: 300}]}";
        assert_eq!(looks(&mut hpa(quick, 2), 2, 3_200, 8), [2, 8, 8, 8, 8, 32, 32, 32][..]);
    }

    #[test]
    fn limits_hold_whatever_the_metric_says() {
        assert_eq!(hpa(AT_ONCE, 4).sync(15, 4, 1_000_000), 100);
        assert_eq!(hpa(AT_ONCE, 1).sync(15, 4, 0), 1);
    }
}
