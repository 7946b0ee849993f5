//! Why: a filter on an event that somebody writes down, and everybody who may want an event that was accepted.
//!
//! `POST /v1/filters/test` needs neither store nor log, so the command line does the same with [`test_filter`]. `GET
//! /v1/events/{id}/explain` looks for the event in the log, newest records first and bounded, and asks for each recipient what
//! match asks, in that order: event type, permission, filter, endpoint. It asks the set-up of now, which may be another one
//! than the event met.

mod find;
mod recipients;
mod tried_event;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use mailrail_filter::{Explanation, Filter, FilterError};
use mailrail_types::{EventId, PERMISSION_ATTRIBUTE};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::access::Actor;
use crate::problem::Problem;
use crate::resources::parse_id;
use crate::respond::{json, read_body};
use crate::service::Shared;
use crate::setup_file::{FilterEntry, Path as Place, code, filter_language, filter_source, parse_json};

use find::{Sighting, find};
use recipients::{PAGE_DEFAULT, Page, page};

pub use recipients::EXPLAIN_PAGE_MAX;

/// What is said of the set-up that an explanation uses.
const SETUP_OF_NOW: &str =
    "judged by the set-up as it is now; where that was changed since, match may have decided otherwise";

/// Whether an event passes a filter, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilterTest {
    /// The language of the filter.
    pub language: &'static str,
    /// The rest.
    #[serde(flatten)]
    pub explanation: Explanation,
}

/// Why a filter could not be tried on an event.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {detail} ({code})")]
pub struct FilterTestRefusal {
    /// Stable code: of a filter one of [`mailrail_filter::FilterError::CODES`], `syntax` or `wrong_type`; of an event
    /// `invalid_event`.
    pub code: &'static str,
    /// What is wrong: `filter.pattern`, `event.time`.
    pub place: String,
    /// What is wrong there and what to change.
    pub detail: String,
}

impl From<FilterTestRefusal> for Problem {
    fn from(refusal: FilterTestRefusal) -> Self {
        Self::invalid_value(refusal.code, refusal.place, refusal.detail)
    }
}

/// Tries a filter on an event. `filter` has the form of `filter:` in a set-up file: an object whose one key is a language.
/// `event` is a CloudEvent in JSON, of which `id`, `source`, `type` and `specversion` may be left out: a filter sees an empty
/// text then.
///
/// # Errors
/// [`FilterTestRefusal`] when one of both cannot be meant.
pub fn test_filter(filter: &Value, event: &[u8]) -> Result<FilterTest, FilterTestRefusal> {
    let entry: FilterEntry = serde_path_to_error::deserialize(filter).map_err(|error| {
        let place = Place::from(error.path())
            .steps()
            .iter()
            .fold(Place::root().key("filter"), |place, step| place.with(step.clone()));
        let detail = error.into_inner().to_string();
        FilterTestRefusal { code: code::WRONG_TYPE, place: place.to_string(), detail }
    })?;
    let language = filter_language(&entry).name();
    let refused = |error: FilterError| FilterTestRefusal {
        code: error.code,
        place: format!("filter.{language}"),
        detail: format!("at {}: {}", error.path, error.message),
    };
    // In the form in which it would be stored.
    let filter = filter_source(&entry).and_then(|source| Filter::compile(&source)).map_err(refused)?;
    let event = tried_event::read(event)?;
    Ok(FilterTest { language, explanation: filter.explain(&event.document()) })
}

/// The body of `POST /v1/filters/test`. The event is kept as it is written: its numbers must not change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestRequest<'a> {
    #[serde(borrow)]
    filter: &'a RawValue,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// `POST /v1/filters/test`.
pub(crate) async fn test(State(shared): State<Arc<Shared>>, body: Body) -> Result<Response, Problem> {
    let body = read_body(&shared, body).await?;
    let tried = on_a_thread_of_its_own((), move || {
        let request: TestRequest<'_> = serde_json::from_slice(&body).map_err(|_| {
            Problem::invalid_request("send a JSON object {\"filter\": {LANGUAGE: …}, \"event\": {…}}")
        })?;
        let filter = parse_json(request.filter.get().as_bytes())
            .map_err(|problem| Problem::invalid_value(code::SYNTAX, "filter", problem.detail))?;
        Ok::<_, Problem>(test_filter(&filter, request.event.get().as_bytes())?)
    });
    Ok(json(&tried.await??))
}

/// `?pipeline=`, and which recipients.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pipeline: Option<String>,
    subscription: Option<String>,
    endpoint: Option<String>,
    limit: Option<u32>,
    after: Option<String>,
}

