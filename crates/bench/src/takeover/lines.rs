//! What the log of an owner says of its takeover.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

const ASSIGNED: &str = "partitions assigned";
const TAKEN_OVER: &str = "partition taken over";
/// The lines that are read.
const LINES: [&str; 2] = [ASSIGNED, TAKEN_OVER];

/// One of them, as far as it is of interest.
#[derive(Debug, Deserialize)]
struct Line {
    timestamp: String,
    partition: Option<u32>,
    count: Option<u64>,
    backlogs: Option<u64>,
    took_ms: Option<u64>,
}

/// Of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takeover {
    /// When the group gave it partitions.
    pub(super) assigned: SystemTime,
    /// From then until the last partition was taken over: its deliveries may start.
    pub(super) all: Duration,
    /// The longest that one partition took.
    pub(super) slowest: Duration,
    /// Blocked mailboxes that it knows.
    pub(super) backlogs: u64,
}

/// The takeover, once `partitions` of them are taken over. Those that were taken over twice count as they were last.
pub(super) fn takeover(log: &str, partitions: usize) -> Result<Option<Takeover>> {
    let mut assigned = None;
    let mut taken: BTreeMap<u32, (SystemTime, u64, u64)> = BTreeMap::new();
    // A line that is not whole yet is none.
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let message = line["message"].as_str().unwrap_or_default().to_owned();
        if !LINES.contains(&&*message) {
            continue;
        }
        let line: Line = serde_json::from_value(line).with_context(|| format!("the line '{message}'"))?;
        let at = || humantime::parse_rfc3339(&line.timestamp).context("a log line's time");
        match &*message {
            ASSIGNED if line.count > Some(0) && assigned.is_none() => {
                assigned = Some(at()?);
            }
            TAKEN_OVER => {
                let partition = line.partition.context("which partition was taken over")?;
                let (took, backlogs) = line.took_ms.zip(line.backlogs).context("how it was taken over")?;
                taken.insert(partition, (at()?, took, backlogs));
            }
            _ => {}
        }
    }
    let Some(assigned) = assigned.filter(|_| taken.len() >= partitions) else { return Ok(None) };
    let last = taken.values().map(|(at, ..)| *at).max().unwrap_or(assigned);
    Ok(Some(Takeover {
        assigned,
        all: last.duration_since(assigned).unwrap_or_default(),
        slowest: Duration::from_millis(taken.values().map(|(_, took, _)| *took).max().unwrap_or(0)),
        backlogs: taken.values().map(|(.., backlogs)| backlogs).sum(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_takeover_is_read_when_it_is_whole() {
        let line = |second: u32, rest: &str| {
            format!("{{\"timestamp\":\"2026-01-01T00:00:{second:02}.500000Z\",\"level\":\"INFO\",{rest}}}\n")
        };
        let mut log = line(0, r#""message":"partitions assigned","count":0"#)
            + &line(1, r#""message":"partitions assigned","count":2"#)
            + &line(2, r#""message":"partition taken over","partition":1,"backlogs":10,"took_ms":900"#);
        assert_eq!(takeover(&log, 2).expect("readable"), None);
        log += "not json\n";
        log += &line(4, r#""message":"partition taken over","partition":0,"backlogs":20,"took_ms":2900"#);
        let takeover = takeover(&log, 2).expect("readable").expect("whole");
        assert_eq!((takeover.all, takeover.slowest), (Duration::from_secs(3), Duration::from_millis(2900)));
        assert_eq!(takeover.backlogs, 30);
    }

    /// A field that is written otherwise than it is read must not look like a takeover that never comes.
    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        let line = r#"{"timestamp":"2026-01-01T00:00:01Z","message":"partition taken over","took_ms":"900"}"#;
        let error = takeover(line, 1).expect_err("took_ms is a text");
        assert!(format!("{error:#}").starts_with("the line 'partition taken over': "), "{error:#}");
    }
}
