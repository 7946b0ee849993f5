//! Answers as text for people.

use std::fmt::Write as _;

use anyhow::Result;
use mailrail_control::{
    LetterCount, LetterDetail, LetterList, LetterMore, LetterSummary, Payload, QuarantineList,
    QuarantinedRecord, ReplayStatus,
};

use crate::client::when::when;

/// A letter that may have been put back, or not.
const UNDECIDED: &str = "undecided";

/// A list of letters.
pub(super) fn letters(list: &LetterList) -> Result<String> {
    let headings = [
        "died at",
        "delivery",
        "tenant/endpoint",
        "event type",
        "reason",
        "status",
        "tries",
        "redriven",
        "position",
    ];
    let rows = list.items.iter().map(letter_row).collect();
    let mut out = table(headings, rows)?;
    rest(
        &mut out,
        list.items.len(),
        "dead letter(s)",
        (list.looked, list.next.is_some(), list.error.as_deref()),
    )?;
    Ok(out)
}

fn letter_row(item: &LetterSummary) -> [String; 9] {
    let Some(letter) = &item.letter else {
        let mut row: [String; 9] = Default::default();
        row[0] = when(item.written_at_ms);
        row[1] = format!("cannot be read: {}", item.problem.as_deref().unwrap_or_default());
        row[8].clone_from(&item.position);
        return row;
    };
    let redriven = match (letter.redriven, letter.redrives) {
        _ if letter.undecided => UNDECIDED.to_owned(),
        (Some(true), _) => "yes".to_owned(),
        (None, _) => "?".to_owned(),
        (Some(false), 0) => "no".to_owned(),
        (Some(false), times) => format!("no, {times} before"),
    };
    [
        when(letter.died_at_ms),
        letter.delivery.clone(),
        format!("{}/{}", letter.tenant, letter.endpoint),
        letter.event_type.clone(),
        letter.reason.clone(),
        letter.last_status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
        letter.attempts.to_string(),
        redriven,
        item.position.clone(),
    ]
}

/// A list of quarantined records.
pub(super) fn quarantine(list: &QuarantineList) -> Result<String> {
    let row = |item: &QuarantinedRecord| {
        let QuarantinedRecord { position, origin, problem, key, .. } = item.clone();
        [when(item.written_at_ms), origin, item.bytes.to_string(), key, problem, position]
    };
    let headings = ["set aside at", "origin", "bytes", "key", "problem", "position"];
    let mut out = table(headings, list.items.iter().map(row).collect())?;
    rest(&mut out, list.items.len(), "record(s)", (list.looked, list.next.is_some(), list.error.as_deref()))?;
    Ok(out)
}

fn rest(
    out: &mut String,
    shown: usize,
    what: &str,
    (looked, more, error): (u64, bool, Option<&str>),
) -> Result<()> {
    write!(out, "{shown} {what} shown; {looked} record(s) looked at")?;
    out.push_str(if more { "; there are older ones\n" } else { "\n" });
    if let Some(error) = error {
        writeln!(out, "not known everywhere: {}", printable(error))?;
    }
    Ok(())
}

/// One letter.
pub(super) fn letter(detail: &LetterDetail) -> Result<String> {
    let mut out = String::new();
    let summary = &detail.summary;
    lines(
        &mut out,
        &[("position", Some(summary.position.clone())), ("bytes", Some(summary.bytes.to_string()))],
    )?;
    lines(&mut out, &[("problem", summary.problem.clone())])?;
    if let Some(it) = &summary.letter {
        let status = it.last_status.map(|status| format!(", the last one answered with {status}"));
        let redriven = match it.undecided {
            true => Some(UNDECIDED.to_owned()),
            false => it.redriven.map(|it| if it { "yes" } else { "no" }.to_owned()),
        };
        lines(
            &mut out,
            &[
                ("delivery", Some(it.delivery.clone())),
                ("reason", Some(format!("{} at {}", it.reason, when(it.died_at_ms)))),
                ("attempts", Some(format!("{}{}", it.attempts, status.unwrap_or_default()))),
                ("redrives", Some(it.redrives.to_string())),
                ("redriven", redriven),
                ("tenant", Some(it.tenant.clone())),
                ("endpoint", Some(it.endpoint.clone())),
                ("subscription", Some(it.subscription.clone())),
                ("mailbox", Some(it.mailbox.clone())),
                ("event", Some(format!("{} ({})", it.event, it.event_type))),
            ],
        )?;
    }
    if let Some(it) = &detail.more {
        rest_of_letter(&mut out, it)?;
    }
    payload(&mut out, detail.payload.as_ref())?;
    Ok(out)
}

fn rest_of_letter(out: &mut String, it: &LetterMore) -> Result<()> {
    lines(
        out,
        &[
            ("app", Some(it.app.clone())),
            ("key", it.ordering_key.clone()),
            ("accepted", Some(when(it.accepted_at_ms))),
            ("deadline", Some(when(it.deadline_ms))),
            ("first try", it.first_attempt_at_ms.map(when)),
            ("last try", it.last_attempt_at_ms.map(when)),
            ("payload", Some(format!("{} bytes", it.payload_bytes))),
        ],
    )?;
    for (name, value) in &it.headers {
        lines(out, &[("header", Some(format!("{name}: {value}")))])?;
    }
    for attempt in &it.last_attempts {
        let came = match (attempt.status, &attempt.error) {
            (Some(status), None) => status.to_string(),
            (status, error) => {
                let status = status.map(|status| format!("{status} ")).unwrap_or_default();
                format!("{status}{}", error.as_deref().unwrap_or("no request"))
            }
        };
        let text = format!(
            "{} at {}: {came} after {} ms, {} {}",
            attempt.number,
            when(attempt.started_at_ms),
            attempt.duration_ms,
            attempt.outcome,
            attempt.excerpt
        );
        lines(out, &[("attempt", Some(text))])?;
    }
    Ok(())
}

