//! Reading and deleting what is set up. Answers are explicit types: what they do not name is never shown.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mailrail_store::{Pause, TenantView};
use mailrail_types::{Endpoint, EndpointId, IdError, Integration, Subscription, TenantId};
use serde::Deserialize;
use serde_json::{Map, Value, json as value};

use crate::access::Actor;
use crate::problem::Problem;
use crate::respond::{json, visible};
use crate::service::Shared;

/// Items of a page when the caller names no number.
const PAGE_DEFAULT: usize = 100;
/// Most items of a page: some hundred kilobytes.
const PAGE_MAX: usize = 1000;

/// Kinds of things that a tenant has, as paths name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    EventTypes,
    Apps,
    Endpoints,
    Subscriptions,
    Integrations,
    Keys,
}

impl Kind {
    fn from_path(text: &str) -> Result<Self, Problem> {
        match text {
            "event-types" => Ok(Kind::EventTypes),
            "apps" => Ok(Kind::Apps),
            "endpoints" => Ok(Kind::Endpoints),
            "subscriptions" => Ok(Kind::Subscriptions),
            "integrations" => Ok(Kind::Integrations),
            "keys" => Ok(Kind::Keys),
            _ => Err(Problem::no_such_path()),
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Kind::EventTypes => "event type",
            Kind::Apps => "app",
            Kind::Endpoints => "endpoint",
            Kind::Subscriptions => "subscription",
            Kind::Integrations => "integration",
            Kind::Keys => "key",
        }
    }
}

/// Which part of a list: `?limit=100&after=<id of the last item seen>`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    limit: Option<usize>,
    after: Option<String>,
}

pub(crate) type PageQuery = Result<Query<Page>, axum::extract::rejection::QueryRejection>;

/// `GET /v1/tenants`.
pub(crate) async fn tenants(State(shared): State<Arc<Shared>>, page: PageQuery) -> Result<Response, Problem> {
    let tenants = shared.store.tenants().await?;
    let items = tenants.into_iter().map(|t| {
        let shown = value!({ "id": t.id.as_str(), "name": t.name, "source_class": t.source_class.as_str() });
        (t.id.to_string(), shown)
    });
    paged(items.collect(), page)
}

/// `GET /v1/tenants/{tenant}`.
pub(crate) async fn tenant(
    State(shared): State<Arc<Shared>>,
    Path(tenant): Path<String>,
) -> Result<Response, Problem> {
    let (id, view) = view(&shared, &tenant).await?;
    let keys = shared.store.keys(&id).await?.unwrap_or_default();
    Ok(json(&value!({
        "id": view.tenant.id.as_str(),
        "name": view.tenant.name,
        "source_class": view.tenant.source_class.as_str(),
        "event_types": view.event_types.len(),
        "apps": view.apps.len(),
        "endpoints": view.endpoints.len(),
        "subscriptions": view.subscriptions.len(),
        "integrations": view.integrations.len(),
        "keys": keys.len(),
    })))
}

