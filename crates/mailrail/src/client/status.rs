//! `mailrail status`: what waits, per pipeline.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mailrail_control::{ParkedStatus, QueueStatus, Status, TopicStatus};
use serde::Deserialize as _;

use super::Output;
use super::access::ControlArgs;

/// Arguments of `mailrail status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Asks the control API and prints its answer.
///
/// # Errors
/// When the control API does not answer or refuses.
pub(crate) async fn run(args: StatusArgs) -> Result<()> {
    let answer = args.control.client()?.get("/v1/status").await?;
    args.output.print(&answer, |answer| {
        shown(&Status::deserialize(answer).context("the answer of the control API")?)
    })
}

fn shown(status: &Status) -> Result<String> {
    let mut out = String::new();
    for pipeline in &status.pipelines {
        writeln!(out, "pipeline {}", pipeline.pipeline)?;
        let QueueStatus { topic, partitions, waiting, error } = &pipeline.events;
        row(&mut out, "events", *waiting, "waiting", error.as_deref(), topic, *partitions)?;
        let QueueStatus { topic, partitions, waiting, error } = &pipeline.deliveries;
        row(&mut out, "deliveries", *waiting, "waiting", error.as_deref(), topic, *partitions)?;
        parked(&mut out, &pipeline.parked)?;
        let TopicStatus { topic, partitions, records, error } = &pipeline.dead_letters;
        row(&mut out, "dead letters", *records, "kept", error.as_deref(), topic, *partitions)?;
        let TopicStatus { topic, partitions, records, error } = &pipeline.attempts;
        row(&mut out, "attempts", *records, "kept", error.as_deref(), topic, *partitions)?;
    }
    let current = if status.store.current { "current" } else { "behind: the store does not answer" };
    writeln!(out, "set-up at change {}, {current}", status.store.seq)?;
    Ok(out)
}

/// What waits in mailboxes for something else than being read.
fn parked(out: &mut String, of: &ParkedStatus) -> Result<()> {
    let least = if of.truncated { "at least " } else { "" };
    let mut what = String::new();
    if let Some(mailboxes) = of.mailboxes.filter(|mailboxes| *mailboxes > 0) {
        write!(what, "; in {least}{mailboxes} mailbox(es)")?;
        for (at, (reason, count)) in of.held.iter().enumerate() {
            write!(what, "{}{count} {reason}", if at == 0 { ": " } else { ", " })?;
        }
    }
    if let Some(seconds) = of.oldest_seconds {
        write!(what, "; the oldest for {}", humantime::format_duration(Duration::from_secs(seconds)))?;
    }
    let known = match (of.truncated, of.records) {
        (true, Some(_)) => "; there is more than was looked at: these are lower bounds",
        _ => "",
    };
    row(out, "parked", of.records, "waiting", of.error.as_deref(), &of.topic, of.partitions)?;
    out.truncate(out.trim_end().len());
    writeln!(out, "{what}{known}")?;
    Ok(())
}

fn row(
    out: &mut String,
    name: &str,
    count: Option<u64>,
    what: &str,
    error: Option<&str>,
    topic: &str,
    partitions: u32,
) -> Result<()> {
    let count = count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    let why = error.map(|error| format!("; {error}")).unwrap_or_default();
    writeln!(out, "  {name:<13}{count:>12} {what:<8} {topic}, {partitions} partition(s){why}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use mailrail_control::{PipelineStatus, StoreStatus};

    use super::*;

    #[test]
    fn unknown_is_not_shown_as_zero() {
        let queue =
            |topic: &str, waiting| QueueStatus { topic: topic.into(), partitions: 8, waiting, error: None };
        let topic =
            |topic: &str, records| TopicStatus { topic: topic.into(), partitions: 8, records, error: None };
        let events =
            QueueStatus { error: Some("the log did not answer".into()), ..queue("events.default", None) };
        let status = Status {
            pipelines: vec![PipelineStatus {
                pipeline: "default".into(),
                events,
                deliveries: queue("deliveries.default", Some(3400)),
                parked: ParkedStatus {
                    topic: "journal.default".into(),
                    partitions: 8,
                    records: Some(120),
                    mailboxes: Some(7),
                    held: [("backoff".to_owned(), 5), ("paused".to_owned(), 2)].into(),
                    oldest_seconds: Some(3_720),
                    ..ParkedStatus::default()
                },
                dead_letters: topic("dead-letters.default", Some(0)),
                attempts: topic("attempts.default", Some(12)),
            }],
            store: StoreStatus { seq: 17, current: false },
        };
        let text = shown(&status).expect("text");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "pipeline default");
        assert_eq!(
            lines[1],
            "  events            unknown waiting  events.default, 8 partition(s); the log did not answer"
        );
        assert_eq!(lines[2], "  deliveries           3400 waiting  deliveries.default, 8 partition(s)");
        assert_eq!(
            lines[3],
            "  parked                120 waiting  journal.default, 8 partition(s); in 7 mailbox(es): 5 backoff, 2 paused; \
             the oldest for 1h 2m"
        );
        assert!(lines[4].contains(" 0 kept "), "{text}");
        assert_eq!(lines[6], "set-up at change 17, behind: the store does not answer");

        let mut status = status;
        status.pipelines[0].parked.truncated = true;
        let text = shown(&status).expect("text");
        assert!(text.contains("in at least 7 mailbox(es)") && text.contains("lower bounds"), "{text}");
        status.pipelines[0].parked =
            ParkedStatus { error: Some("the log did not answer".into()), ..ParkedStatus::default() };
        let text = shown(&status).expect("text");
        assert!(text.lines().nth(3).is_some_and(|line| line.contains("unknown waiting")), "{text}");
        assert!(text.lines().nth(3).is_some_and(|line| line.ends_with("; the log did not answer")), "{text}");
        status.pipelines[0].deliveries.waiting = None;
        status.pipelines[0].deliveries.error = Some("partition 3 is stopped: records are gone".into());
        let text = shown(&status).expect("text");
        assert_eq!(
            text.lines().nth(2),
            Some(
                "  deliveries        unknown waiting  deliveries.default, 8 partition(s); \
                 partition 3 is stopped: records are gone"
            )
        );
    }
}
