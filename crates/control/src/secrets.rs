//! Rotation of an endpoint's signing secret: a new one that is shown once, with overlap, and the end of the overlap.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use mailrail_sign::{SigningKey, secret_from_bytes};
use mailrail_types::{EndpointId, IntegrationId, Secret, TenantId};
use serde_json::Value;

use crate::access::Actor;
use crate::apply::NewSecret;
use crate::problem::Problem;
use crate::resources::parse_id;
use crate::respond::{json, read_body, visible};
use crate::service::Shared;
use crate::setup_file::parse_json;

/// `POST …/secret/rotate`: signs with a new secret from now on, and with the previous ones beside it. The body is empty,
/// or `{"secret": "whsec_…"}` to bring one's own.
pub(crate) async fn rotate(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path((tenant, endpoint)): Path<(String, String)>,
    body: Body,
) -> Result<Response, Problem> {
    let (tenant, endpoint) = ids(&tenant, &endpoint)?;
    let given = read_secret(&read_body(&shared, body).await?)?;
    let generated = given.is_none();
    let secret = given.unwrap_or_else(|| secret_from_bytes(&rand::random()));
    let _changing = shared.changing.lock().await;
    let seq = shared.store.rotate_secret(&tenant, &endpoint, secret.clone(), true).await?;
    tracing::info!(
        target: "audit", actor = &*actor.0, action = "rotate_secret", %tenant, %endpoint, generated, seq, "secret rotated"
    );
    visible(&shared, seq).await;
    let (tenant, endpoint) = (tenant.to_string(), endpoint.to_string());
    Ok(json(&NewSecret { tenant, endpoint, secret: secret.expose().to_owned() }))
}

/// `DELETE …/secret/previous`: signs with the newest secret only.
pub(crate) async fn revoke_previous(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path((tenant, endpoint)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (tenant, endpoint) = ids(&tenant, &endpoint)?;
    let _changing = shared.changing.lock().await;
    let view = shared.store.tenant_view(&tenant).await?;
    let found = view.as_ref().and_then(|v| v.endpoints.get(&endpoint));
    let Some(newest) = found.and_then(|e| e.secrets.first()).cloned() else {
        return Err(Problem::not_found("endpoint", endpoint.as_str()));
    };
    let seq = shared.store.rotate_secret(&tenant, &endpoint, newest, false).await?;
    tracing::info!(
        target: "audit", actor = &*actor.0, action = "revoke_previous_secrets", %tenant, %endpoint, seq, "secrets revoked"
    );
    visible(&shared, seq).await;
    Ok(json(&serde_json::json!({ "tenant": tenant.as_str(), "endpoint": endpoint.as_str(), "secrets": 1 })))
}

/// `DELETE /v1/tenants/{tenant}/integrations/{id}/secret/previous`: takes only what is signed with the newest secret.
pub(crate) async fn revoke_previous_inbound(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path((tenant, integration)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let tenant: TenantId = parse_id("tenant", &tenant)?;
    let integration: IntegrationId = parse_id("integration", &integration)?;
    let _changing = shared.changing.lock().await;
    let seq = shared.store.revoke_previous_inbound(&tenant, &integration).await?;
    tracing::info!(
        target: "audit", actor = &*actor.0, action = "revoke_previous_secrets", %tenant, %integration, seq, "secrets revoked"
    );
    visible(&shared, seq).await;
    Ok(json(&serde_json::json!({ "tenant": tenant.as_str(), "integration": integration.as_str() })))
}

fn ids(tenant: &str, endpoint: &str) -> Result<(TenantId, EndpointId), Problem> {
    Ok((parse_id("tenant", tenant)?, parse_id("endpoint", endpoint)?))
}

fn read_secret(body: &[u8]) -> Result<Option<Secret>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    let shape = || Problem::invalid_request("send nothing, or an object {\"secret\": \"whsec_…\"}");
    let Ok(Value::Object(mut object)) = parse_json(body) else { return Err(shape()) };
    let secret = match object.remove("secret") {
        Some(Value::String(text)) => Some(Secret::new(text)),
        Some(_) => return Err(shape()),
        None => None,
    };
    if !object.is_empty() {
        return Err(shape());
    }
    if let Some(secret) = &secret {
        SigningKey::parse(secret).map_err(|error| Problem::invalid_request(error.to_string()))?;
    }
    Ok(secret)
}
