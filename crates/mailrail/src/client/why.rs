//! `mailrail why`: what a delivery waits for, and until when; or how it ended.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use mailrail_control::{Looked, Why, WhyHead};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize as _;
use serde_json::Value;

use super::Output;
use super::access::ControlArgs;
use super::segment::segment;
use super::when::when;

/// Arguments of `mailrail why`.
#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// The delivery: the `webhook-id` of its requests
    pub(crate) delivery: String,
    /// Its tenant
    #[arg(long)]
    pub(crate) tenant: String,
    /// Its mailbox, when it is known: only its partition is looked at, and further back
    #[arg(long, value_name = "KEY")]
    pub(crate) mailbox: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Asks the control API and prints its answer.
///
/// # Errors
/// When the control API does not answer or refuses.
pub(crate) async fn run(args: WhyArgs) -> Result<()> {
    let path = path(&args.tenant, &args.delivery, args.mailbox.as_deref());
    let answer = args.control.client()?.get(&path).await?;
    args.output.print(&answer, shown)
}

pub(super) fn path(tenant: &str, delivery: &str, mailbox: Option<&str>) -> String {
    let mailbox = mailbox.map(|key| format!("?mailbox={}", utf8_percent_encode(key, NON_ALPHANUMERIC)));
    format!(
        "/v1/tenants/{}/deliveries/{}/why{}",
        segment(tenant),
        segment(delivery),
        mailbox.unwrap_or_default()
    )
}

/// A sentence, and what is known beside it.
pub(super) fn shown(answer: &Value) -> Result<String> {
    let why = Why::deserialize(answer).context("the answer of the control API")?;
    let mut out = String::new();
    writeln!(out, "{} {}", why.delivery, sentence(&why))?;
    let attempts = why.attempts.map(|attempts| match (why.last_status, why.last_error.as_deref()) {
        (Some(status), None) => format!("{attempts}, the last one answered with {status}"),
        (Some(status), Some(error)) => {
            format!("{attempts}, the last one answered with {status}, and not to the end ({error})")
        }
        (None, Some(error)) => format!("{attempts}, the last one without an answer ({error})"),
        (None, None) => attempts.to_string(),
    });
    let before = why.before.filter(|_| why.ended_at_ms.is_none()).map(|before| before.to_string());
    for (name, value) in [
        ("attempts", attempts),
        ("before it", before),
        ("its head", why.head.as_ref().map(head)),
        ("mailbox", why.mailbox.clone()),
        ("endpoint", why.endpoint.clone()),
        ("event", why.event.clone()),
        ("looked at", Some(looked(&why.looked))),
    ] {
        if let Some(value) = value {
            writeln!(out, "  {name:<10} {value}")?;
        }
    }
    Ok(out)
}

fn sentence(why: &Why) -> String {
    let at = why.ended_at_ms.map(|ms| format!(" at {}", when(ms))).unwrap_or_default();
    let reason = why.reason.as_deref().unwrap_or_default();
    let until = why.until_ms.map(|ms| format!(" until {}", when(ms))).unwrap_or_default();
    match why.state.as_str() {
        "waiting" => match reason {
            "behind_head" => {
                "waits for its turn: older deliveries of its mailbox go first (behind_head)".to_owned()
            }
            "paused" => format!("waits: its endpoint is paused; given up{}", until.replace(" until", " at")),
            _ => format!("waits ({reason}){until}"),
        },
        "queued" => "waits for its turn: older deliveries of its mailbox are on their way".to_owned(),
        "running" => "has its turn: it is being sent, or about to be".to_owned(),
        "delivered" => format!("was delivered{at}"),
        "dead_lettered" => format!("was given up{at} and is in the dead letters ({reason})"),
        "expired" => format!("was given up{at}: its deadline had passed"),
        "cancelled" => format!("was cancelled{at} ({reason})"),
        "unknown" => "was not found".to_owned(),
        other => format!("is {other} {reason}"),
    }
}

fn head(head: &WhyHead) -> String {
    let id = head.delivery.as_deref().unwrap_or("not found within the limits");
    match (&head.reason, head.until_ms) {
        (Some(reason), Some(until)) => format!("{id} waits ({reason}) until {}", when(until)),
        _ => format!("{id} has its turn"),
    }
}

