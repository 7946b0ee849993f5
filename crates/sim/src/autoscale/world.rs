//! One scenario in virtual time: load, replicas, KEDA's looks, the autoscaler's looks.

use super::figures::Figures;
use super::hpa::{Hpa, SYNC_SECONDS};
use super::scenario::Scenario;
use super::service::{Leaving, Rates, Service};

/// From the autoscaler's decision until a pod is a member of its group: scheduling, the start with an image that is on the node,
/// and joining. The recordings have the last two, and there they take less than 5 s.
pub const POD_STARTS_SECONDS: u64 = 20;

/// What a run needs beside its scenario.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The chart's.
    pub figures: &'a Figures,
    /// The role's.
    pub rates: Rates,
    /// Arrivals of a second as parts of the mean, as recorded; over and over.
    pub noise: &'a [f64],
    /// When KEDA and the autoscaler look first, in seconds. They are two programs with clocks of their own.
    pub phases: (u64, u64),
}

/// The autoscaler changed the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// When, in seconds.
    pub at: u64,
    /// From so many.
    pub from: u32,
    /// To so many.
    pub to: u32,
}

/// What happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// What the autoscaler did.
    pub steps: Vec<Step>,
    /// When partitions moved: replicas came, went, or both.
    pub rebalances: Vec<u64>,
    /// When the most replicas were members for the first time.
    pub at_most: Option<u64>,
    /// Replicas that were wanted at the end.
    pub last: u32,
    /// Most records that waited.
    pub lag_max: u64,
}

struct World<'a> {
    setting: Setting<'a>,
    service: Service,
    hpa: Hpa,
    wanted: u32,
    /// What KEDA made of its last look.
    metric: u64,
    /// Pods on their way: when they are members, and how many.
    starting: Vec<(u64, u32)>,
    run: Run,
}

/// Runs a scenario.
#[must_use]
pub fn run(setting: Setting<'_>, scenario: &Scenario) -> Run {
    let Figures { limits, behavior, trigger, partitions, .. } = setting.figures;
    let replicas = scenario.replicas;
    let mut world = World {
        setting,
        service: Service::new(setting.rates, *partitions, replicas),
        hpa: Hpa::new(*limits, behavior.clone(), trigger.lag_threshold, 0, replicas),
        wanted: replicas,
        metric: trigger.lag_threshold * u64::from(replicas),
        starting: Vec::new(),
        run: Run::default(),
    };
    let rollout = scenario.rollout(setting.figures);
    for now in 0..scenario.seconds {
        world.pods(now);
        for (_, leaving, joining) in rollout.iter().filter(|(at, ..)| *at == now) {
            world.replace(now, *leaving, *joining);
        }
        world.load(now, scenario.rate(now));
        world.look(now);
    }
    world.run.last = world.wanted;
    world.run
}

impl World<'_> {
    /// Pods that are ready become members.
    fn pods(&mut self, now: u64) {
        let ready: u32 = self.starting.iter().filter(|(at, _)| *at <= now).map(|(_, count)| count).sum();
        self.starting.retain(|(at, _)| *at > now);
        if ready > 0 {
            self.service.join(ready);
            self.run.rebalances.push(now);
        }
        if self.service.replicas() >= self.setting.figures.limits.max_replicas && self.run.at_most.is_none() {
            self.run.at_most = Some(now);
        }
    }

    fn replace(&mut self, now: u64, leaving: u32, joining: u32) {
        self.service.leave(leaving, Leaving::Oldest);
        self.service.join(joining);
        self.run.rebalances.push(now);
    }

    fn load(&mut self, now: u64, rate: f64) {
        let noise = self.setting.noise;
        let part = noise.get(now as usize % noise.len().max(1)).copied().unwrap_or(1.0);
        let partitions = self.setting.figures.partitions;
        let arrivals = vec![rate * part / f64::from(partitions); partitions as usize];
        self.service.step(1.0, &arrivals);
        self.run.lag_max = self.run.lag_max.max(self.service.lags().iter().sum());
    }

    /// KEDA looks at Kafka, the autoscaler asks KEDA; each in its own time.
    fn look(&mut self, now: u64) {
        let Setting { figures, phases: (keda, hpa), .. } = self.setting;
        let syncs = now % SYNC_SECONDS == hpa % SYNC_SECONDS;
        if now % figures.polling_interval == keda % figures.polling_interval
            || (syncs && !figures.use_cached_metrics)
        {
            self.metric = figures.trigger.metric(&self.service.lags());
        }
        if !syncs {
            return;
        }
        let (from, to) = (self.wanted, self.hpa.sync(now, self.wanted, self.metric));
        if from != to {
            self.run.steps.push(Step { at: now, from, to });
        }
        self.wanted = to;
        if to > from {
            self.starting.push((now + POD_STARTS_SECONDS, to - from));
        } else if to < from {
            self.fewer(now, from - to);
        }
    }

    /// Pods that are not members yet go first.
    fn fewer(&mut self, now: u64, mut count: u32) {
        while let Some((_, starting)) = self.starting.last_mut().filter(|_| count > 0) {
            let gone = count.min(*starting);
            *starting -= gone;
            count -= gone;
            if *starting == 0 {
                self.starting.pop();
            }
        }
        if count > 0 {
            self.service.leave(count, Leaving::Newest);
            self.run.rebalances.push(now);
        }
    }
}
