//! `GET /v1/mailboxes`: the mailboxes with something waiting, how wide they are split, and why.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use futures::stream::{self, StreamExt as _};
use mailrail_limits::Sizer;
use mailrail_mailbox::Hold;
use mailrail_policy::SizingOptions;
use mailrail_types::{ClassId, IntegrationId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::owner::{Named, SizedBy};
use crate::problem::Problem;
use crate::respond::json;
use crate::service::Shared;
use crate::status::Ask;
use crate::waiting::{Found, LookLimits, Subject, Waiting, look};

/// Mailboxes of a page when the caller names no number.
const PAGE_DEFAULT: usize = 100;
/// Most mailboxes of a page: some hundred kilobytes, and as many questions to the store of rates.
const PAGE_MAX: usize = 1000;
/// Questions to the store of rates at once.
const SIZED_AT_ONCE: usize = 16;

/// Which mailboxes: those of senders, on their way to match, or those of recipients, on their way to endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Queue {
    Source,
    #[default]
    Recipient,
}

impl Queue {
    pub(crate) const ALL: [Queue; 2] = [Queue::Source, Queue::Recipient];

    /// As in queries, answers and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Queue::Source => "source",
            Queue::Recipient => "recipient",
        }
    }
}

/// The answer of `GET /v1/mailboxes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxList {
    /// `source` or `recipient`.
    pub queue: String,
    /// Mailboxes with something waiting, those of other pages included.
    pub mailboxes: u64,
    /// Records in them.
    pub records: u64,
    /// Whether only a part of what waits was looked at: every depth is then a lower bound, and mailboxes may be missing.
    pub truncated: bool,
    /// Why a partition could not be looked at at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// This page of them, the deepest first.
    pub items: Vec<MailboxStatus>,
    /// What to give as `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// A mailbox with something waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxStatus {
    /// Its name: the key of its records.
    pub mailbox: String,
    /// Its parts; absent when the key is none of ours.
    #[serde(flatten)]
    pub parts: Option<MailboxParts>,
    /// Records that its group has not done, those that are parked included. What was done since the last commit is still in it.
    pub depth: u64,
    /// How many of them are parked in the journal.
    #[serde(default)]
    pub parked: u64,
    /// Seconds since the oldest of them was appended. Where many mailboxes of a partition are parked it is at least that.
    pub oldest_seconds: u64,
    /// What the first of them waits for, when it is parked and not its turn.
    #[serde(default)]
    pub held: Option<MailboxHold>,
    /// How its payloads are spread now: mostly one, several for an endpoint that both webhooks and own events go to, none
    /// when what it belongs to is not set up any more.
    pub sizings: Vec<MailboxSizing>,
}

/// What the first delivery of a mailbox waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxHold {
    /// Code of the reason, such as `backoff` or `paused`.
    pub reason: String,
    /// Until when, in milliseconds since 1970, UTC; an event may end it before.
    pub until_ms: i64,
}

impl From<Hold> for MailboxHold {
    fn from(hold: Hold) -> Self {
        Self { reason: hold.reason.code().to_owned(), until_ms: hold.until.millis() }
    }
}

/// What a mailbox is the mailbox of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxParts {
    /// Pipeline.
    pub pipeline: String,
    /// Region; empty where there is one.
    pub region: String,
    /// Tenant.
    pub tenant: String,
    /// The recipient, of a recipient's mailbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What brought the events, of a sender's mailbox; absent for the tenant's own producers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integration: Option<String>,
    /// Event type, where each has mailboxes of its own.
    pub event_type: Option<String>,
    /// Which of the buckets.
    pub bucket: u32,
}

/// A class that sizes a mailbox, and the width that follows now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxSizing {
    /// `source`, `product_event` or `forward`, as in the routing metric.
    pub surface: String,
    /// The integration that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integration: Option<String>,
    /// The class.
    pub class: String,
    /// Over how many mailboxes payloads with a key are split.
    pub width: u32,
    /// Why: `fixed`, `under_rate`, `bucketed` or `sizing_unavailable`.
    pub why: String,
    /// Payloads of the last fifteen minutes that the width follows from; `null` for a fixed one, or when not known.
    pub payloads: Option<u64>,
    /// Payloads that are worth one mailbox; `null` for a fixed width.
    pub unit: Option<u32>,
    /// Widest split; `null` for a fixed width.
    pub cap: Option<u32>,
}

/// `?queue=source|recipient&tenant=&limit=&after=`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default)]
    queue: Queue,
    tenant: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

/// Where a page ended. Depths change between two looks, so a page goes on at a depth and not at a number.
type Place = (Reverse<u64>, String);