fn looked(looked: &Looked) -> String {
    let mut out = format!("{} records", looked.records);
    if let Some(error) = &looked.error {
        // Writing to a String cannot fail.
        let _ = write!(out, "; not everywhere: {error}");
    } else if !looked.complete {
        out.push_str("; there is more than was looked at: name its mailbox (--mailbox)");
    }
    if let Some(since) = looked.attempts_since_ms {
        let _ = write!(out, "; attempts since {}", when(since));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(state: &str, more: &Value) -> Value {
        let mut all = json!({ "delivery": "dlv_x", "tenant": "acme", "state": state, "reason": null, "until_ms": null,
            "ended_at_ms": null, "attempts": null, "last_status": null, "before": null, "head": null, "mailbox": null,
            "endpoint": null, "event": null, "looked": { "records": 7, "complete": true, "attempts_since_ms": null } });
        for (name, value) in more.as_object().expect("an object") {
            all[name] = value.clone();
        }
        all
    }

    fn first_line(state: &str, more: &Value) -> String {
        shown(&answer(state, more)).expect("text").lines().next().expect("a line").to_owned()
    }

    #[test]
    fn each_state_is_a_sentence() {
        let at = 1_700_000_000_123_i64;
        for (state, more, says) in [
            (
                "waiting",
                json!({ "reason": "backoff", "until_ms": at }),
                "waits (backoff) until 2023-11-14T22:13:20Z",
            ),
            (
                "waiting",
                json!({ "reason": "paused", "until_ms": at }),
                "waits: its endpoint is paused; given up at 2023-11-14T22:13:20Z",
            ),
            (
                "waiting",
                json!({ "reason": "behind_head" }),
                "waits for its turn: older deliveries of its mailbox go first (behind_head)",
            ),
            ("queued", json!({}), "waits for its turn: older deliveries of its mailbox are on their way"),
            ("running", json!({}), "has its turn: it is being sent, or about to be"),
            ("delivered", json!({ "ended_at_ms": at }), "was delivered at 2023-11-14T22:13:20Z"),
            (
                "dead_lettered",
                json!({ "ended_at_ms": at, "reason": "exhausted" }),
                "was given up at 2023-11-14T22:13:20Z and is in the dead letters (exhausted)",
            ),
            (
                "expired",
                json!({ "ended_at_ms": at }),
                "was given up at 2023-11-14T22:13:20Z: its deadline had passed",
            ),
            ("cancelled", json!({ "reason": "endpoint_deleted" }), "was cancelled (endpoint_deleted)"),
            ("unknown", json!({}), "was not found"),
        ] {
            assert_eq!(first_line(state, &more), format!("dlv_x {says}"));
        }
        assert!(shown(&json!({})).is_err());
    }

    #[test]
    fn the_last_attempt_says_what_came_of_it() {
        for (status, error, says) in [
            (json!(503), json!(null), "2, the last one answered with 503"),
            (json!(null), json!("connect_failed"), "2, the last one without an answer (connect_failed)"),
            (json!(200), json!("timeout"), "2, the last one answered with 200, and not to the end (timeout)"),
            (json!(null), json!(null), "2"),
        ] {
            let more = json!({ "attempts": 2, "last_status": status, "last_error": error });
            let text = shown(&answer("waiting", &more)).expect("text");
            assert!(
                text.lines().any(|it| it == format!("  attempts   {says}")),
                "{says} is missing in\n{text}"
            );
        }
    }

    #[test]
    fn what_is_known_beside_it_is_listed() {
        let head = json!({ "delivery": "dlv_h", "reason": "backoff", "until_ms": 1_700_000_000_123_i64 });
        let looked = json!({ "records": 9, "complete": false, "attempts_since_ms": 1_700_000_000_123_i64 });
        let more = json!({ "reason": "behind_head", "attempts": 2, "last_status": 503, "before": 12, "head": head,
            "mailbox": "default::acme:main::0", "looked": looked });
        let text = shown(&answer("waiting", &more)).expect("text");
        for line in [
            "  attempts   2, the last one answered with 503",
            "  before it  12",
            "  its head   dlv_h waits (backoff) until 2023-11-14T22:13:20Z",
            "  mailbox    default::acme:main::0",
            "  looked at  9 records; there is more than was looked at: name its mailbox (--mailbox); attempts since 2023-11-14T22:13:20Z",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn ids_and_keys_stay_one_value() {
        assert_eq!(path("acme", "dlv_a", None), "/v1/tenants/acme/deliveries/dlv_a/why");
        let odd = path("a/b", "x?y", Some("default::a:m:p%2Fq:0"));
        assert_eq!(odd, "/v1/tenants/a%2Fb/deliveries/x%3Fy/why?mailbox=default%3A%3Aa%3Am%3Ap%252Fq%3A0");
    }
}
