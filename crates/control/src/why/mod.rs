//! `GET /v1/tenants/{tenant}/deliveries/{id}/why`: what a delivery waits for, and until when; or how it ended.
//!
//! Nothing keeps an index of deliveries. The answer is looked for where a delivery can be: in the journal when it is parked,
//! in the deliveries when it is on its way, in the attempts when it ended. The look is bounded, and the answer says how far it
//! went.

mod conclude;
mod search;

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures::stream::{self, StreamExt as _};
use mailrail_types::{DeliveryId, Mailbox, MailboxKey, PartitionCount, TenantId};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::config::Pipeline;
use crate::problem::Problem;
use crate::resources::parse_id;
use crate::respond::json;
use crate::service::Shared;
use crate::status::Ask;

use conclude::conclude;
use search::{Found, Place, Search};

/// Partitions that are looked at at once.
const PARTITIONS_AT_ONCE: usize = 8;
/// Topics that share the records of a partition: journal, deliveries, attempts.
const TOPICS: u64 = 3;

/// The answer: where a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The delivery.
    pub delivery: String,
    /// Its tenant.
    pub tenant: String,
    /// `waiting`, `queued`, `running`, `delivered`, `dead_lettered`, `expired`, `cancelled`, or `unknown`: it was not found within
    /// what was looked at.
    pub state: String,
    /// Of one that waits: why it is not sent now. Of one that was given up or cancelled: why.
    pub reason: Option<String>,
    /// Of one that waits: until when, in milliseconds since 1970, UTC. An event, such as resuming its endpoint, may end the wait
    /// before.
    pub until_ms: Option<i64>,
    /// When it ended, in milliseconds since 1970, UTC.
    pub ended_at_ms: Option<i64>,
    /// Requests that were made for it, as far as that is known.
    pub attempts: Option<u32>,
    /// HTTP status of the last of them, when there was an answer.
    pub last_status: Option<u16>,
    /// Of the last of them, code of why there was no answer, or why it was not read to its end: such as `connect_failed`, `tls_error` or
    /// `timeout`. `null` when there was a whole answer, or the record of the attempt was not found.
    #[serde(default)]
    pub last_error: Option<String>,
    /// Deliveries of its mailbox that go before it; `null` when it has ended, or they were not counted within the limits.
    pub before: Option<u64>,
    /// The delivery that all of its mailbox waits for.
    pub head: Option<WhyHead>,
    /// Its mailbox.
    pub mailbox: Option<String>,
    /// Its recipient.
    pub endpoint: Option<String>,
    /// Its event.
    pub event: Option<String>,
    /// How far was looked.
    pub looked: Looked,
}

/// The delivery at the head of a mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyHead {
    /// Its id; `null` when it was not found within the limits.
    pub delivery: Option<String>,
    /// What it waits for; `null` when it has its turn.
    pub reason: Option<String>,
    /// Until when, in milliseconds since 1970, UTC.
    pub until_ms: Option<i64>,
}

/// How far was looked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Looked {
    /// Records that were looked at.
    pub records: u64,
    /// Whether that was all that could tell, or enough.
    pub complete: bool,
    /// Attempts from before this were not looked at, in milliseconds since 1970, UTC; `null` when all that are kept were.
    pub attempts_since_ms: Option<i64>,
    /// Why something could not be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `?mailbox=`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    mailbox: Option<String>,
}

/// `GET /v1/tenants/{tenant}/deliveries/{id}/why`.
pub(crate) async fn why(
    State(shared): State<Arc<Shared>>,
    Path((tenant, id)): Path<(String, String)>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(wanted) =
        wanted.map_err(|_| Problem::invalid_request("known here: 'mailbox', the key of its mailbox"))?;
    let tenant: TenantId = parse_id("tenant", &tenant)?;
    let known = shared.store.tenant_view(&tenant).await?;
    known.ok_or_else(|| Problem::not_found("tenant", tenant.as_str()))?;
    let delivery: DeliveryId = parse_id("delivery", &id)?;
    let places = places(&shared.config.pipelines, &tenant, wanted.mailbox.as_deref())?;
    let Ok(_explaining) = shared.explaining.try_lock() else { return Err(Problem::look_running()) };
    let (found, looked) = look(&shared, delivery, places).await;
    // Another tenant's is none of this one's business, not even that it exists.
    if found.tenant().is_some_and(|owner| *owner != tenant) {
        return Err(Problem::not_found("delivery", &id));
    }
    Ok(json(&conclude(&delivery, &tenant, &found, looked)))
}

/// Where the delivery can be: everywhere, or where its mailbox is.
fn places<'a>(
    pipelines: &'a [Pipeline],
    tenant: &TenantId,
    mailbox: Option<&str>,
) -> Result<Vec<Place<'a>>, Problem> {
    let Some(key) = mailbox else {
        let all = pipelines.iter().flat_map(|pipeline| {
            (0..pipeline.deliveries.partitions).map(move |partition| Place {
                pipeline,
                partition,
                mailbox: None,
            })
        });
        return Ok(all.collect());
    };
    let mailbox = Mailbox::from_key(key).ok_or_else(|| {
        Problem::invalid_request("'mailbox' is a mailbox's key, as GET /v1/mailboxes shows it")
    })?;
    let pipeline = pipelines.iter().find(|pipeline| *pipeline.name == *mailbox.pipeline);
    let pipeline =
        pipeline.filter(|_| mailbox.tenant == *tenant).ok_or_else(|| Problem::not_found("mailbox", key))?;
    let key = MailboxKey::from_text(key);
    let count = NonZeroU32::new(pipeline.deliveries.partitions).map(PartitionCount);
    let partition = count.map_or(0, |count| key.partition(count));
    Ok(vec![Place { pipeline, partition, mailbox: Some(key) }])
}

/// Looks in all places, until it was found in one.
async fn look(shared: &Shared, id: DeliveryId, places: Vec<Place<'_>>) -> (Found, Looked) {
    let config = &shared.config;
    let mut looked = Looked { complete: true, ..Looked::default() };
    let readers = match shared.log.readers() {
        Ok(readers) => readers,
        Err(error) => {
            looked.failed(error.to_string());
            return (Found::default(), looked);
        }
    };
    let search = Search {
        id,
        ask: Ask { log: shared.log.as_ref(), timeout: config.log_timeout },
        readers: readers.as_ref(),
        records_max: (config.why_records_max / (TOPICS * places.len().max(1) as u64)).max(1),
        deadline: Instant::now() + config.why_timeout,
    };
    let parts: Vec<_> = places.iter().map(|place| search.look_in(place)).collect();
    let mut parts = stream::iter(parts).buffer_unordered(PARTITIONS_AT_ONCE);
    let mut best = Found::default();
    while let Some((found, part)) = parts.next().await {
        if found.is_any() {
            // What was not looked at elsewhere cannot tell more of it.
            let records = looked.records + part.records;
            return (found, Looked { records, ..part });
        }
        looked.add(part);
        best = found;
    }
    (best, looked)
}

impl Looked {
    fn failed(&mut self, error: String) {
        self.complete = false;
        self.error.get_or_insert(error);
    }

    fn add(&mut self, part: Looked) {
        self.records += part.records;
        self.complete &= part.complete;
        self.attempts_since_ms = self.attempts_since_ms.max(part.attempts_since_ms);
        self.error = self.error.take().or(part.error);
    }
}