/// `GET /v1/mailboxes`.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(wanted) = wanted.map_err(|_| {
        Problem::invalid_request(format!(
            "known here: 'queue' (source or recipient), 'tenant', 'limit' (1 to {PAGE_MAX}) and 'after' (the 'next' of the \
             page before)"
        ))
    })?;
    let invalid_tenant = |e: mailrail_types::IdError| Problem::invalid_request(e.to_string());
    let tenant: Option<TenantId> =
        wanted.tenant.as_deref().map(str::parse).transpose().map_err(invalid_tenant)?;
    let after = wanted.after.as_deref().map(place).transpose()?;
    let found = look_at(&shared, wanted.queue).await;
    let mut all: Vec<(Place, Option<Named>, Waiting)> = Vec::new();
    for (key, waiting) in &found.mailboxes {
        let key = String::from_utf8_lossy(key);
        let named = Named::from_key(wanted.queue, &key);
        if tenant.is_none() || named.as_ref().map(Named::tenant) == tenant.as_ref() {
            all.push(((Reverse(waiting.depth), key.into_owned()), named, *waiting));
        }
    }
    all.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
    let records = all.iter().fold(0u64, |sum, (_, _, waiting)| sum.saturating_add(waiting.depth));
    let mailboxes = all.len() as u64;
    let from = after.map_or(0, |after| all.partition_point(|(place, ..)| *place <= after));
    let limit = wanted.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let more = all.len() > from + limit;
    let page: Vec<_> = all.into_iter().skip(from).take(limit).collect();
    let next = page.last().filter(|_| more).map(|((Reverse(depth), key), ..)| format!("{depth}:{key}"));
    let now = now();
    let shown: Vec<_> = page
        .into_iter()
        .map(|((_, key), named, waiting)| status(&shared, key, named, waiting, now))
        .collect();
    let items = stream::iter(shown).buffered(SIZED_AT_ONCE).collect().await;
    let Found { truncated, error, .. } = found;
    let queue = wanted.queue.name().to_owned();
    Ok(json(&MailboxList { queue, mailboxes, records, truncated, error, items, next }))
}

fn place(after: &str) -> Result<Place, Problem> {
    let place = after.split_once(':').and_then(|(depth, key)| Some((depth.parse().ok()?, key)));
    let (depth, key) = place.ok_or_else(|| {
        Problem::invalid_request("'after' is the 'next' of the page before, encoded as queries are")
    })?;
    Ok((Reverse(depth), key.to_owned()))
}

/// What waits in the mailboxes of `queue`, in every pipeline. One look at a time.
pub(crate) async fn look_at(shared: &Shared, queue: Queue) -> Found {
    let config = &shared.config;
    let subjects: Vec<Subject<'_>> = config
        .pipelines
        .iter()
        .map(|of| match queue {
            Queue::Source => Subject { topic: &of.events, group: &of.match_group, journal: None },
            Queue::Recipient => {
                Subject { topic: &of.deliveries, group: &of.deliver_group, journal: Some(&of.journal) }
            }
        })
        .collect();
    let ask = Ask { log: shared.log.as_ref(), timeout: config.log_timeout };
    let limits =
        LookLimits { records_max: config.scan_records_max, within: config.scan_timeout, parked_only: false };
    let _looking = shared.looking.lock().await;
    look(ask, &subjects, limits).await
}

/// The wall clock, for ages.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

async fn status(
    shared: &Shared,
    mailbox: String,
    named: Option<Named>,
    waiting: Waiting,
    now: Timestamp,
) -> MailboxStatus {
    let mut sizings = Vec::new();
    for by in named.as_ref().map(|it| it.sized_by(&shared.directory)).unwrap_or_default() {
        sizings.push(sizing(&shared.sizer, by).await);
    }
    MailboxStatus {
        mailbox,
        parts: named.map(parts),
        depth: waiting.depth,
        parked: waiting.parked,
        held: waiting.hold.map(MailboxHold::from),
        oldest_seconds: now.since(waiting.oldest).as_secs(),
        sizings,
    }
}

async fn sizing(sizer: &Sizer, by: SizedBy) -> MailboxSizing {
    let SizedBy { surface, integration, class, counter } = by;
    let width = sizer.width_of(&class, &counter).await;
    let options = class.tolerates_reordering.then(|| SizingOptions::from(&*class));
    MailboxSizing {
        surface: surface.to_owned(),
        integration: integration.as_ref().map(IntegrationId::to_string),
        class: ClassId::to_string(&class.id),
        width: width.width,
        why: width.reason.code().to_owned(),
        payloads: width.payloads,
        unit: options.map(|options| options.unit()),
        cap: options.map(|options| options.cap()),
    }
}

fn parts(named: Named) -> MailboxParts {
    match named {
        Named::Source(it) => MailboxParts {
            pipeline: it.pipeline.to_string(),
            region: it.region.to_string(),
            tenant: it.tenant.to_string(),
            endpoint: None,
            integration: it.integration.map(|id| id.to_string()),
            event_type: it.event_type.map(|name| name.to_string()),
            bucket: it.bucket,
        },
        Named::Recipient(it) => MailboxParts {
            pipeline: it.pipeline.to_string(),
            region: it.region.to_string(),
            tenant: it.tenant.to_string(),
            endpoint: Some(it.endpoint.to_string()),
            integration: None,
            event_type: it.event_type.map(|name| name.to_string()),
            bucket: it.bucket,
        },
    }
}
