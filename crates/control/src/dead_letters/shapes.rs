//! What the API answers about dead letters, and what it is asked with. The command line reads and prints the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A page of dead letters, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterList {
    /// The pipeline.
    pub pipeline: String,
    /// This page of them. It may hold fewer than asked for, or none, and have a next one.
    pub items: Vec<LetterSummary>,
    /// Records that were looked at.
    pub looked: u64,
    /// What to give as `after` for the next page; `null` on the last one.
    pub next: Option<String>,
    /// Why something could not be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A dead letter, or a record among them that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterSummary {
    /// Where it stands: partition and offset.
    pub position: String,
    /// When the log took it, in milliseconds since 1970, UTC.
    pub written_at_ms: i64,
    /// Size of the record.
    pub bytes: u64,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it says.
    #[serde(flatten)]
    pub letter: Option<LetterFacts>,
}

/// What a dead letter says in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterFacts {
    /// The delivery.
    pub delivery: String,
    /// Its event.
    pub event: String,
    /// Type of the event.
    pub event_type: String,
    /// The tenant.
    pub tenant: String,
    /// The recipient.
    pub endpoint: String,
    /// The subscription.
    pub subscription: String,
    /// The mailbox.
    pub mailbox: String,
    /// Why it was given up: a code of a closed set.
    pub reason: String,
    /// When, in milliseconds since 1970, UTC.
    pub died_at_ms: i64,
    /// Attempts since it was last put into its mailbox.
    pub attempts: u32,
    /// HTTP status of the last one, when there was an answer.
    pub last_status: Option<u16>,
    /// How often it had been redriven.
    pub redrives: u32,
    /// Whether this letter was redriven since; `null` when the ledger could not be read.
    pub redriven: Option<bool>,
    /// It was to be redriven, and whether it was cannot be found out any more. It counts as redriven.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
}

/// A dead letter whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterDetail {
    /// The pipeline.
    pub pipeline: String,
    /// In short.
    #[serde(flatten)]
    pub summary: LetterSummary,
    /// The rest; absent for a record that cannot be read.
    #[serde(flatten)]
    pub more: Option<LetterMore>,
    /// The payload, when it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// What is in a dead letter beside its summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterMore {
    /// The consumer.
    pub app: String,
    /// What the event is about.
    pub ordering_key: Option<String>,
    /// When the event was accepted, in milliseconds since 1970, UTC, as all times here.
    pub accepted_at_ms: i64,
    /// When match decided.
    pub matched_at_ms: i64,
    /// When it would have expired.
    pub deadline_ms: i64,
    /// Start of the first attempt since it was last put into its mailbox.
    pub first_attempt_at_ms: Option<i64>,
    /// Start of the last one.
    pub last_attempt_at_ms: Option<i64>,
    /// The last attempts, the newest last.
    pub last_attempts: Vec<AttemptFacts>,
    /// Headers that say what the payload is: CloudEvents attributes, or those of a forwarded webhook. The latter are its
    /// provider's: without the payload there is only `content-type`.
    pub headers: Vec<(String, String)>,
    /// Bytes of the payload.
    pub payload_bytes: u64,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFacts {
    /// Its number.
    pub number: u32,
    /// When it started.
    pub started_at_ms: i64,
    /// How long it took.
    pub duration_ms: u32,
    /// HTTP status.
    pub status: Option<u16>,
    /// Code of why there was no complete answer.
    pub error: Option<String>,
    /// What it meant.
    pub outcome: String,
    /// First bytes of the answer, as text. Empty without the payload.
    pub excerpt: String,
}

/// A body, as text when it is text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The text, when it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in hexadecimal otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
    /// Whether this is the beginning only.
    pub truncated: bool,
}

