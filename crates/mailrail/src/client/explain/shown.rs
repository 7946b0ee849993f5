//! Explanations as text.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::client::when::when;

/// What joins parts of a filter, and how it is called.
const JOINS: [(&str, &str); 3] = [("all", "all of"), ("any", "one of"), ("xor", "an odd number of")];

/// The answer to a filter that was tried on an event.
pub(super) fn filter(answer: &Value) -> Result<String> {
    let mut out = String::new();
    let language = text(answer, "language");
    match (answer["error"].as_str(), answer["matched"].as_bool()) {
        (Some(error), _) => writeln!(out, "no verdict ({error}): the filter of language {language}")?,
        (None, Some(true)) => writeln!(out, "matches: the filter of language {language}")?,
        (None, Some(false)) => writeln!(out, "does not match: the filter of language {language}")?,
        (None, None) => return Err(anyhow::anyhow!("the answer has no verdict")),
    }
    explanation(answer, "", &mut out)?;
    Ok(out)
}

/// The answer to an event and its recipients.
pub(super) fn event(answer: &Value) -> Result<String> {
    let mut out = String::new();
    let of = &answer["event"];
    let subject =
        of["subject"].as_str().map(|subject| format!(" about {}", plain(subject))).unwrap_or_default();
    writeln!(out, "{} {} from {}{subject}", text(of, "id"), text(of, "type"), text(of, "source"))?;
    let accepted = of["accepted_at_ms"].as_i64().map(when).unwrap_or_default();
    let (tenant, pipeline, position) = (text(of, "tenant"), text(of, "pipeline"), text(of, "position"));
    writeln!(out, "  tenant     {tenant}")?;
    writeln!(out, "  accepted   {accepted}, at {position} of {pipeline}")?;
    if let Some(integration) = of["integration"].as_str() {
        writeln!(out, "  forwarded  by integration {}", plain(integration))?;
    }
    if let Some(permission) = of["permission"].as_str() {
        writeln!(out, "  sensitive  apps need the permission {}", plain(permission))?;
    }
    let (total, of_type) = (&answer["recipients_total"], &answer["recipients_of_type"]);
    writeln!(out, "  recipients {of_type} of {total} ask for its type")?;
    writeln!(out, "  set-up     {}", text(&answer["setup"], "note"))?;
    let recipients = answer["recipients"].as_array().context("the answer has no recipients")?;
    for one in recipients {
        recipient(one, &mut out)?;
    }
    if recipients.is_empty() {
        writeln!(out, "\nnobody of those that were asked for is a recipient that the event could have")?;
    }
    if let Some(next) = answer["next"].as_str() {
        writeln!(out, "\nthere are more: --after {}", plain(next))?;
    }
    Ok(out)
}

fn recipient(one: &Value, out: &mut String) -> Result<()> {
    let gets = if one["gets"] == true { "gets it" } else { "does not get it" };
    let endpoint = &one["endpoint"];
    let state = match (endpoint["exists"].as_bool(), endpoint["paused"].as_bool()) {
        (Some(false), _) => " (does not exist)",
        (_, Some(true)) => " (paused: its mail waits)",
        _ => "",
    };
    let (kind, id, to) = (text(one, "kind"), text(one, "id"), text(endpoint, "id"));
    writeln!(out, "\n{kind} {id} → endpoint {to}{state}: {gets} ({})", text(one, "reason"))?;
    if let Some(delivery) = one["delivery"].as_str() {
        writeln!(out, "  delivery {}", plain(delivery))?;
    }
    let filter = &one["filter"];
    if let Some(unusable) = filter["unusable"].as_str() {
        writeln!(out, "  its filter cannot be used: {}", plain(unusable))?;
    }
    if let Some(error) = filter["error"].as_str() {
        let policy = text(one, "on_filter_error");
        writeln!(out, "  its filter gives no verdict ({error}); on_filter_error is {policy}")?;
    }
    if filter["root"].is_object() {
        explanation(filter, "  ", out)?;
    }
    Ok(())
}

/// The parts of a filter, one in a line, with what holds in front.
fn explanation(of: &Value, indent: &str, out: &mut String) -> Result<()> {
    if let Some(problem) = of["body"]["problem"].as_str() {
        writeln!(
            out,
            "{indent}the body is no JSON that can be read: {} (byte {})",
            plain(problem),
            of["body"]["offset"]
        )?;
    }
    let mut has_unevaluated = false;
    part(&of["root"], indent, 0, out, &mut has_unevaluated)?;
    if let Some(left_out) = of["left_out"].as_u64() {
        writeln!(out, "{indent}{left_out} more clauses or alternatives are not shown")?;
    }
    if has_unevaluated {
        writeln!(out, "{indent}in brackets: not evaluated, because what stands before decided")?;
    }
    Ok(())
}

fn part(of: &Value, indent: &str, depth: usize, out: &mut String, has_unevaluated: &mut bool) -> Result<()> {
    // An expression around everything says nothing, unless it has an error.
    if let Some(inner) = of.get("expression")
        && of["note"].is_null()
    {
        return part(inner, indent, depth, out, has_unevaluated);
    }
    let held = match of["held"].as_bool() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    let is_evaluated = of["evaluated"] == true;
    *has_unevaluated |= !is_evaluated;
    let held = if is_evaluated { held.to_owned() } else { format!("({held})") };
    let note = of["note"].as_str().map(|note| format!(" — {note}")).unwrap_or_default();
    let mut line =
        |what: &str| writeln!(out, "{indent}{held:<6}{:width$}{what}{note}", "", width = 2 * depth);
    if let Some(clause) = of.get("clause") {
        line(&clause_text(clause))?;
        return Ok(());
    }
    for (key, called) in JOINS {
        if let Some(parts) = of[key].as_array() {
            line(match (key, parts.is_empty()) {
                (_, false) => called,
                // Of none, with a note that they are not shown, there are some.
                (_, true) if of["note"].is_string() => "a filter",
                ("all", true) => "every event",
                (_, true) => "no event",
            })?;
            for one in parts {
                part(one, indent, depth + 1, out, has_unevaluated)?;
            }
            return Ok(());
        }
    }
    let (called, inner) = match of.get("not") {
        Some(inner) => ("not", inner),
        None => ("expression", of.get("expression").context("a part of an unknown kind")?),
    };
    line(called)?;
    part(inner, indent, depth + 1, out, has_unevaluated)
}

fn clause_text(clause: &Value) -> String {
    let mut out = text(clause, "text");
    let seen = clause["seen"].as_array().into_iter().flatten();
    let seen: Vec<String> = seen
        .map(|one| {
            let values: Vec<&str> =
                one["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let values = if values.is_empty() { "absent".to_owned() } else { plain(&values.join(", ")) };
            format!("{} {values}", text(one, "path"))
        })
        .collect();
    if !seen.is_empty() {
        let _ = write!(out, "   the event: {}", seen.join("; "));
    }
    if let Some(problem) = clause["problem"].as_str() {
        let _ = write!(out, "   error: {problem}");
    }
    out
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().map(plain).unwrap_or_default()
}

/// Texts of others, such as filters of several lines, stay one line and do not move the cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
