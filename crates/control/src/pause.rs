//! `POST …/endpoints/{id}/pause` and `…/resume`: a person holds an endpoint's mail for now, and lets it go on.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use mailrail_types::{EndpointId, TenantId};
use serde_json::Value;

use crate::access::Actor;
use crate::problem::Problem;
use crate::resources::{self, parse_id};
use crate::respond::{json, read_body, visible};
use crate::service::Shared;
use crate::setup_file::{code, parse_json};

/// `POST /v1/tenants/{tenant}/endpoints/{id}/pause`. The body is empty or `{}`; the answer is the endpoint as it is now.
/// To pause what is paused changes nothing.
pub(crate) async fn pause(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(path): Path<(String, String)>,
    body: Body,
) -> Result<Response, Problem> {
    change(&shared, &actor, &path, body, Change::Pause).await
}

/// `POST /v1/tenants/{tenant}/endpoints/{id}/resume`. As [`pause`], the other way.
pub(crate) async fn resume(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(path): Path<(String, String)>,
    body: Body,
) -> Result<Response, Problem> {
    change(&shared, &actor, &path, body, Change::Resume).await
}

enum Change {
    Pause,
    Resume,
}

async fn change(
    shared: &Arc<Shared>,
    actor: &Actor,
    (tenant, endpoint): &(String, String),
    body: Body,
    change: Change,
) -> Result<Response, Problem> {
    let (tenant, endpoint) = read_request(shared, tenant, endpoint, body).await?;
    let _changing = shared.changing.lock().await;
    let (seq, action, said) = match change {
        Change::Pause => {
            let seq = shared.store.pause_endpoint(&tenant, &endpoint, &actor.0).await?;
            (seq, "pause_endpoint", "endpoint paused")
        }
        Change::Resume => {
            let seq = shared.store.resume_endpoint(&tenant, &endpoint).await?;
            (seq, "resume_endpoint", "endpoint resumed")
        }
    };
    tracing::info!(target: "audit", actor = &*actor.0, action, %tenant, %endpoint, seq, "{said}");
    visible(shared, seq).await;
    state(shared, &tenant, &endpoint).await
}

async fn read_request(
    shared: &Shared,
    tenant: &str,
    endpoint: &str,
    body: Body,
) -> Result<(TenantId, EndpointId), Problem> {
    let ids = (parse_id("tenant", tenant)?, parse_id("endpoint", endpoint)?);
    let body = read_body(shared, body).await?;
    if body.is_empty() {
        return Ok(ids);
    }
    let Ok(Value::Object(object)) = parse_json(&body) else {
        return Err(Problem::invalid_request("send nothing, or an empty object {}"));
    };
    // Somebody who writes `until` or `reason` believes that it is done.
    match object.keys().next() {
        None => Ok(ids),
        Some(field) => {
            Err(Problem::invalid_value(code::UNKNOWN_FIELD, field.as_str(), "no field is known here"))
        }
    }
}

/// The endpoint as it is now. (It may be gone again: another process may have deleted it.)
async fn state(shared: &Shared, tenant: &TenantId, endpoint: &EndpointId) -> Result<Response, Problem> {
    let view = shared.store.tenant_view(tenant).await?;
    let found =
        view.as_ref().and_then(|view| Some((view.endpoints.get(endpoint)?, view.pauses.get(endpoint))));
    let (found, pause) = found.ok_or_else(|| Problem::not_found("endpoint", endpoint.as_str()))?;
    Ok(json(&resources::endpoint(found, pause)))
}
