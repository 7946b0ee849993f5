//! Recorded lag, as `mailrail-bench lag` writes it.

use super::figures::Role;
use super::keda::PartitionOffsets;

/// Names and texts of the recordings that belong to the simulation.
const RECORDED: [(&str, &str); 8] = [
    ("deliver-one", include_str!("../../data/lag/deliver-one.csv")),
    ("deliver-two", include_str!("../../data/lag/deliver-two.csv")),
    ("deliver-grow", include_str!("../../data/lag/deliver-grow.csv")),
    ("deliver-steady", include_str!("../../data/lag/deliver-steady.csv")),
    ("deliver-outage", include_str!("../../data/lag/deliver-outage.csv")),
    ("deliver-rollout", include_str!("../../data/lag/deliver-rollout.csv")),
    ("match-one", include_str!("../../data/lag/match-one.csv")),
    ("match-steady", include_str!("../../data/lag/match-steady.csv")),
];
/// Most samples of a recording.
const ROWS_MAX: usize = 10_000;

/// One recording.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// Samples in order, about one a second; at least two, all of as many partitions.
    pub rows: Vec<Row>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Seconds since the start.
    pub at: f64,
    /// Replicas that were ready and not told to stop.
    pub replicas: u32,
    /// Deliveries that waited in the journal.
    pub held: u64,
    /// What happened since the sample before.
    pub events: Vec<String>,
    /// What KEDA would have read.
    pub partitions: Vec<PartitionOffsets>,
}

/// Why a text is no recording.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// A line that is not a sample.
    #[error("recording {name}, line {line}: {what} cannot be read; record it again with `make record-lag`")]
    Line {
        /// Which recording.
        name: String,
        /// Which line, from 1 on.
        line: usize,
        /// Which column.
        what: &'static str,
    },
    /// Too few samples, or too many, or of changing partitions or times.
    #[error("recording {0} needs 2 to {ROWS_MAX} samples of the same partitions in the order of time")]
    Samples(String),
    /// Nobody recorded it.
    #[error("there is no recording {0}")]
    Unknown(String),
}

impl Row {
    /// The lag of each partition by KEDA's rule.
    #[must_use]
    pub fn lags(&self) -> Vec<u64> {
        self.partitions.iter().map(|partition| partition.lag()).collect()
    }

    /// Records that wait.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.lags().iter().sum()
    }

    /// Records that the group has finished.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.partitions.iter().filter_map(|partition| partition.committed).sum()
    }

    /// Records that ever came.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.end).sum()
    }

    /// Whether the group committed something everywhere: it is under way.
    #[must_use]
    pub fn under_way(&self) -> bool {
        self.partitions.iter().all(|partition| partition.committed.is_some())
    }

    /// Whether this happened.
    #[must_use]
    pub fn has(&self, event: &str) -> bool {
        self.events.iter().any(|it| it == event)
    }
}

impl Recording {
    /// The recording of a role: `one`, `steady`, …
    ///
    /// # Errors
    ///
    /// If there is none, or its file is not what the recorder writes.
    pub fn of(role: Role, what: &str) -> Result<Self, Malformed> {
        let name = format!("{}-{what}", role.name());
        match RECORDED.iter().find(|(recorded, _)| *recorded == name) {
            Some((_, text)) => Self::parse(&name, text),
            None => Err(Malformed::Unknown(name)),
        }
    }

    /// Reads the text of a recording.
    ///
    /// # Errors
    ///
    /// If it is not what the recorder writes; the line is named.
    pub fn parse(name: &str, text: &str) -> Result<Self, Malformed> {
        let mut rows: Vec<Row> = Vec::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).skip(1);
        for (number, line) in lines {
            let malformed = |what| Malformed::Line { name: name.to_owned(), line: number + 1, what };
            rows.push(row(line).map_err(malformed)?);
        }
        let same =
            |pair: &[Row]| pair[0].partitions.len() == pair[1].partitions.len() && pair[0].at < pair[1].at;
        if !(2..=ROWS_MAX).contains(&rows.len()) || !rows.windows(2).all(same) {
            return Err(Malformed::Samples(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), rows })
    }

    /// Samples between two times in seconds.
    pub fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.at >= from && row.at < to)
    }

    /// The time at which something first happened.
    #[must_use]
    pub fn when(&self, event: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.has(event)).map(|row| row.at)
    }

    /// Length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.rows.last().map_or(0.0, |row| row.at)
    }
}

fn row(line: &str) -> Result<Row, &'static str> {
    let mut fields = line.split(',');
    let mut next = |what| fields.next().ok_or(what);
    let at: u64 = next("at_ms")?.parse().map_err(|_| "at_ms")?;
    let replicas = next("replicas")?.parse().map_err(|_| "replicas")?;
    let held = next("held")?.parse().map_err(|_| "held")?;
    let events = next("events")?.split_whitespace().map(str::to_owned).collect();
    let numbers = |text: &str, what| -> Result<Vec<i64>, &'static str> {
        text.split_whitespace().map(|number| number.parse().map_err(|_| what)).collect()
    };
    let (ends, committed) = (numbers(next("ends")?, "ends")?, numbers(next("committed")?, "committed")?);
    if ends.is_empty() || ends.len() != committed.len() {
        return Err("committed");
    }
    let partition = |(end, committed): (&i64, &i64)| {
        let end = u64::try_from(*end).map_err(|_| "ends")?;
        Ok(PartitionOffsets { end, committed: u64::try_from(*committed).ok() })
    };
    let partitions = ends.iter().zip(&committed).map(partition).collect::<Result<_, _>>()?;
    Ok(Row { at: at as f64 / 1000.0, replicas, held, events, partitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# recording: x\nat_ms,replicas,held,events,ends,committed\n";

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let text = format!("{HEAD}4,2,0,starting ready,5 7,-1 -1\n1004,2,3,,8 9,6 9\n");
        let recording = Recording::parse("x", &text).expect("a recording");
        let [first, second] = &recording.rows[..] else { panic!("two samples") };
        assert_eq!((first.lag(), first.under_way(), first.has("ready")), (12, false, true));
        assert_eq!(
            (second.lags(), second.held, second.committed(), second.arrived()),
            (vec![2, 0], 3, 15, 17)
        );
        assert_eq!(
            (recording.when("ready"), recording.when("outage"), recording.seconds()),
            (Some(0.004), None, 1.004)
        );
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let refused =
            |rows: &str| Recording::parse("x", &format!("{HEAD}{rows}")).expect_err("refused").to_string();
        assert!(refused("4,2,0,,5 7,-1 -1\n1004,2,0,,5,1 2\n").contains("line 4: committed"));
        assert!(refused("four,2,0,,5,1\n").contains("line 3: at_ms"));
        assert!(refused("4,2,0,,-5,1\n").contains("ends"));
        assert!(refused("4,2\n").contains("held"));
        assert!(refused("4,2,0,,5,1\n").contains("2 to 10000 samples"));
        assert!(refused("4,2,0,,5,1\n4,2,0,,5,1\n").contains("order of time"));
        assert!(Recording::of(Role::Match, "grow").expect_err("none").to_string().contains("match-grow"));
    }

    #[test]
    fn the_recordings_that_belong_to_the_simulation_can_be_read() {
        for (name, text) in RECORDED {
            assert!(text.contains("# how: `make record-lag`") && text.contains("# machine: "), "{name}");
            let recording = Recording::parse(name, text).expect("a recording");
            assert!(recording.rows.last().is_some_and(Row::under_way), "{name}");
        }
    }
}
