//! `/v1/dead-letters` and `/v1/quarantine`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use mailrail_types::LetterFilter;
use serde::Deserialize;
use serde_json::{Value, json as value};

use super::letters::PAGE_MAX;
use super::shapes::{FilterParts, ReplayRequest};
use super::{DeadLetters, Trouble};
use crate::access::Actor;
use crate::problem::{Problem, UNKNOWN_TENANT};
use crate::respond::{json, read_body};
use crate::service::Shared;
use crate::setup_file::{code, parse_json};

/// Which of them. Several reasons or ids are separated by commas.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pipeline: Option<String>,
    tenant: Option<String>,
    endpoint: Option<String>,
    event_type: Option<String>,
    reason: Option<String>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    id: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

type WantedQuery = Result<Query<Wanted>, QueryRejection>;

impl Wanted {
    fn of(query: WantedQuery) -> Result<Self, Problem> {
        let Query(wanted) = query.map_err(|_| {
            Problem::invalid_request(format!(
                "known here: 'pipeline', 'tenant', 'endpoint', 'event_type', 'reason', 'since_ms', 'until_ms', 'id', 'limit' \
                 (1 to {PAGE_MAX}) and 'after' (the 'next' of the page before)"
            ))
        })?;
        Ok(wanted)
    }

    fn filter(&self) -> Result<LetterFilter, Problem> {
        let list = |text: &Option<String>| {
            let parts = text.iter().flat_map(|text| text.split(','));
            parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let parts = FilterParts {
            tenant: self.tenant.clone(),
            endpoint: self.endpoint.clone(),
            event_type: self.event_type.clone(),
            reasons: list(&self.reason),
            since_ms: self.since_ms,
            until_ms: self.until_ms,
            ids: list(&self.id),
        };
        Ok(parts.parse()?)
    }
}

/// Of which pipeline; the only one when none is named. And whether payloads are shown.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    pipeline: Option<String>,
    #[serde(default)]
    payload: bool,
}

type WhichQuery = Result<Query<Which>, QueryRejection>;

impl Which {
    fn of(query: WhichQuery) -> Result<Self, Problem> {
        let Query(which) = query
            .map_err(|_| Problem::invalid_request("known here: 'pipeline' and 'payload' (true or false)"))?;
        Ok(which)
    }
}

/// `GET /v1/dead-letters`.
pub(crate) async fn list(State(shared): State<Arc<Shared>>, query: WantedQuery) -> Result<Response, Problem> {
    let wanted = Wanted::of(query)?;
    let all = pick(&shared, wanted.pipeline.as_deref())?;
    Ok(json(&all.list(&wanted.filter()?, wanted.limit, wanted.after.as_deref()).await?))
}

/// `GET /v1/dead-letters/count`.
pub(crate) async fn count(
    State(shared): State<Arc<Shared>>,
    query: WantedQuery,
) -> Result<Response, Problem> {
    let wanted = Wanted::of(query)?;
    if wanted.limit.is_some() {
        return Err(Problem::invalid_request("a count has no 'limit'"));
    }
    let all = pick(&shared, wanted.pipeline.as_deref())?;
    Ok(json(&all.count(&wanted.filter()?, wanted.after.as_deref()).await?))
}

/// `GET /v1/dead-letters/{id}`: a delivery, or a position.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(id): Path<String>,
    query: WhichQuery,
) -> Result<Response, Problem> {
    let which = Which::of(query)?;
    let letter = pick(&shared, which.pipeline.as_deref())?.show(&id, which.payload).await?;
    if which.payload {
        let position = &letter.summary.position;
        tracing::info!(target: "audit", actor = &*actor.0, action = "show_payload", kind = "dead_letter", position, "payload shown");
    }
    Ok(json(&letter))
}

/// `GET /v1/quarantine`.
pub(crate) async fn quarantine(
    State(shared): State<Arc<Shared>>,
    query: WantedQuery,
) -> Result<Response, Problem> {
    let wanted = Wanted::of(query)?;
    let all = pick(&shared, wanted.pipeline.as_deref())?;
    Ok(json(&all.quarantined(&wanted.filter()?, wanted.limit, wanted.after.as_deref()).await?))
}

/// `GET /v1/quarantine/{position}`.
pub(crate) async fn show_quarantined(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(position): Path<String>,
    query: WhichQuery,
) -> Result<Response, Problem> {
    let which = Which::of(query)?;
    let record = pick(&shared, which.pipeline.as_deref())?.show_quarantined(&position, which.payload).await?;
    if which.payload {
        let position = &record.position;
        tracing::info!(target: "audit", actor = &*actor.0, action = "show_payload", kind = "quarantined", position, "payload shown");
    }
    Ok(json(&record))
}

