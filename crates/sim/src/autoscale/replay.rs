//! Recorded lag, shown to KEDA and the autoscaler as it was: with the replicas that the recording had, nothing needs a model.

use super::figures::Figures;
use super::hpa::{Hpa, SYNC_SECONDS};
use super::recording::{Recording, Row};
use super::world::{Run, Step};

/// The part of a recording that is shown again and again, until this long.
pub const REPLAY_SECONDS: u64 = 3_600;

/// Lag over time, second by second.
pub struct Replay {
    seconds: Vec<Second>,
    replicas: u32,
}

struct Second {
    lags: Vec<u64>,
    held: u64,
}

impl Replay {
    /// A recording as it was, from the time on when the group was under way; what is between `from` and `to` is repeated, as if it
    /// had lasted an hour. What was held by then is still held when the part begins again.
    #[must_use]
    pub fn new(recording: &Recording, (from, to): (f64, f64)) -> Self {
        let second = |row: &Row, before: u64| Second { lags: row.lags(), held: before + row.held };
        let under_way = recording.rows.iter().filter(|row| row.under_way());
        let mut seconds: Vec<Second> =
            under_way.filter(|row| row.at < from).map(|row| second(row, 0)).collect();
        let part: Vec<&Row> = recording.between(from, to).filter(|row| row.under_way()).collect();
        let mut before = 0;
        while !part.is_empty() && (seconds.len() as u64) < REPLAY_SECONDS {
            seconds.extend(part.iter().map(|row| second(row, before)));
            before = seconds.last().map_or(0, |last| last.held);
        }
        seconds.extend(recording.between(to, f64::MAX).map(|row| second(row, 0)));
        Self { seconds, replicas: recording.rows.last().map_or(1, |row| row.replicas) }
    }

    /// What the autoscaler does. `held`: as it would be if held deliveries were lag.
    #[must_use]
    pub fn run(&self, figures: &Figures, (keda, hpa_at): (u64, u64), held: bool) -> Run {
        let Figures { limits, behavior, trigger, polling_interval, .. } = figures;
        let mut replicas = self.replicas.clamp(limits.min_replicas, limits.max_replicas);
        let mut hpa = Hpa::new(*limits, behavior.clone(), trigger.lag_threshold, 0, replicas);
        let mut metric = trigger.lag_threshold * u64::from(replicas);
        let mut run = Run::default();
        for (now, second) in (0..).zip(&self.seconds) {
            let syncs = now % SYNC_SECONDS == hpa_at % SYNC_SECONDS;
            if now % polling_interval == keda % polling_interval || (syncs && !figures.use_cached_metrics) {
                let mut lags = second.lags.clone();
                // The recording had fewer partitions; the others of the chart are empty.
                lags.resize(lags.len().max(figures.partitions as usize), 0);
                if held && let Some(first) = lags.first_mut() {
                    *first += second.held;
                }
                metric = trigger.metric(&lags);
            }
            run.lag_max = run.lag_max.max(second.lags.iter().sum());
            if syncs {
                let to = hpa.sync(now, replicas, metric);
                if to != replicas {
                    run.steps.push(Step { at: now, from: replicas, to });
                    run.rebalances.push(now);
                }
                replicas = to;
            }
        }
        run.last = replicas;
        run
    }

    /// Most deliveries that were held at a time.
    #[must_use]
    pub fn held_max(&self) -> u64 {
        self.seconds.iter().map(|second| second.held).max().unwrap_or(0)
    }
}