/// `DELETE /v1/tenants/{tenant}`.
pub(crate) async fn delete_tenant(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(tenant): Path<String>,
) -> Result<Response, Problem> {
    let id = parse_id("tenant", &tenant)?;
    let _changing = shared.changing.lock().await;
    let seq = shared.store.delete_tenant(&id).await?;
    tracing::info!(target: "audit", actor = &*actor.0, action = "delete", kind = "tenant", tenant = %id, seq, "deleted");
    visible(&shared, seq).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /v1/tenants/{tenant}/{kind}`.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Path((tenant, kind)): Path<(String, String)>,
    page: PageQuery,
) -> Result<Response, Problem> {
    let kind = Kind::from_path(&kind)?;
    paged(items(&shared, &tenant, kind).await?, page)
}

/// `GET /v1/tenants/{tenant}/{kind}/{id}`.
pub(crate) async fn item(
    State(shared): State<Arc<Shared>>,
    Path((tenant, kind, id)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let kind = Kind::from_path(&kind)?;
    let found = items(&shared, &tenant, kind).await?.into_iter().find(|(item, _)| *item == id);
    found.map(|(_, item)| json(&item)).ok_or_else(|| Problem::not_found(kind.noun(), &id))
}

/// `DELETE /v1/tenants/{tenant}/{kind}/{id}`. Deleting an app or endpoint deletes what hangs on it.
pub(crate) async fn delete_item(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path((tenant, kind, id)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let kind = Kind::from_path(&kind)?;
    let tenant = parse_id("tenant", &tenant)?;
    let noun = kind.noun();
    let _changing = shared.changing.lock().await;
    let store = &shared.store;
    let seq = match kind {
        Kind::EventTypes => store.delete_event_type(&tenant, &id).await?,
        Kind::Apps => store.delete_app(&tenant, &parse_id(noun, &id)?).await?,
        Kind::Endpoints => store.delete_endpoint(&tenant, &parse_id(noun, &id)?).await?,
        Kind::Subscriptions => store.delete_subscription(&tenant, &parse_id(noun, &id)?).await?,
        Kind::Integrations => store.delete_integration(&tenant, &parse_id(noun, &id)?).await?,
        Kind::Keys => store.delete_key(&tenant, &parse_id(noun, &id)?).await?,
    };
    tracing::info!(target: "audit", actor = &*actor.0, action = "delete", kind = noun, %tenant, id, seq, "deleted");
    visible(&shared, seq).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// An id of a path. What cannot be an id does not exist.
pub(crate) fn parse_id<T: FromStr<Err = IdError>>(kind: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| Problem::not_found(kind, text))
}

async fn view(shared: &Shared, tenant: &str) -> Result<(TenantId, TenantView), Problem> {
    let id = parse_id("tenant", tenant)?;
    let view = shared.store.tenant_view(&id).await?.ok_or_else(|| Problem::not_found("tenant", tenant))?;
    Ok((id, view))
}

/// Everything of a kind, with its id, in order of the ids.
async fn items(shared: &Shared, tenant: &str, kind: Kind) -> Result<Vec<(String, Value)>, Problem> {
    let (id, view) = view(shared, tenant).await?;
    let mut items: Vec<(String, Value)> = match kind {
        Kind::EventTypes => {
            let shown = |t: &mailrail_types::EventType| value!({ "name": t.name, "ordering_key": t.ordering_key.as_ref().map(mailrail_types::JsonPath::as_str) });
            view.event_types.values().map(|t| (t.name.clone(), shown(t))).collect()
        }
        Kind::Apps => {
            let shown = |a: &mailrail_types::App| value!({ "id": a.id.as_str(), "name": a.name, "permissions": a.permissions });
            view.apps.values().map(|a| (a.id.to_string(), shown(a))).collect()
        }
        Kind::Endpoints => {
            view.endpoints.values().map(|e| (e.id.to_string(), endpoint(e, view.pauses.get(&e.id)))).collect()
        }
        Kind::Subscriptions => {
            view.subscriptions.values().map(|s| (s.id.to_string(), subscription(s))).collect()
        }
        Kind::Integrations => {
            view.integrations.values().map(|i| (i.id.to_string(), integration(i, &view))).collect()
        }
        Kind::Keys => {
            let keys = shared.store.keys(&id).await?.unwrap_or_default();
            keys.iter().map(|key| (key.to_string(), value!({ "id": key.as_str() }))).collect()
        }
    };
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(items)
}

/// Names of headers without their values, the number of secrets, and the URL without its query: all may be credentials.
pub(crate) fn endpoint(endpoint: &Endpoint, pause: Option<&Pause>) -> Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    value!({
        "id": endpoint.id.as_str(),
        "app": endpoint.app.as_str(),
        "url": without_query(&endpoint.url),
        "header_names": endpoint.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        "secrets": endpoint.secrets.len(),
        "class": endpoint.class.as_str(),
        "timeout_ms": endpoint.timeout.map(millis),
        "head_max_age_ms": endpoint.head_max_age.map(millis),
        "max_in_flight": endpoint.max_in_flight,
        "rate_per_second": endpoint.rate_per_second,
        "paused": endpoint.paused,
        "paused_by": pause.map(|pause| pause.by.as_str()),
        "paused_at_ms": pause.map(|pause| pause.at.millis()),
    })
}

/// A URL as it is shown: whether it has a query, and not which.
fn without_query(url: &str) -> String {
    match url.split_once('?') {
        Some((before, _)) => format!("{before}?…"),
        None => url.to_owned(),
    }
}

fn integration(integration: &Integration, view: &TenantView) -> Value {
    let paused = integration.cells.iter().filter(|cell| view.endpoints.get(*cell).is_some_and(|e| e.paused));
    value!({
        "id": integration.id.as_str(),
        "provider": integration.provider.name(),
        "secrets": integration.secrets.len(),
        "cells": integration.cells.iter().map(EndpointId::as_str).collect::<Vec<_>>(),
        "paused_cells": paused.map(EndpointId::as_str).collect::<Vec<_>>(),
        "class": integration.class.as_ref().map(mailrail_types::ClassId::as_str),
    })
}

fn subscription(subscription: &Subscription) -> Value {
    let filter = subscription.filter.as_ref().map(|filter| {
        let text = serde_json::from_str(&filter.text).unwrap_or_else(|_| Value::String(filter.text.clone()));
        Value::Object(Map::from_iter([(filter.language.name().to_owned(), text)]))
    });
    value!({
        "id": subscription.id.as_str(),
        "app": subscription.app.as_str(),
        "endpoint": subscription.endpoint.as_str(),
        "event_types": subscription.event_types,
        "filter": filter,
        "on_filter_error": subscription.on_filter_error.name(),
    })
}

pub(crate) fn paged(items: Vec<(String, Value)>, page: PageQuery) -> Result<Response, Problem> {
    let Query(page) = page.map_err(|_| {
        Problem::invalid_request(format!(
            "known here: 'limit' (1 to {PAGE_MAX}) and 'after' (the 'next' of the page before)"
        ))
    })?;
    let limit = page.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let from = page.after.map_or(0, |after| items.partition_point(|(id, _)| *id <= after));
    let more = items.len() > from + limit;
    let page: Vec<_> = items.into_iter().skip(from).take(limit).collect();
    let next = page.last().filter(|_| more).map(|(id, _)| id.clone());
    let items: Vec<_> = page.into_iter().map(|(_, item)| item).collect();
    Ok(json(&value!({ "items": items, "next": next })))
}