/// `POST /v1/dead-letters/replays`. The answer is 202: it is carried on in the background.
pub(crate) async fn order(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    query: WhichQuery,
    body: Body,
) -> Result<Response, Problem> {
    let all = pick(&shared, Which::of(query)?.pipeline.as_deref())?;
    let body = read_body(&shared, body).await?;
    let tree = parse_json(&body).map_err(|problem| {
        Problem::invalid_request(format!("the body is not usable JSON: {}", problem.detail))
    })?;
    // Without names the values would be taken in the order of the fields.
    if !tree.is_object() || tree.get("filter").is_some_and(|filter| !filter.is_object()) {
        return Err(Problem::invalid_request("send an object such as {\"filter\": {\"tenant\": \"acme\"}}"));
    }
    let request: ReplayRequest = serde_path_to_error::deserialize(tree).map_err(|error| {
        let path = error.path().to_string();
        Problem::invalid_request(format!("{path}: {}", error.into_inner()))
    })?;
    known(&shared, &request.filter)?;
    let status = all.order(&request, &actor.0, false).await?;
    tracing::info!(
        target: "audit", actor = &*actor.0, action = "order_replay", replay = status.id, again = status.again,
        rate = status.rate, filter = %value!(status.filter), "replay ordered"
    );
    let mut response = json(&status);
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// `GET /v1/dead-letters/replays`.
pub(crate) async fn replays(
    State(shared): State<Arc<Shared>>,
    query: WhichQuery,
) -> Result<Response, Problem> {
    let all = pick(&shared, Which::of(query)?.pipeline.as_deref())?;
    Ok(json(&value!({ "items": all.replays().await? })))
}

/// `GET /v1/dead-letters/replays/{id}`.
pub(crate) async fn replay(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    query: WhichQuery,
) -> Result<Response, Problem> {
    Ok(json(&pick(&shared, Which::of(query)?.pipeline.as_deref())?.replay(&id).await?))
}

/// `POST /v1/dead-letters/replays/{id}/cancel`. The body is empty or `{}`.
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(id): Path<String>,
    query: WhichQuery,
    body: Body,
) -> Result<Response, Problem> {
    let all = pick(&shared, Which::of(query)?.pipeline.as_deref())?;
    let body = read_body(&shared, body).await?;
    let nothing = |tree: Value| tree.as_object().is_some_and(serde_json::Map::is_empty);
    if !body.is_empty() && !parse_json(&body).is_ok_and(nothing) {
        return Err(Problem::invalid_request("send nothing, or an empty object {}"));
    }
    let status = all.cancel(&id, &actor.0).await?;
    tracing::info!(target: "audit", actor = &*actor.0, action = "cancel_replay", replay = status.id, "replay cancelled");
    Ok(json(&status))
}

/// Refuses to put letters back for a tenant or an endpoint that is not set up: it is a typing error, or was deleted, and what is put back
/// for it would be cancelled. Lists and counts look at such letters all the same. Nothing is refused on a view that may be old.
fn known(shared: &Shared, filter: &FilterParts) -> Result<(), Problem> {
    let filter = filter.parse()?;
    let Some(id) = filter.tenant.as_ref().filter(|_| shared.directory.is_current()) else { return Ok(()) };
    let Some(tenant) = shared.directory.tenant(id) else {
        let detail =
            format!("there is no tenant '{id}': name one that is set up, as GET /v1/tenants lists them");
        return Err(Problem::invalid_value(UNKNOWN_TENANT, "tenant", detail));
    };
    match &filter.endpoint {
        Some(endpoint) if !tenant.endpoints.contains_key(endpoint) => {
            let detail = format!("tenant '{id}' has no endpoint '{endpoint}': name one of those that it has");
            Err(Problem::invalid_value(code::UNKNOWN_ENDPOINT, "endpoint", detail))
        }
        _ => Ok(()),
    }
}

fn pick<'a>(shared: &'a Shared, pipeline: Option<&str>) -> Result<&'a DeadLetters, Problem> {
    let all = &shared.dead_letters;
    let names = || all.iter().map(DeadLetters::pipeline).collect::<Vec<_>>().join(", ");
    match pipeline {
        Some(name) => all.iter().find(|it| it.pipeline() == name).ok_or_else(|| {
            Problem::invalid_request(format!("there is no such pipeline; known: {}", names()))
        }),
        None if all.len() > 1 => {
            Err(Problem::invalid_request(format!("name the pipeline ('pipeline'): {}", names())))
        }
        None => all.first().ok_or_else(Problem::no_such_path),
    }
}

impl From<Trouble> for Problem {
    fn from(trouble: Trouble) -> Self {
        let detail = trouble.to_string();
        match trouble {
            Trouble::Log(reason) => Self::log_unavailable(&reason),
            Trouble::Ledger(_) => Self::ledger_unreadable(detail),
            Trouble::Filter { field, detail } => Self::invalid_filter(field, detail),
            Trouble::Request(_) => Self::invalid_request(detail),
            Trouble::NotFound(id) => Self::not_found("dead letter, record or replay", &id),
            Trouble::LookedOnly(_) => Self::not_looked_at(detail),
            Trouble::TooManyReplays(_) => Self::too_many_replays(detail),
            Trouble::LedgerFull(_) => Self::ledger_full(detail),
        }
    }
}
