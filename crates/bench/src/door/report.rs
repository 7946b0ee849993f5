//! From turns to figures: medians over the rounds, ratios within them.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::Variant;
use super::load::Taken;
use crate::figures::{median, percentile, ratio, rounded};

/// The door reaches this share of the floor's events/s.
const FLOOR_GOAL: f64 = 0.7;
/// The door with sizing reaches this share of the events/s without.
const SIZING_GOAL: f64 = 0.95;
/// By how much a slow Redis may raise the door's p99: the budget of a read (`mailrail_limits::READ_BUDGET`).
const SLOW_GOAL_MS: f64 = 50.0;

/// Of one turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    pub(super) events_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Where waits that meet a few requests in a thousand show.
    p999_ms: f64,
    /// CPU time of the server for each event; `None` where the system does not tell.
    cpu_us: Option<f64>,
}

/// What the last line holds.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    events_per_s: f64,
    floor_ratio: f64,
    sizing_ratio: f64,
    p99_ratio_slow_redis: f64,
}

/// The figures of all turns, in the order of the rounds.
#[derive(Debug, Default)]
pub(super) struct Report {
    turns: [Vec<Figures>; Variant::ALL.len()],
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
    pub(super) fn of(taken: Taken, cpu: Option<Duration>) -> Self {
        let Taken { accepted, elapsed, mut latencies } = taken;
        latencies.sort_unstable();
        let ms = |share: f64| f64::from(percentile(&latencies, share)) / 1_000.0;
        let events = accepted as f64;
        Self {
            events_per_s: events / elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            p50_ms: ms(0.50),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            cpu_us: cpu.map(|it| it.as_secs_f64() * 1e6 / events.max(1.0)),
        }
    }
}

impl Report {
    pub(super) fn add(&mut self, variant: Variant, figures: Figures) {
        self.turns[variant as usize].push(figures);
    }

    fn all(&self, variant: Variant, figure: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.turns[variant as usize].iter().map(figure).collect()
    }

    fn median(&self, variant: Variant, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(self.all(variant, figure))
    }

    fn ratio(&self, of: Variant, to: Variant, figure: impl Fn(&Figures) -> f64 + Copy) -> f64 {
        ratio(&self.all(of, figure), &self.all(to, figure))
    }

    pub(super) fn summary(&self) -> Summary {
        let (rate, p99) = (|it: &Figures| it.events_per_s, |it: &Figures| it.p99_ms);
        Summary {
            events_per_s: self.median(Variant::SizingOn, rate).round(),
            floor_ratio: rounded(self.ratio(Variant::SizingOn, Variant::Floor, rate)),
            sizing_ratio: rounded(self.ratio(Variant::SizingOn, Variant::SizingOff, rate)),
            p99_ratio_slow_redis: rounded(self.ratio(Variant::SlowRedis, Variant::SizingOn, p99)),
        }
    }

    /// For people: a line for each variant, and what became of the goals.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "\n{:<18}{:>10}{:>19}{:>10}{:>10}{:>10}{:>15}\n",
            "", "events/s", "lowest to highest", "p50 ms", "p99 ms", "p99.9 ms", "CPU us/event"
        );
        for variant in Variant::ALL {
            let mut rates = self.all(variant, |it| it.events_per_s);
            rates.sort_by(f64::total_cmp);
            let (low, high) = (rates.first().unwrap_or(&0.0), rates.last().unwrap_or(&0.0));
            let cpu: Option<Vec<f64>> = self.turns[variant as usize].iter().map(|it| it.cpu_us).collect();
            let cpu = cpu.map_or_else(|| "-".to_owned(), |it| format!("{:.0}", median(it)));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:<18}{:>10.0}{:>19}{:>10.2}{:>10.2}{:>10.2}{cpu:>15}",
                variant.name(),
                median(rates.clone()),
                format!("{low:.0} to {high:.0}"),
                self.median(variant, |it| it.p50_ms),
                self.median(variant, |it| it.p99_ms),
                self.median(variant, |it| it.p999_ms),
            );
        }
        let summary = self.summary();
        let slower =
            self.median(Variant::SlowRedis, |it| it.p99_ms) - self.median(Variant::SizingOn, |it| it.p99_ms);
        text += "\nmedians over the rounds; ratios are taken within a round\n";
        for (what, is, goal, met) in [
            ("of the floor", summary.floor_ratio, ">= 0.70".to_owned(), summary.floor_ratio >= FLOOR_GOAL),
            ("with sizing", summary.sizing_ratio, ">= 0.95".to_owned(), summary.sizing_ratio >= SIZING_GOAL),
            ("slow redis, ms on p99", slower, format!("<= {SLOW_GOAL_MS:.0}"), slower <= SLOW_GOAL_MS),
        ] {
            let met = if met { "met" } else { "missed" };
            let _ = writeln!(text, "{what:<22}{is:>8.2}   goal {goal}: {met}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(events_per_s: f64, p99_ms: f64) -> Figures {
        Figures { events_per_s, p50_ms: 1.0, p99_ms, p999_ms: p99_ms, cpu_us: None }
    }

    /// N24: figures are ratios within a round. The second one was slow for all: it changes no ratio.
    #[test]
    fn what_slows_a_whole_round_down_cancels_out() {
        let mut report = Report::default();
        for speed in [1.0, 0.1, 1.0] {
            report.add(Variant::Floor, figures(1_000.0 * speed, 10.0));
            report.add(Variant::SizingOn, figures(800.0 * speed, 10.0));
            report.add(Variant::SizingOff, figures(1_000.0 * speed, 10.0));
            report.add(Variant::SlowRedis, figures(700.0 * speed, 15.0));
        }
        let expected =
            Summary { events_per_s: 800.0, floor_ratio: 0.8, sizing_ratio: 0.8, p99_ratio_slow_redis: 1.5 };
        assert_eq!(report.summary(), expected);
        let table = report.table();
        assert!(table.contains("goal >= 0.70: met") && table.contains("goal >= 0.95: missed"), "{table}");
        assert!(table.contains("goal <= 50: met"), "{table}");
    }

    #[test]
    fn the_last_line_has_the_four_figures() {
        let line = serde_json::to_string(&Report::default().summary()).expect("json");
        assert_eq!(
            line,
            r#"{"events_per_s":0.0,"floor_ratio":0.0,"sizing_ratio":0.0,"p99_ratio_slow_redis":0.0}"#
        );
    }
}
