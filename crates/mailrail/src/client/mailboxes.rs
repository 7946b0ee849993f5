//! `mailrail mailboxes`: what waits in which mailbox, how wide it is split, and why.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mailrail_control::{MailboxList, MailboxSizing, MailboxStatus};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize as _;
use serde_json::Value;

use super::Output;
use super::access::ControlArgs;
use super::unknown;
use super::when::when;

const PATH: &str = "/v1/mailboxes";

/// Arguments of `mailrail mailboxes`.
#[derive(Debug, clap::Args)]
pub(crate) struct MailboxesArgs {
    /// Mailboxes of recipients, or of senders on their way to match
    #[arg(long, value_enum, default_value_t = QueueName::Recipient)]
    pub(crate) queue: QueueName,
    /// Of this tenant only
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// How many of them, the deepest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Which mailboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum QueueName {
    /// On the way to endpoints
    Recipient,
    /// On the way to match
    Source,
}

/// Asks the control API and prints its answer.
///
/// # Errors
/// When the control API does not answer or refuses.
pub(crate) async fn run(args: MailboxesArgs) -> Result<()> {
    let (api, tenant) = (args.control.client()?, args.tenant.as_deref());
    let answer = api.get(&path(args.queue, tenant, args.limit)).await?;
    if answer["mailboxes"] == 0 {
        unknown::warn(&api, tenant, None).await;
    }
    args.output.print(&answer, shown)
}

pub(super) fn path(queue: QueueName, tenant: Option<&str>, limit: u16) -> String {
    let queue = match queue {
        QueueName::Recipient => "recipient",
        QueueName::Source => "source",
    };
    let tenant = tenant.map(|tenant| format!("&tenant={}", utf8_percent_encode(tenant, NON_ALPHANUMERIC)));
    format!("{PATH}?queue={queue}&limit={limit}{}", tenant.unwrap_or_default())
}

const HEADINGS: [&str; 7] = ["mailbox", "class", "width", "why", "depth", "oldest", "held"];
/// Columns of numbers, which stand to the right.
const NUMBERS: [bool; 7] = [false, false, true, false, true, true, false];

