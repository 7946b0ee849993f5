//! `mailrail classes`: the options of mailboxes, listed and changed at run time.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use mailrail_egress::operator::ApiClient;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Output;
use super::access::ControlArgs;
use super::segment::segment;

const PATH: &str = "/v1/mailbox-classes";

/// Arguments of `mailrail classes`.
#[derive(Debug, clap::Args)]
pub(crate) struct ClassesArgs {
    #[command(subcommand)]
    pub(crate) command: ClassesCommand,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// What to do with classes.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ClassesCommand {
    /// List every class
    List,
    /// Create or change a class; options that are not given stay as they are
    Set(SetArgs),
    /// Delete a class that nothing uses
    Delete {
        /// Its id
        id: String,
    },
}

/// Arguments of `mailrail classes set`.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// Its id
    pub(crate) id: String,
    /// Whether order may be given up for width; needed when the class is new
    #[arg(long, value_name = "true|false")]
    pub(crate) tolerates_reordering: Option<bool>,
    /// Requests that a pass of the delivery pool has at once
    #[arg(long)]
    pub(crate) threads: Option<u32>,
    /// Payloads of each of them in a pass
    #[arg(long)]
    pub(crate) payloads_per_thread: Option<u32>,
    /// Widest split when reordering is tolerated
    #[arg(long)]
    pub(crate) buckets_max: Option<u32>,
    /// Width when it is not
    #[arg(long)]
    pub(crate) fixed_buckets: Option<u32>,
    /// Whose turn it is when not everything can be sent at once: 1, first, to 10
    #[arg(long)]
    pub(crate) priority: Option<u32>,
}

/// Lists or changes classes and prints what they are now.
///
/// # Errors
/// When the control API does not answer or refuses.
pub(crate) async fn run(args: ClassesArgs) -> Result<()> {
    let answer = answer(&args.control.client()?, &args.command).await?;
    args.output.print(&answer, shown)
}

/// Carries the command out and gives the API's answer; nothing after a deletion.
pub(super) async fn answer(api: &ApiClient, command: &ClassesCommand) -> Result<Value> {
    Ok(match command {
        // There are few of them: one page holds them.
        ClassesCommand::List => api.get(&format!("{PATH}?limit=1000")).await?,
        ClassesCommand::Set(set) => api.put(&format!("{PATH}/{}", segment(&set.id)), &options(set)).await?,
        ClassesCommand::Delete { id } => api.delete(&format!("{PATH}/{}", segment(id))).await?,
    })
}

fn options(set: &SetArgs) -> Value {
    let SetArgs {
        id: _,
        tolerates_reordering,
        threads,
        payloads_per_thread,
        buckets_max,
        fixed_buckets,
        priority,
    } = set;
    let mut body = Map::new();
    if let Some(flag) = tolerates_reordering {
        body.insert("tolerates_reordering".to_owned(), (*flag).into());
    }
    for (name, value) in [
        ("threads", threads),
        ("payloads_per_thread", payloads_per_thread),
        ("buckets_max", buckets_max),
        ("fixed_buckets", fixed_buckets),
        ("priority", priority),
    ] {
        if let Some(value) = value {
            body.insert(name.to_owned(), (*value).into());
        }
    }
    Value::Object(body)
}

#[derive(Deserialize)]
struct Class {
    id: String,
    tolerates_reordering: bool,
    threads: u32,
    payloads_per_thread: u32,
    buckets_max: u32,
    fixed_buckets: u32,
    priority: u8,
}

/// A list, one class or nothing, for people.
fn shown(answer: &Value) -> Result<String> {
    let items = match answer {
        Value::Null => return Ok("deleted\n".to_owned()),
        one if one.get("items").is_none() => std::slice::from_ref(one),
        list => list["items"].as_array().map_or(&[][..], Vec::as_slice),
    };
    let mut out = String::new();
    writeln!(
        out,
        "{:<20}{:<12}{:>8}{:>22}{:>10}{:>10}",
        "class", "reordering", "threads", "payloads per thread", "buckets", "priority"
    )?;
    for item in items {
        let class: Class = serde_json::from_value(item.clone()).context("the answer of the control API")?;
        let Class { id, threads, payloads_per_thread, priority, .. } = &class;
        let (order, buckets) = if class.tolerates_reordering {
            ("tolerated", format!("1 to {}", class.buckets_max))
        } else {
            ("never", format!("{}", class.fixed_buckets))
        };
        writeln!(out, "{id:<20}{order:<12}{threads:>8}{payloads_per_thread:>22}{buckets:>10}{priority:>10}")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_are_shown_by_what_their_width_follows() {
        let class = |id: &str, tolerant: bool| json!({ "id": id, "tolerates_reordering": tolerant, "threads": 4, "payloads_per_thread": 40, "buckets_max": 64, "fixed_buckets": 10, "priority": 5 });
        let text =
            shown(&json!({ "items": [class("strict", false), class("tolerant", true)], "next": null }))
                .expect("text");
        let lines: Vec<_> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1..], ["strict never 4 40 10 5", "tolerant tolerated 4 40 1 to 64 5"]);
        assert_eq!(shown(&class("a", true)).expect("text").lines().count(), 2);
        assert_eq!(shown(&Value::Null).expect("text"), "deleted\n");
        assert!(shown(&json!({})).is_err());
    }
}
