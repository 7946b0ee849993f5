//! All scenarios of both roles, with the figures of the chart.

use super::calibrate::rates;
use super::figures::{Figures, Problem, Role};
use super::mutation::Mutation;
use super::proof::{Proof, prove};
use super::recording::{Malformed, Recording, Row};
use super::replay::Replay;
use super::scenario::{Expected, Scenario};
use super::service::Rates;
use super::verdict::{Failure, flaps, judge, rebalances, seconds_to_max};
use super::world::{Run, Setting, run};

/// Loads that stay are looked at with the rates as recorded and with replicas that do so many times as much.
const FASTER: f64 = 10.0;

/// What is simulated.
pub struct Survey {
    roles: Vec<Scaled>,
    phases: Vec<(u64, u64)>,
    levels: u32,
}

struct Scaled {
    role: Role,
    figures: Figures,
    rates: Rates,
    noise: Vec<f64>,
    replays: Vec<(&'static str, Replay)>,
    proofs: Vec<Recording>,
}

/// What came of a scenario, the worst over all phases.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Which one.
    pub scenario: String,
    /// Flaps.
    pub flaps: usize,
    /// Times that partitions moved.
    pub rebalances: usize,
    /// Seconds until the most replicas were members, where there is a burst.
    pub seconds_to_max: Option<u64>,
    /// Most records that waited.
    pub lag_max: u64,
    /// What does not hold.
    pub failures: Vec<Failure>,
}

/// Why nothing can be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chart.
    #[error(transparent)]
    Figures(#[from] Problem),
    /// A recording.
    #[error(transparent)]
    Recording(#[from] Malformed),
}

impl Survey {
    /// With the text of the chart's `values.yaml`. `phases`: how many moments KEDA and the autoscaler each may look first. `levels`: how
    /// many loads that stay.
    ///
    /// # Errors
    ///
    /// If the values or a recording cannot be read.
    pub fn new(values: &str, phases: u64, levels: u32) -> Result<Self, Error> {
        let roles = Role::ALL.map(|role| Scaled::new(values, role)).into_iter().collect::<Result<_, _>>()?;
        let moments = || (0..phases).map(|n| n * 15 / phases);
        let phases = moments().flat_map(|keda| moments().map(move |hpa| (keda, hpa))).collect();
        Ok(Self { roles, phases, levels })
    }

    /// The figures that were recorded, for people.
    pub fn rates(&self) -> impl Iterator<Item = (Role, Rates)> {
        self.roles.iter().map(|scaled| (scaled.role, scaled.rates))
    }

    /// The model beside each recording.
    #[must_use]
    pub fn proofs(&self) -> Vec<Proof> {
        let of = |scaled: &Scaled| -> Vec<Proof> {
            let threshold = scaled.figures.trigger.lag_threshold;
            scaled.proofs.iter().map(|recording| prove(recording, scaled.rates, threshold)).collect()
        };
        self.roles.iter().flat_map(of).collect()
    }

    /// Runs all scenarios; `told` is called with each outcome.
    pub fn run(&self, mut told: impl FnMut(&Outcome)) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for scaled in &self.roles {
            scaled.each(&scaled.figures, (&self.phases, self.levels), false, &mut |outcome| {
                told(&outcome);
                outcomes.push(outcome);
                true
            });
        }
        outcomes
    }

    /// The first scenario that notices the mutation.
    #[must_use]
    pub fn catches(&self, mutation: &Mutation) -> Option<Outcome> {
        let mut caught = None;
        for scaled in &self.roles {
            let mut figures = scaled.figures.clone();
            (mutation.change)(&mut figures);
            scaled.each(&figures, (&self.phases[..1], self.levels), mutation.held, &mut |outcome| {
                if outcome.failures.iter().any(mutation.noticed) {
                    caught.get_or_insert(outcome);
                }
                caught.is_none()
            });
        }
        caught
    }
}

impl Scaled {
    fn new(values: &str, role: Role) -> Result<Self, Error> {
        let of = |what| Recording::of(role, what);
        let all = (0.0, f64::MAX);
        let (replays, proofs) = match role {
            Role::Match => (
                vec![("rollout, recorded", Replay::new(&of("steady")?, all))],
                vec![of("one")?, of("steady")?],
            ),
            Role::Deliver => {
                let outage = of("outage")?;
                let part = outage.when("outage").zip(outage.when("recovery")).unwrap_or(all);
                let replays = vec![
                    ("outage, recorded", Replay::new(&outage, part)),
                    ("rollout, recorded", Replay::new(&of("rollout")?, all)),
                    ("steady, recorded", Replay::new(&of("steady")?, all)),
                ];
                let proofs = ["one", "two", "grow", "steady", "rollout"].map(of);
                (replays, proofs.into_iter().collect::<Result<_, _>>()?)
            }
        };
        let (figures, rates, noise) = (Figures::read(values, role)?, rates(role)?, noise(&of("steady")?));
        Ok(Self { role, figures, rates, noise, replays, proofs })
    }

    /// Each scenario with these figures, until `told` gives false. What is expected is what the chart's own figures promise.
    fn each(
        &self,
        figures: &Figures,
        (phases, levels): (&[(u64, u64)], u32),
        held: bool,
        told: &mut dyn FnMut(Outcome) -> bool,
    ) {
        let still = Expected { still: true, fewest_at_end: true, ..Expected::default() };
        for (name, replay) in &self.replays {
            let outcome = self.worst(name, &still, phases, |phases| replay.run(figures, phases, held));
            if !told(outcome) {
                return;
            }
        }
        for (rates, label) in [(self.rates, ""), (self.faster(), ", faster replicas")] {
            let setting = |phases| Setting { figures, rates, noise: &self.noise, phases };
            for scenario in Scenario::all(&self.figures, rates, levels) {
                // What burst and steadiness are is a matter of the threshold, which is chosen for the rate.
                if !label.is_empty() && scenario.expected.judged_from == 0 {
                    continue;
                }
                let name = format!("{}{label}", scenario.name);
                let outcome =
                    self.worst(&name, &scenario.expected, phases, |phases| run(setting(phases), &scenario));
                if !told(outcome) {
                    return;
                }
            }
        }
    }

    fn faster(&self) -> Rates {
        Rates { per_replica: self.rates.per_replica * FASTER, ..self.rates }
    }

    fn worst(
        &self,
        name: &str,
        expected: &Expected,
        phases: &[(u64, u64)],
        of: impl Fn((u64, u64)) -> Run,
    ) -> Outcome {
        let window = self.figures.behavior.scale_down.stabilization_window_seconds;
        let fewest = self.figures.limits.min_replicas;
        let mut worst = Outcome { scenario: format!("{}: {name}", self.role.name()), ..Outcome::default() };
        for phases in phases {
            let run = of(*phases);
            worst.flaps = worst.flaps.max(flaps(&run.steps, window));
            worst.rebalances = worst.rebalances.max(rebalances(&run, expected));
            worst.seconds_to_max = worst.seconds_to_max.max(seconds_to_max(&run, expected));
            worst.lag_max = worst.lag_max.max(run.lag_max);
            let failures = judge(&run, expected, window, fewest);
            if worst.failures.is_empty() {
                worst.failures = failures;
            }
        }
        worst
    }
}

/// Arrivals of each second as parts of their mean.
fn noise(steady: &Recording) -> Vec<f64> {
    let rate = |pair: &[Row]| (pair[1].arrived() - pair[0].arrived()) as f64 / (pair[1].at - pair[0].at);
    let rates: Vec<f64> = steady.rows.windows(2).map(rate).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    rates.into_iter().map(|rate| rate / mean).collect()
}
