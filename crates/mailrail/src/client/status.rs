//! `mailrail status`: what waits, per pipeline.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use mailrail_control::{QueueStatus, Status, TopicStatus};

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
    match args.output {
        Output::Json => println!("{answer:#}"),
        Output::Text => {
            let status: Status = serde_json::from_value(answer).context("the answer of the control API")?;
            print!("{}", shown(&status)?);
        }
    }
    Ok(())
}

fn shown(status: &Status) -> Result<String> {
    let mut out = String::new();
    for pipeline in &status.pipelines {
        writeln!(out, "pipeline {}", pipeline.pipeline)?;
        let QueueStatus { topic, partitions, waiting, error } = &pipeline.events;
        row(&mut out, "events", *waiting, "waiting", error.as_deref(), topic, *partitions)?;
        let QueueStatus { topic, partitions, waiting, error } = &pipeline.deliveries;
        row(&mut out, "deliveries", *waiting, "waiting", error.as_deref(), topic, *partitions)?;
        let TopicStatus { topic, partitions, records, error } = &pipeline.dead_letters;
        row(&mut out, "dead letters", *records, "kept", error.as_deref(), topic, *partitions)?;
        let TopicStatus { topic, partitions, records, error } = &pipeline.attempts;
        row(&mut out, "attempts", *records, "kept", error.as_deref(), topic, *partitions)?;
    }
    let current = if status.store.current { "current" } else { "behind: the store does not answer" };
    writeln!(out, "set-up at change {}, {current}", status.store.seq)?;
    Ok(out)
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
        assert!(lines[3].contains(" 0 kept "), "{text}");
        assert_eq!(lines[5], "set-up at change 17, behind: the store does not answer");

        let mut status = status;
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
