//! From kills to figures.

use std::time::Duration;

use serde::Serialize;

use super::lines::Takeover;
use crate::figures::{median, rounded};

/// All partitions are taken over within this.
const GOAL_SECONDS: f64 = 2.0;

/// What the last line holds.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    blocked_mailboxes: u32,
    /// From the assignment until the last partition was taken over; the longest of all rounds.
    takeover_seconds: f64,
    /// The same, the median of the rounds.
    takeover_median_seconds: f64,
    /// The longest that one partition took.
    partition_seconds: f64,
    /// From the assignment until a healthy delivery of each partition had arrived; the longest of all rounds.
    first_delivery_seconds: f64,
    /// Records in the journal at the end.
    journal_records: u64,
}

/// The figures of all rounds.
#[derive(Debug)]
pub(super) struct Report {
    mailboxes: u32,
    rounds: Vec<(Takeover, Duration)>,
    journal_records: u64,
}

impl Report {
    pub(super) const fn new(mailboxes: u32) -> Self {
        Self { mailboxes, rounds: Vec::new(), journal_records: 0 }
    }

    pub(super) fn add(&mut self, takeover: Takeover, first_deliveries: Duration) {
        self.rounds.push((takeover, first_deliveries));
    }

    pub(super) fn set_journal_records(&mut self, records: u64) {
        self.journal_records = records;
    }

    pub(super) fn summary(&self) -> Summary {
        let longest = |figure: fn(&(Takeover, Duration)) -> Duration| {
            let longest = self.rounds.iter().map(figure).max().unwrap_or_default();
            rounded(longest.as_secs_f64())
        };
        let all = self.rounds.iter().map(|(takeover, _)| takeover.all.as_secs_f64()).collect();
        Summary {
            blocked_mailboxes: self.mailboxes,
            takeover_seconds: longest(|(takeover, _)| takeover.all),
            takeover_median_seconds: rounded(median(all)),
            partition_seconds: longest(|(takeover, _)| takeover.slowest),
            first_delivery_seconds: longest(|(_, first)| *first),
            journal_records: self.journal_records,
        }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let summary = self.summary();
        let met = if summary.takeover_seconds <= GOAL_SECONDS { "met" } else { "missed" };
        format!(
            "\nlongest of {} kills, from the assignment on\n{:<46}{:>8.3} s   goal <= {GOAL_SECONDS:.1}: {met}\n\
             {:<46}{:>8.3} s\n{:<46}{:>8.3} s\n",
            self.rounds.len(),
            "every partition taken over",
            summary.takeover_seconds,
            "one partition",
            summary.partition_seconds,
            "a healthy delivery of every partition arrived",
            summary.first_delivery_seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_last_line_has_the_longest_of_all_rounds() {
        let mut report = Report::new(50_000);
        for ms in [900, 2_500, 1_000] {
            let all = Duration::from_millis(ms);
            let slowest = all / 2;
            report
                .add(Takeover { assigned: SystemTime::UNIX_EPOCH, all, slowest, backlogs: 50_000 }, all * 2);
        }
        let line = serde_json::to_string(&report.summary()).expect("json");
        assert!(line.starts_with(r#"{"blocked_mailboxes":50000,"takeover_seconds":2.5,"#), "{line}");
        assert!(line.contains(r#""takeover_median_seconds":1.0"#), "{line}");
        assert!(report.table().contains("missed"));
    }
}