/// A table, and what it does not show.
pub(super) fn shown(answer: &Value) -> Result<String> {
    let list = MailboxList::deserialize(answer).context("the answer of the control API")?;
    let rows: Vec<[String; 7]> = list.items.iter().flat_map(rows).collect();
    let widths: Vec<usize> = HEADINGS
        .iter()
        .enumerate()
        .map(|(at, heading)| rows.iter().map(|row| row[at].chars().count()).fold(heading.len(), usize::max))
        .collect();
    let mut out = String::new();
    for row in std::iter::once(&HEADINGS.map(str::to_owned)).chain(&rows) {
        let mut line = String::new();
        for ((cell, width), number) in row.iter().zip(&widths).zip(NUMBERS) {
            match number {
                true => write!(line, "{cell:>width$}  ")?,
                false => write!(line, "{cell:<width$}  ")?,
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    let MailboxList { mailboxes, records, .. } = list;
    write!(out, "{records} waiting in {mailboxes} mailbox(es) of the {} queue", list.queue)?;
    if list.next.is_some() {
        write!(out, "; the {} deepest are shown", list.items.len())?;
    }
    out.push('\n');
    if let Some(error) = &list.error {
        writeln!(out, "not known everywhere: {}", printable(error))?;
    } else if list.truncated {
        writeln!(
            out,
            "more waits than was looked at: depths are lower bounds, and mailboxes may be missing"
        )?;
    }
    Ok(out)
}

/// One line, and one more for each further class that sizes the mailbox.
fn rows(item: &MailboxStatus) -> Vec<[String; 7]> {
    let oldest = humantime::format_duration(Duration::from_secs(item.oldest_seconds)).to_string();
    let held = item.held.as_ref().map(|held| format!("{} until {}", held.reason, when(held.until_ms)));
    let first = [printable(&item.mailbox), item.depth.to_string(), oldest, held.unwrap_or_default()];
    let mut heads = std::iter::once(first).chain(std::iter::repeat_with(Default::default));
    let mut row = |class: String, width: String, why: String| {
        let [mailbox, depth, oldest, held] = heads.next().unwrap_or_default();
        [mailbox, class, width, why, depth, oldest, held]
    };
    if item.sizings.is_empty() {
        return vec![row("-".to_owned(), "-".to_owned(), "not set up any more".to_owned())];
    }
    item.sizings.iter().map(|it| row(it.class.clone(), it.width.to_string(), why(it))).collect()
}

fn why(sizing: &MailboxSizing) -> String {
    let mut out = sizing.why.clone();
    if let (Some(payloads), Some(unit)) = (sizing.payloads, sizing.unit) {
        // Writing to a String cannot fail.
        let _ = write!(out, ": {payloads} in 15 min, {unit} each");
    }
    if let Some(cap) = sizing.cap {
        let _ = write!(out, ", at most {cap}");
    }
    if let Some(integration) = &sizing.integration {
        let _ = write!(out, " (integration {integration})");
    }
    out
}

/// Keys are the log's: one that is none of ours may hold anything.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mailboxes_are_a_table() {
        let sizing = |class: &str, why: &str, width: u32, payloads: Option<u32>| {
            let of_rate = (why != "fixed").then_some((16, 64));
            json!({ "surface": "product_event", "class": class, "width": width, "why": why, "payloads": payloads,
                "unit": of_rate.map(|it| it.0), "cap": of_rate.map(|it| it.1) })
        };
        let mut forwarded = sizing("tolerant", "sizing_unavailable", 64, None);
        forwarded["integration"] = json!("gh");
        let item = |key: &str, depth: u32, oldest: u32, sizings: &[Value]| json!({ "mailbox": key, "depth": depth, "oldest_seconds": oldest, "sizings": sizings });
        let items = [
            item(
                "default::acme:main:push:3",
                1200,
                3661,
                &[sizing("tolerant", "bucketed", 8, Some(200)), forwarded],
            ),
            item("default::acme:other::0", 7, 0, &[sizing("strict", "fixed", 10, None)]),
            item("a\u{1b}[2Jb", 1, 59, &[]),
        ];
        let mut items = items;
        items[1]["held"] = json!({ "reason": "backoff", "until_ms": 1_700_000_000_123_i64 });
        let mut answer = json!({ "queue": "recipient", "mailboxes": 5, "records": 1300, "truncated": true, "items": items, "next": "1:a" });
        let text = shown(&answer).expect("text");
        let wanted = "\
mailbox                    class     width  why                                                    depth    oldest  held
default::acme:main:push:3  tolerant      8  bucketed: 200 in 15 min, 16 each, at most 64            1200  1h 1m 1s
                           tolerant     64  sizing_unavailable, at most 64 (integration gh)
default::acme:other::0     strict       10  fixed                                                      7        0s  backoff until 2023-11-14T22:13:20Z
a?[2Jb                     -             -  not set up any more                                        1       59s
1300 waiting in 5 mailbox(es) of the recipient queue; the 3 deepest are shown
more waits than was looked at: depths are lower bounds, and mailboxes may be missing
";
        let squeezed = |text: &str| {
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&text), squeezed(wanted), "{text}");
        let table: Vec<&str> = text.lines().take(5).collect();
        let end = |line: &str| line.find("  backoff").or_else(|| line.find("  held")).unwrap_or(line.len());
        assert!(
            [1, 3, 4].iter().all(|at| end(table[*at]) == end(table[0])),
            "numbers stand to the right\n{text}"
        );

        answer["error"] = json!("the log did not answer");
        assert!(shown(&answer).expect("text").ends_with("not known everywhere: the log did not answer\n"));
        let empty = json!({ "queue": "source", "mailboxes": 0, "records": 0, "truncated": false, "items": [], "next": null });
        assert!(shown(&empty).expect("text").ends_with("\n0 waiting in 0 mailbox(es) of the source queue\n"));
        assert!(shown(&json!({})).is_err());
    }

    #[test]
    fn a_tenant_stays_one_value() {
        assert_eq!(path(QueueName::Source, None, 5), "/v1/mailboxes?queue=source&limit=5");
        let odd = path(QueueName::Recipient, Some("a&limit=1"), 5);
        assert_eq!(odd, "/v1/mailboxes?queue=recipient&limit=5&tenant=a%26limit%3D1");
    }
}
