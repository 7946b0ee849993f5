//! From turns to figures: medians over the rounds, ratios within them.

use std::fmt::Write as _;

use serde::Serialize;

use super::turn::Turn;
use crate::figures::{median, ratio, rounded};

/// Deliver reaches this share of the bare client's rate.
const DELIVER_GOAL: f64 = 0.6;
/// The way from the door to the sink takes at most so many times as long as two hops.
const LATENCY_GOAL: f64 = 1.5;

/// Of one turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Latency {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Ways that an event may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Door, match, deliver, sink.
    Mailrail,
    /// Two bare hops, with the same settings.
    Hops,
    /// Two bare hops whose producers never wait for more records.
    EagerHops,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Mailrail, Self::Hops, Self::EagerHops];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mailrail => "door to sink",
            Self::Hops => "two hops",
            Self::EagerHops => "two hops, no linger",
        }
    }
}

/// What the last line holds.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    deliver_ratio: f64,
    e2e_p50_ratio: f64,
    e2e_p99_ratio: f64,
    deliveries_per_s: f64,
    floor_per_s: f64,
    deliver_cpu_us: f64,
    floor_cpu_us: f64,
    e2e_p50_ms: f64,
    e2e_p99_ms: f64,
    hops_p50_ms: f64,
    hops_p99_ms: f64,
    eager_hops_p50_ms: f64,
    eager_hops_p99_ms: f64,
}

/// The figures of all turns, in the order of the rounds.
#[derive(Debug, Default)]
pub(super) struct Report {
    deliver: Vec<Turn>,
    floor: Vec<Turn>,
    latencies: [Vec<Latency>; Way::ALL.len()],
}

impl Report {
    pub(super) fn add_turn(&mut self, deliver: bool, turn: Turn) {
        if deliver { self.deliver.push(turn) } else { self.floor.push(turn) }
    }

    pub(super) fn add_latency(&mut self, way: Way, latency: Latency) {
        self.latencies[way as usize].push(latency);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deliver.is_empty() || self.floor.is_empty()
    }

    fn latency(&self, way: Way, figure: impl Fn(&Latency) -> f64) -> Vec<f64> {
        self.latencies[way as usize].iter().map(figure).collect()
    }

    /// 0 where nothing was measured.
    pub(super) fn summary(&self) -> Summary {
        let (p50, p99) = (|it: &Latency| it.p50_ms, |it: &Latency| it.p99_ms);
        let times = |figure: fn(&Latency) -> f64| {
            rounded(ratio(&self.latency(Way::Mailrail, figure), &self.latency(Way::Hops, figure)))
        };
        let ms = |way, figure: fn(&Latency) -> f64| rounded(median(self.latency(way, figure)));
        Summary {
            deliver_ratio: rounded(ratio(&rates(&self.deliver), &rates(&self.floor))),
            e2e_p50_ratio: times(p50),
            e2e_p99_ratio: times(p99),
            deliveries_per_s: median(rates(&self.deliver)).round(),
            floor_per_s: median(rates(&self.floor)).round(),
            deliver_cpu_us: cpu(&self.deliver),
            floor_cpu_us: cpu(&self.floor),
            e2e_p50_ms: ms(Way::Mailrail, p50),
            e2e_p99_ms: ms(Way::Mailrail, p99),
            hops_p50_ms: ms(Way::Hops, p50),
            hops_p99_ms: ms(Way::Hops, p99),
            eager_hops_p50_ms: ms(Way::EagerHops, p50),
            eager_hops_p99_ms: ms(Way::EagerHops, p99),
        }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let mut text =
            format!("\n{:<22}{:>10}{:>19}{:>15}\n", "", "per s", "lowest to highest", "CPU us each");
        for (name, turns) in [("deliver", &self.deliver), ("bare client", &self.floor)] {
            let mut rates = rates(turns);
            rates.sort_by(f64::total_cmp);
            let (low, high) = (rates.first().unwrap_or(&0.0), rates.last().unwrap_or(&0.0));
            let range = format!("{low:.0} to {high:.0}");
            // Writing to a String cannot fail.
            let _ =
                writeln!(text, "{name:<22}{:>10.0}{range:>19}{:>15.0}", median(rates.clone()), cpu(turns));
        }
        let _ = writeln!(text, "\n{:<22}{:>10}{:>10}", "", "p50 ms", "p99 ms");
        for way in Way::ALL {
            let (p50, p99) =
                (median(self.latency(way, |it| it.p50_ms)), median(self.latency(way, |it| it.p99_ms)));
            let _ = writeln!(text, "{:<22}{p50:>10.2}{p99:>10.2}", way.name());
        }
        let summary = self.summary();
        text += "\nmedians over the rounds; ratios are taken within a round\n";
        for (what, is, goal, met) in [
            ("of the bare client", summary.deliver_ratio, ">= 0.60", summary.deliver_ratio >= DELIVER_GOAL),
            ("p50, of two hops", summary.e2e_p50_ratio, "<= 1.50", summary.e2e_p50_ratio <= LATENCY_GOAL),
            ("p99, of two hops", summary.e2e_p99_ratio, "<= 1.50", summary.e2e_p99_ratio <= LATENCY_GOAL),
        ] {
            let _ =
                writeln!(text, "{what:<22}{is:>8.2}   goal {goal}: {}", if met { "met" } else { "missed" });
        }
        text
    }
}

fn rates(turns: &[Turn]) -> Vec<f64> {
    turns.iter().map(|turn| turn.per_s).collect()
}

/// 0 where the system does not tell.
fn cpu(turns: &[Turn]) -> f64 {
    rounded(median(turns.iter().filter_map(|turn| turn.cpu_us).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_begins_with_the_three_ratios() {
        let mut report = Report::default();
        for speed in [1.0, 0.1, 1.0] {
            let turn = |per_s: f64| Turn { per_s: per_s * speed, cpu_us: Some(80.0), connections: 1 };
            report.add_turn(true, turn(700.0));
            report.add_turn(false, turn(1_000.0));
            let latency = |p50_ms: f64| Latency { p50_ms: p50_ms / speed, p99_ms: p50_ms * 3.0 / speed };
            report.add_latency(Way::Mailrail, latency(2.0));
            report.add_latency(Way::Hops, latency(1.0));
            report.add_latency(Way::EagerHops, latency(0.5));
        }
        let line = serde_json::to_string(&report.summary()).expect("json");
        let begin =
            r#"{"deliver_ratio":0.7,"e2e_p50_ratio":2.0,"e2e_p99_ratio":2.0,"deliveries_per_s":700.0,"#;
        assert!(line.starts_with(begin), "{line}");
        let table = report.table();
        assert!(table.contains("goal >= 0.60: met") && table.contains("goal <= 1.50: missed"), "{table}");
    }
}
