//! What the replicas are put through, and what must then hold.

use super::figures::Figures;
use super::service::Rates;
use super::world::POD_STARTS_SECONDS;

/// A burst is so many times the usual load.
pub const BURST: f64 = 10.0;
/// Part of what the fewest replicas can do that comes usually.
pub const USUAL: f64 = 0.7;
/// Seconds from the start of a burst until the most replicas are members of the group, at most.
pub const TO_MAX_SECONDS: u64 = 180;
/// Most times that partitions may move in a burst: up to the most replicas and back to the fewest.
pub const BURST_REBALANCES_MAX: u32 = 8;
/// Most times that partitions may move in a rollout, beside what the burst does in which it happens.
pub const ROLLOUT_REBALANCES_MAX: u32 = 8;
/// Most times in an hour that partitions may move under a load that stays, once it has been there for a while.
pub const LEVEL_REBALANCES_PER_HOUR_MAX: u32 = 12;
/// A load that stays is judged from this second on.
pub const SETTLED_SECONDS: u64 = 3_600;
/// Of what the most replicas can do: the highest load that stays. Above it nothing helps.
const FULL: f64 = 0.95;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// One scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// How long.
    pub seconds: u64,
    /// Records a second from a second on, in order.
    pub load: Vec<(u64, f64)>,
    /// Replicas at the start.
    pub replicas: u32,
    /// When all replicas are replaced.
    pub rollout_at: Option<u64>,
    /// What must hold.
    pub expected: Expected,
}

/// What must hold in every scenario, beside that nothing flaps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    /// The autoscaler changes nothing.
    pub still: bool,
    /// There is a burst from this second on: the most replicas are there soon after.
    pub burst_at: Option<u64>,
    /// At the end there are the fewest replicas.
    pub fewest_at_end: bool,
    /// Partitions are counted as moved from this second on.
    pub judged_from: u64,
    /// Most times that partitions move from there on.
    pub rebalances_max: u32,
}

impl Scenario {
    /// Records a second at this time.
    #[must_use]
    pub fn rate(&self, now: u64) -> f64 {
        self.load.iter().rev().find(|(from, _)| *from <= now).map_or(0.0, |(_, rate)| *rate)
    }

    /// What a rollout does: at which second so many old replicas leave and so many new ones join. As Deployments do: a quarter goes
    /// at once, twice as many come, and when they have been ready for a while as many old ones as came too many go.
    #[must_use]
    pub fn rollout(&self, figures: &Figures) -> Vec<(u64, u32, u32)> {
        let Some(mut at) = self.rollout_at else { return Vec::new() };
        // The rollout meets whatever the burst made of the replicas: the most.
        let replicas = figures.limits.max_replicas;
        let surge = (replicas * figures.max_surge_percent).div_ceil(100);
        let unavailable = replicas * figures.max_unavailable_percent / 100;
        let (mut old, mut acts) = (replicas, Vec::new());
        while old > 0 && surge + unavailable > 0 {
            let first = unavailable.min(old);
            let second = surge.min(old - first);
            acts.push((at, first, 0));
            at += POD_STARTS_SECONDS;
            acts.push((at, 0, first + second));
            at += figures.min_ready_seconds;
            acts.push((at, second, 0));
            old -= first + second;
        }
        acts.retain(|(_, leaving, joining)| leaving + joining > 0);
        acts
    }

    /// All of a role, with so many loads that stay, from little to what the most replicas can just do.
    #[must_use]
    pub fn all(figures: &Figures, rates: Rates, levels: u32) -> Vec<Self> {
        let usual = USUAL * f64::from(figures.limits.min_replicas) * rates.per_replica;
        let mut all = vec![steady(figures, usual), burst(figures, usual), rollout(figures, usual)];
        all.extend((1..=levels).map(|level| stays(figures, rates, usual, (level, levels))));
        all
    }
}

fn steady(figures: &Figures, usual: f64) -> Scenario {
    Scenario {
        name: "steady".to_owned(),
        seconds: 2 * HOUR,
        load: vec![(0, usual)],
        replicas: figures.limits.min_replicas,
        rollout_at: None,
        expected: Expected { still: true, fewest_at_end: true, ..Expected::default() },
    }
}

fn burst(figures: &Figures, usual: f64) -> Scenario {
    let (from, to) = (10 * MINUTE, 20 * MINUTE);
    Scenario {
        name: "burst".to_owned(),
        seconds: 2 * HOUR,
        load: vec![(0, usual), (from, BURST * usual), (to, usual)],
        replicas: figures.limits.min_replicas,
        rollout_at: None,
        expected: Expected {
            burst_at: Some(from),
            fewest_at_end: true,
            rebalances_max: BURST_REBALANCES_MAX,
            ..Expected::default()
        },
    }
}

/// A rollout in the middle of a burst, when everything is busy.
fn rollout(figures: &Figures, usual: f64) -> Scenario {
    let mut scenario = burst(figures, usual);
    scenario.name = "rollout in a burst".to_owned();
    scenario.rollout_at = Some(15 * MINUTE);
    scenario.expected.rebalances_max += ROLLOUT_REBALANCES_MAX;
    scenario
}

/// A load that comes and stays.
fn stays(figures: &Figures, rates: Rates, usual: f64, (level, levels): (u32, u32)) -> Scenario {
    let most = FULL * f64::from(figures.limits.max_replicas) * rates.per_replica;
    let hours = 3;
    Scenario {
        name: format!("stays at {level} of {levels}"),
        seconds: SETTLED_SECONDS + hours * HOUR,
        load: vec![(0, usual.min(most)), (10 * MINUTE, most * f64::from(level) / f64::from(levels))],
        replicas: figures.limits.min_replicas,
        rollout_at: None,
        expected: Expected {
            judged_from: SETTLED_SECONDS,
            rebalances_max: LEVEL_REBALANCES_PER_HOUR_MAX * hours as u32,
            ..Expected::default()
        },
    }
}