/// The answer: an event, and who may want it.
#[derive(Debug, Serialize)]
struct EventExplanation {
    event: EventFacts,
    setup: SetupFacts,
    #[serde(flatten)]
    page: Page,
    /// Records that were looked at to find the event.
    looked: u64,
}

#[derive(Debug, Serialize)]
struct EventFacts {
    id: String,
    tenant: String,
    #[serde(rename = "type")]
    event_type: String,
    source: String,
    subject: Option<String>,
    pipeline: String,
    /// Partition and offset in the events topic.
    position: String,
    accepted_at_ms: i64,
    /// The permissions that an app needs to get it.
    permission: Option<String>,
    /// The integration that it came in by, when it is forwarded.
    integration: Option<String>,
}

#[derive(Debug, Serialize)]
struct SetupFacts {
    /// Position of the change feed that this is said of.
    seq: u64,
    /// The one that the event was accepted with.
    accepted_with_seq: u64,
    note: &'static str,
}

/// `GET /v1/events/{id}/explain`. Shows excerpts of the event's body, and leaves a line with target `audit`.
pub(crate) async fn event(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(id): Path<String>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(wanted) = wanted.map_err(|_| {
        Problem::invalid_request(format!(
            "known here: 'pipeline', 'subscription', 'endpoint', 'limit' (1 to {EXPLAIN_PAGE_MAX}, else {PAGE_DEFAULT}) and \
             'after' (the 'next' of the page before)"
        ))
    })?;
    let event_id: EventId = parse_id("event", &id)?;
    let which = wanted.which()?;
    let explaining = Arc::clone(&shared.explaining).try_lock_owned().map_err(|_| Problem::look_running())?;
    let (sighting, looked) = find(&shared, event_id, wanted.pipeline.as_deref()).await?;
    let tenant = sighting.event.tenant.clone();
    let view = shared.store.tenant_view(&tenant).await?;
    let view = view.ok_or_else(|| Problem::not_found("tenant of this event any more,", tenant.as_str()))?;
    tracing::info!(
        target: "audit", actor = &*actor.0, action = "explain_event", kind = "event", %tenant, event = %event_id,
        "excerpts of an event shown"
    );
    let answer = on_a_thread_of_its_own(explaining, move || {
        let setup =
            SetupFacts { seq: view.seq, accepted_with_seq: sighting.event.setup_seq, note: SETUP_OF_NOW };
        let page = page(&sighting.event, &view, &which)?;
        Ok::<_, Problem>(EventExplanation { event: EventFacts::of(&sighting), setup, page, looked })
    });
    Ok(json(&answer.await??))
}

/// Which recipients are asked for.
struct Which {
    subscription: Option<String>,
    endpoint: Option<String>,
    limit: u32,
    after: Option<String>,
}

impl Wanted {
    fn which(&self) -> Result<Which, Problem> {
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        if !(1..=EXPLAIN_PAGE_MAX).contains(&limit) {
            return Err(Problem::invalid_request(format!("'limit' is 1 to {EXPLAIN_PAGE_MAX}")));
        }
        Ok(Which {
            subscription: self.subscription.clone(),
            endpoint: self.endpoint.clone(),
            limit,
            after: self.after.clone(),
        })
    }
}

impl EventFacts {
    fn of(sighting: &Sighting) -> Self {
        let Sighting { event, pipeline, partition, offset } = sighting;
        let attributes = &event.attributes;
        Self {
            id: event.id.to_string(),
            tenant: event.tenant.to_string(),
            event_type: attributes.event_type.clone(),
            source: attributes.source.clone(),
            subject: attributes.subject.clone(),
            pipeline: pipeline.clone(),
            position: format!("{partition}:{offset}"),
            accepted_at_ms: event.accepted_at.millis(),
            permission: attributes
                .extension(PERMISSION_ATTRIBUTE)
                .map(mailrail_types::AttributeValue::to_text),
            integration: event.forwarded.as_ref().map(|forwarded| forwarded.integration.to_string()),
        }
    }
}

/// Evaluating takes processor time: requests of others go on meanwhile. `lock` is held until the work is done, which it is
/// also when nobody waits for it any more: a client that goes away does not end it.
async fn on_a_thread_of_its_own<T: Send + 'static>(
    lock: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let locked = move || {
        let _lock = lock;
        work()
    };
    tokio::task::spawn_blocking(locked).await.map_err(|_| Problem::internal())
}

#[cfg(test)]
mod tests;