/// How many dead letters there are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LetterCount {
    /// The pipeline.
    pub pipeline: String,
    /// Letters that pass the filter. One that a crash wrote twice counts once, where both are on one page.
    pub letters: u64,
    /// How many of them were redriven since; `null` when the ledger could not be read.
    pub redriven: Option<u64>,
    /// Records that cannot be read, whatever the filter.
    pub unreadable: u64,
    /// Letters by reason.
    pub by_reason: BTreeMap<String, u64>,
    /// Letters by `tenant/endpoint`; those beyond the first thousand together under `…`.
    pub by_endpoint: BTreeMap<String, u64>,
    /// When the first of them died.
    pub oldest_ms: Option<i64>,
    /// When the last of them died.
    pub newest_ms: Option<i64>,
    /// Records that were looked at.
    pub looked: u64,
    /// What to give as `after` to count on: not all was looked at; `null`: it was.
    pub next: Option<String>,
    /// Why something could not be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A page of quarantined records, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineList {
    /// The pipeline.
    pub pipeline: String,
    /// This page of them.
    pub items: Vec<QuarantinedRecord>,
    /// Records that were looked at.
    pub looked: u64,
    /// What to give as `after` for the next page; `null` on the last one.
    pub next: Option<String>,
    /// Why something could not be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A record that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedRecord {
    /// Where it stands: partition and offset.
    pub position: String,
    /// When it was set aside, in milliseconds since 1970, UTC.
    pub written_at_ms: i64,
    /// Size of the record.
    pub bytes: u64,
    /// Where it stood: `topic/partition/offset`.
    pub origin: String,
    /// What is wrong with it.
    pub problem: String,
    /// Its key: mostly a mailbox.
    pub key: String,
    /// Its raw bytes, when they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// Which dead letters, as texts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilterParts {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// For this endpoint of the tenant.
    pub endpoint: Option<String>,
    /// Of events of this type.
    pub event_type: Option<String>,
    /// Given up for one of these reasons.
    pub reasons: Vec<String>,
    /// Given up at or after this time, in milliseconds since 1970, UTC.
    pub since_ms: Option<i64>,
    /// Given up before this time.
    pub until_ms: Option<i64>,
    /// These deliveries.
    pub ids: Vec<String>,
}

/// The body of `POST /v1/dead-letters/replays`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplayRequest {
    /// Which letters.
    pub filter: FilterParts,
    /// Needed when the filter lets everything pass: all of them are meant.
    pub all: bool,
    /// Letters that were redriven before as well.
    pub again: bool,
    /// Most letters per second; [`crate::RATE_DEFAULT`] when left out.
    pub rate: Option<u32>,
}

/// A replay and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayStatus {
    /// Names it.
    pub id: String,
    /// The pipeline.
    pub pipeline: String,
    /// `waiting`, `running`, `cancelling`, `cancelled` or `done`.
    pub state: String,
    /// Who ordered it.
    pub by: String,
    /// When, in milliseconds since 1970, UTC.
    pub ordered_at_ms: i64,
    /// When it was over.
    pub ended_at_ms: Option<i64>,
    /// Who cancelled it.
    pub cancelled_by: Option<String>,
    /// Which letters.
    pub filter: FilterParts,
    /// Whether letters that were redriven before are meant too.
    pub again: bool,
    /// Most letters per second.
    pub rate: u32,
    /// Letters that were put back into their mailboxes.
    pub redriven: u64,
    /// Letters that it means and that had been redriven before.
    pub skipped: u64,
    /// Records that cannot be read.
    pub unreadable: u64,
    /// Letters that are larger than the log takes now: they stay dead letters that were not redriven.
    pub too_large: u64,
    /// Letters that were deleted before they were put back.
    pub gone: u64,
    /// Letters of which nobody can say whether they were put back. They count as redriven: only a replay with `again` takes them.
    pub undecided: u64,
    /// The first 100 of those three, by name.
    pub unsent: Vec<UnsentLetter>,
    /// Records that were looked at.
    pub looked: u64,
    /// Records that are looked at in all.
    pub looked_all: u64,
}

/// A letter that a replay means and did not put back, or may not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsentLetter {
    /// The delivery.
    pub delivery: String,
    /// Where its letter stands: partition and offset.
    pub position: String,
    /// `too_large`, `gone` or `undecided`.
    pub reason: String,
}
