//! Many seeds, and every mutation until it is caught.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{Failure, Mutation, Run, run};

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survey {
    /// The first seed.
    pub seed: u64,
    /// How many.
    pub seeds: u64,
}

/// A seed that failed, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What went wrong first.
    pub failure: Failure,
}

/// What the seeds came to, with all rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Total {
    /// Deliveries that were accepted.
    pub deliveries: u64,
    /// Takeovers.
    pub takeovers: u64,
    /// Received again because an answer was lost.
    pub reply_lost: u64,
    /// Received again after a takeover.
    pub after_takeover: u64,
    /// Seeds that failed, ascending.
    pub failed: Vec<Failed>,
}

impl Total {
    fn add(&mut self, seed: u64, run: Run) {
        self.deliveries += run.deliveries;
        self.takeovers += run.takeovers;
        self.reply_lost += run.duplicates.reply_lost;
        self.after_takeover += run.duplicates.takeover;
        self.failed.extend(run.failure.map(|failure| Failed { seed, failure }));
    }

    fn join(&mut self, other: Total) {
        self.deliveries += other.deliveries;
        self.takeovers += other.takeovers;
        self.reply_lost += other.reply_lost;
        self.after_takeover += other.after_takeover;
        self.failed.extend(other.failed);
    }
}

impl Survey {
    /// Runs every seed with all rules, on all processors; calls `progress` with the number of seeds done.
    pub fn run(&self, progress: impl Fn(u64) + Sync) -> Total {
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let some = || {
            let mut total = Total::default();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= self.seeds {
                    return total;
                }
                let seed = self.seed.wrapping_add(at);
                total.add(seed, run(seed, None, None));
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        let mut total = Total::default();
        for part in on_all_processors(&some) {
            total.join(part);
        }
        total.failed.sort_by_key(|failed| failed.seed);
        total
    }

    /// The first seed, of as many as this survey has, that sees the rule missing; `None`: it is not missed.
    pub fn catches(&self, mutation: &Mutation) -> Option<Failed> {
        let next = AtomicU64::new(0);
        let caught_at = AtomicU64::new(u64::MAX);
        let some = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= self.seeds || at > caught_at.load(Ordering::Relaxed) {
                    return None;
                }
                let seed = self.seed.wrapping_add(at);
                if let Some(failure) = run(seed, Some(mutation), None).failure {
                    caught_at.fetch_min(at, Ordering::Relaxed);
                    return Some((at, Failed { seed, failure }));
                }
            }
        };
        let caught = on_all_processors(&some).into_iter().flatten();
        caught.min_by_key(|(at, _)| *at).map(|(_, failed)| failed)
    }
}

fn on_all_processors<T: Send>(some: &(impl Fn() -> T + Sync)) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
        let mut all = vec![some()];
        for other in others {
            // A panic outside a run is a panic of the survey.
            all.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S27: no delivery waits for ever, is lost or out of order, whatever goes wrong; one that waits needs no call that could get lost.
    /// The small form of `make sim`. What it runs takes seconds; the seeds of a failure replay exactly.
    #[test]
    fn s27_nothing_is_lost_or_out_of_order_whatever_goes_wrong() {
        let total = Survey { seed: 1, seeds: 2500 }.run(|_| ());
        assert_eq!(
            total.failed,
            [],
            "replay: cargo run -p mailrail-sim -- journal --seeds 1 --trace --seed SEED"
        );
        assert!(total.deliveries > 50_000 && total.takeovers > 5000, "{total:?}");
        assert!(total.after_takeover < 2 * total.takeovers, "{total:?}");
    }

    #[test]
    fn a_run_is_decided_by_its_seed() {
        for seed in [3, 4, 1556] {
            let trace = |seed| {
                let mut lines = Vec::new();
                let mut note = |line: String| lines.push(line);
                let run = run(seed, None, Some(&mut note));
                (lines, run)
            };
            assert_eq!(trace(seed), trace(seed));
        }
    }

    /// What no run misses is not checked: with any one rule switched off some seed fails, and with all rules none does.
    #[test]
    fn every_rule_is_missed_when_it_is_switched_off() {
        let survey = Survey { seed: 1, seeds: 600 };
        for mutation in Mutation::ALL {
            assert!(survey.catches(&mutation).is_some(), "{}: {}", mutation.rule, mutation.name);
        }
    }
}
