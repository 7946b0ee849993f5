//! Records → what is said of them.

use bytes::Bytes;
use mailrail_log::{ORIGIN_HEADER, PROBLEM_HEADER, StoredRecord};
use mailrail_types::{Attempt, Attributes, DeadLetter, Event, Timestamp};

use super::ledger::Standing;
use super::letters::Read;
use super::shapes::{AttemptFacts, LetterFacts, LetterMore, LetterSummary, Payload, QuarantinedRecord};

/// Most bytes of a payload that are shown.
const PAYLOAD_SHOWN_MAX_BYTES: usize = 1024 * 1024;

pub(super) fn summary(
    (partition, offset): (u32, u64),
    at: Timestamp,
    bytes: usize,
    letter: &Read,
    standing: impl FnOnce(&DeadLetter) -> Option<Standing>,
) -> LetterSummary {
    LetterSummary {
        position: format!("{partition}:{offset}"),
        written_at_ms: at.millis(),
        bytes: bytes as u64,
        problem: letter.as_ref().err().cloned(),
        letter: letter.as_deref().ok().map(|letter| facts(letter, standing(letter))),
    }
}

fn facts(letter: &DeadLetter, standing: Option<Standing>) -> LetterFacts {
    let delivery = &letter.delivery;
    LetterFacts {
        delivery: delivery.id.to_string(),
        event: delivery.event.id.to_string(),
        event_type: delivery.event.attributes.event_type.clone(),
        tenant: delivery.event.tenant.to_string(),
        endpoint: delivery.endpoint.to_string(),
        subscription: delivery.subscription.to_string(),
        mailbox: delivery.mailbox.key().as_str().to_owned(),
        reason: letter.reason.code().to_owned(),
        died_at_ms: letter.died_at.millis(),
        attempts: delivery.history.attempts,
        last_status: delivery.history.last_status,
        redrives: delivery.history.redrives,
        redriven: standing.map(|it| it != Standing::Dead),
        undecided: standing == Some(Standing::Undecided),
    }
}

/// With what a producer or a receiver wrote itself, headers of a forwarded webhook and beginnings of answers, if `payload`:
/// there may be secrets in it as in a body.
pub(super) fn more(letter: &DeadLetter, payload: bool) -> LetterMore {
    let delivery = &letter.delivery;
    LetterMore {
        app: delivery.app.to_string(),
        ordering_key: delivery.event.ordering_key.clone(),
        accepted_at_ms: delivery.event.accepted_at.millis(),
        matched_at_ms: delivery.matched_at.millis(),
        deadline_ms: delivery.deadline.millis(),
        first_attempt_at_ms: delivery.history.first_attempt_at.map(Timestamp::millis),
        last_attempt_at_ms: delivery.history.last_attempt_at.map(Timestamp::millis),
        last_attempts: letter.attempts.iter().map(|it| attempt(it, payload)).collect(),
        headers: headers(&delivery.event, payload),
        payload_bytes: delivery.event.body.len() as u64,
    }
}

fn attempt(attempt: &Attempt, payload: bool) -> AttemptFacts {
    let excerpt: &[u8] = if payload { &attempt.result.excerpt } else { b"" };
    AttemptFacts {
        number: attempt.number,
        started_at_ms: attempt.started_at.millis(),
        duration_ms: attempt.duration_ms,
        status: attempt.result.status,
        error: attempt.result.error.map(|error| error.code().to_owned()),
        outcome: attempt.outcome.code().to_owned(),
        excerpt: String::from_utf8_lossy(excerpt).into_owned(),
    }
}

fn headers(event: &Event, payload: bool) -> Vec<(String, String)> {
    let Attributes { id, source, event_type, subject, time, content_type, data_schema, extensions } =
        &event.attributes;
    let mut headers = Vec::new();
    if let Some(content_type) = content_type {
        headers.push(("content-type".to_owned(), content_type.clone()));
    }
    if let Some(forwarded) = &event.forwarded {
        let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
        let shown = forwarded.headers.iter().filter(|_| payload);
        headers.extend(shown.map(|(name, value)| (name.clone(), text(value))));
        return headers;
    }
    let all = [
        ("ce-id", Some(id)),
        ("ce-source", Some(source)),
        ("ce-type", Some(event_type)),
        ("ce-subject", subject.as_ref()),
        ("ce-time", time.as_ref()),
        ("ce-dataschema", data_schema.as_ref()),
    ];
    headers.extend(all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.clone()))));
    headers.extend(extensions.iter().map(|it| (format!("ce-{}", it.name), it.value.to_text())));
    headers
}

pub(super) fn as_payload(bytes: &Bytes) -> Payload {
    let truncated = bytes.len() > PAYLOAD_SHOWN_MAX_BYTES;
    let shown = &bytes[..bytes.len().min(PAYLOAD_SHOWN_MAX_BYTES)];
    let text = match std::str::from_utf8(shown) {
        Ok(text) => Some(text.to_owned()),
        // Cut within a character.
        Err(error) if truncated && error.error_len().is_none() => {
            Some(String::from_utf8_lossy(&shown[..error.valid_up_to()]).into_owned())
        }
        Err(_) => None,
    };
    let hex = text.is_none().then(|| shown.iter().map(|byte| format!("{byte:02x}")).collect());
    Payload { text, hex, truncated }
}

pub(super) fn quarantined(
    (partition, offset): (u32, u64),
    record: &StoredRecord,
    payload: bool,
) -> QuarantinedRecord {
    let header = |wanted: &str| {
        let value = record.headers.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value);
        value.map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
    };
    QuarantinedRecord {
        position: format!("{partition}:{offset}"),
        written_at_ms: record.appended_at.millis(),
        bytes: record.value.len() as u64,
        origin: header(ORIGIN_HEADER),
        problem: header(PROBLEM_HEADER),
        key: String::from_utf8_lossy(&record.key).into_owned(),
        payload: payload.then(|| as_payload(&record.value)),
    }
}