/// One quarantined record.
pub(super) fn quarantined(record: &QuarantinedRecord) -> Result<String> {
    let mut out = String::new();
    lines(
        &mut out,
        &[
            ("position", Some(record.position.clone())),
            ("origin", Some(record.origin.clone())),
            ("set aside", Some(when(record.written_at_ms))),
            ("problem", Some(record.problem.clone())),
            ("key", Some(record.key.clone())),
            ("bytes", Some(record.bytes.to_string())),
        ],
    )?;
    payload(&mut out, record.payload.as_ref())?;
    Ok(out)
}

fn payload(out: &mut String, payload: Option<&Payload>) -> Result<()> {
    let Some(payload) = payload else { return Ok(()) };
    let more = if payload.truncated { ", its beginning" } else { "" };
    match (&payload.text, &payload.hex) {
        (Some(text), _) => writeln!(out, "payload (text{more}):\n{}", kept(text))?,
        (None, hex) => writeln!(out, "payload (hexadecimal{more}):\n{}", hex.as_deref().unwrap_or_default())?,
    }
    Ok(())
}

/// How many there are.
pub(super) fn count(count: &LetterCount) -> Result<String> {
    let mut out = String::new();
    let redriven = count.redriven.map_or_else(|| "?".to_owned(), |redriven| redriven.to_string());
    writeln!(out, "{} dead letter(s), {redriven} of them redriven", count.letters)?;
    for (reason, letters) in &count.by_reason {
        writeln!(out, "  {letters:>9}  {reason}")?;
    }
    for (endpoint, letters) in &count.by_endpoint {
        writeln!(out, "  {letters:>9}  {}", printable(endpoint))?;
    }
    if let (Some(oldest), Some(newest)) = (count.oldest_ms, count.newest_ms) {
        writeln!(out, "  died from {} to {}", when(oldest), when(newest))?;
    }
    if count.unreadable > 0 {
        writeln!(out, "  {:>9}  cannot be read and are not counted", count.unreadable)?;
    }
    if let Some(error) = &count.error {
        writeln!(out, "not counted everywhere: {}", printable(error))?;
    }
    Ok(out)
}

/// What a replay would do.
pub(super) fn would(counted: &LetterCount, due: Option<u64>) -> Result<String> {
    let due = due.map_or_else(|| "an unknown number of".to_owned(), |due| due.to_string());
    Ok(format!("dry run: {due} letter(s) would be put back, of\n{}", count(counted)?))
}

/// Replays, one line each.
pub(super) fn replays(items: &[ReplayStatus]) -> Result<String> {
    let row = |it: &ReplayStatus| {
        [
            it.id.clone(),
            it.state.clone(),
            it.by.clone(),
            when(it.ordered_at_ms),
            it.redriven.to_string(),
            it.skipped.to_string(),
            not_put_back(it).unwrap_or_else(|| "0".to_owned()),
            it.unreadable.to_string(),
            format!("{}/{}", it.looked, it.looked_all),
            format!("{}/s", it.rate),
        ]
    };
    let headings = [
        "replay",
        "state",
        "by",
        "ordered at",
        "put back",
        "skipped",
        "not put back",
        "unreadable",
        "looked at",
        "rate",
    ];
    table(headings, items.iter().map(row).collect())
}

/// A replay, and the letters that it did not put back.
pub(super) fn replay(it: &ReplayStatus) -> Result<String> {
    let mut out = replays(std::slice::from_ref(it))?;
    for letter in &it.unsent {
        let (delivery, position, reason) = (&letter.delivery, &letter.position, &letter.reason);
        lines(&mut out, &[(reason.as_str(), Some(format!("{delivery} at {position}")))])?;
    }
    let more = (it.too_large + it.gone + it.undecided).saturating_sub(it.unsent.len() as u64);
    if more > 0 {
        writeln!(out, "  and {more} more: `mailrail dlq list` shows whether they are redriven")?;
    }
    Ok(out)
}

/// How many letters a replay did not put back, and why; `None` when there are none.
pub(super) fn not_put_back(it: &ReplayStatus) -> Option<String> {
    let counts = [(it.too_large, "too large"), (it.gone, "gone"), (it.undecided, UNDECIDED)];
    let counts: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).collect();
    let text = counts.iter().map(|(count, why)| format!("{count} {why}")).collect::<Vec<_>>().join(", ");
    (!text.is_empty()).then_some(text)
}

fn table<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>) -> Result<String> {
    let rows: Vec<[String; N]> = rows.into_iter().map(|row| row.map(|cell| printable(&cell))).collect();
    let width =
        |at: usize| rows.iter().map(|row| row[at].chars().count()).fold(headings[at].len(), usize::max);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut out = String::new();
    for row in std::iter::once(&headings.map(str::to_owned)).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            write!(line, "{cell:<width$}  ")?;
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(out)
}

fn lines(out: &mut String, values: &[(&str, Option<String>)]) -> Result<()> {
    for (name, value) in values {
        if let Some(value) = value {
            writeln!(out, "  {name:<12} {}", printable(value))?;
        }
    }
    Ok(())
}

/// Texts of third parties, on one line and without control characters: a terminal would obey them.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same of a payload, whose lines stay.
fn kept(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
