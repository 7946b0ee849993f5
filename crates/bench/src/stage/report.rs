//! From turns to figures: medians over the rounds, ratios within them.

use std::fmt::Write as _;

use serde::Serialize;

use super::turn::Turn;
use crate::figures::{median, ratio, rounded};

/// The stage reaches this share of the bare loop's rate.
const GOAL: f64 = 0.7;

/// What the last line holds.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    stage_ratio: f64,
    events_per_s: f64,
    floor_per_s: f64,
    stage_cpu_us: f64,
    floor_cpu_us: f64,
}

/// The figures of all turns, in the order of the rounds.
#[derive(Debug, Default)]
pub(super) struct Report {
    stage: Vec<Turn>,
    floor: Vec<Turn>,
}

impl Report {
    pub(super) fn add(&mut self, stage: bool, turn: Turn) {
        if stage { self.stage.push(turn) } else { self.floor.push(turn) }
    }

    pub(super) fn summary(&self) -> Summary {
        let rates = |turns: &[Turn]| turns.iter().map(|turn| turn.per_s).collect::<Vec<_>>();
        let cpu = |turns: &[Turn]| median(turns.iter().filter_map(|turn| turn.cpu_us).collect());
        Summary {
            stage_ratio: rounded(ratio(&rates(&self.stage), &rates(&self.floor))),
            events_per_s: median(rates(&self.stage)).round(),
            floor_per_s: median(rates(&self.floor)).round(),
            stage_cpu_us: rounded(cpu(&self.stage)),
            floor_cpu_us: rounded(cpu(&self.floor)),
        }
    }

    /// For people: a line for each, and what became of the goal.
    pub(super) fn table(&self) -> String {
        let summary = self.summary();
        let mut text =
            format!("\n{:<12}{:>12}{:>24}{:>16}\n", "", "events/s", "lowest to highest", "CPU us/event");
        let rows = [
            ("match", &self.stage, summary.events_per_s, summary.stage_cpu_us),
            ("bare loop", &self.floor, summary.floor_per_s, summary.floor_cpu_us),
        ];
        for (name, turns, per_s, cpu) in rows {
            let of = |pick: fn(f64, f64) -> f64, from| turns.iter().map(|turn| turn.per_s).fold(from, pick);
            let range = format!("{:.0} to {:.0}", of(f64::min, f64::INFINITY), of(f64::max, 0.0));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<12}{per_s:>12.0}{range:>24}{cpu:>16.1}");
        }
        let met = if summary.stage_ratio >= GOAL { "met" } else { "missed" };
        let _ = writeln!(
            text,
            "\nmedians over the rounds; the ratio is taken within a round\nof the loop {:.2}   goal >= {GOAL:.2}: {met}",
            summary.stage_ratio
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second round was slow for both: it changes no ratio.
    #[test]
    fn the_ratio_is_taken_within_a_round() {
        let mut report = Report::default();
        for speed in [1.0, 0.1, 1.0] {
            report.add(true, Turn { per_s: 80_000.0 * speed, cpu_us: Some(8.0) });
            report.add(false, Turn { per_s: 100_000.0 * speed, cpu_us: Some(2.0) });
        }
        let line = serde_json::to_string(&report.summary()).expect("json");
        assert_eq!(
            line,
            r#"{"stage_ratio":0.8,"events_per_s":80000.0,"floor_per_s":100000.0,"stage_cpu_us":8.0,"floor_cpu_us":2.0}"#
        );
        assert!(report.table().contains("0.80   goal >= 0.70: met"), "{}", report.table());
    }
}
