//! Carries out a list of writes in a transaction, with their changes in the feed.

use std::time::Duration;

use mailrail_types::{
    ClassId, Endpoint, EndpointId, Integration, IntegrationId, KeyId, Subscription, TenantId, Timestamp,
};
use sqlx::Row;

use crate::change::{self, Change};
use crate::database::Connection;
use crate::plan::Op;
use crate::read::{inbound_secret_place, secret_place};
use crate::seal::Sealer;
use crate::token::TokenHash;
use crate::{Error, Pause, SetupError};

/// Executes `ops` in an order that keeps references whole and appends a change for each. Gives the feed's new position.
pub(crate) async fn execute(
    conn: &mut Connection,
    sealer: &Sealer,
    mut ops: Vec<(TenantId, Op)>,
) -> Result<u64, Error> {
    let before = change::head(conn).await?;
    let mut seq = before;
    ops.sort_by_key(|(_, op)| op.rank());
    for (tenant, op) in &ops {
        run(conn, sealer, tenant, op).await?;
        if let Some((kind, entity, op)) = op.change(tenant) {
            seq += 1;
            let change = Change { seq, tenant: Some(tenant.clone()), kind, entity, op };
            change::append(conn, &change).await?;
        }
    }
    if seq > before {
        change::trim(conn, seq).await?;
    }
    Ok(seq)
}

async fn run(conn: &mut Connection, sealer: &Sealer, tenant: &TenantId, op: &Op) -> Result<(), Error> {
    let id = tenant.as_str();
    match op {
        Op::PutTenant(tenant) => {
            sqlx::query(
                "INSERT INTO tenants (tenant, name, source_class) VALUES ($1, $2, $3) \
                 ON CONFLICT (tenant) DO UPDATE SET name = excluded.name, source_class = excluded.source_class",
            )
            .bind(id)
            .bind(tenant.name.as_str())
            .bind(tenant.source_class.as_str())
            .execute(conn)
            .await?;
        }
        Op::PutEventType(event_type) => {
            sqlx::query(
                "INSERT INTO event_types (tenant, name, ordering_key) VALUES ($1, $2, $3) \
                 ON CONFLICT (tenant, name) DO UPDATE SET ordering_key = excluded.ordering_key",
            )
            .bind(id)
            .bind(event_type.name.as_str())
            .bind(event_type.ordering_key.as_ref().map(|path| path.as_str()))
            .execute(conn)
            .await?;
        }
        Op::PutApp(app) => {
            sqlx::query(
                "INSERT INTO apps (tenant, id, name, permissions) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name, permissions = excluded.permissions",
            )
            .bind(id)
            .bind(app.id.as_str())
            .bind(app.name.as_str())
            .bind(json(&app.permissions)?)
            .execute(conn)
            .await?;
        }
        Op::PutEndpoint(endpoint, times) => put_endpoint(conn, sealer, tenant, endpoint, times).await?,
        Op::PauseEndpoint(id, pause) => set_pause(conn, tenant, id, Some(pause)).await?,
        Op::ResumeEndpoint(id) => set_pause(conn, tenant, id, None).await?,
        Op::PutSubscription(subscription) => put_subscription(conn, tenant, subscription).await?,
        Op::PutIntegration(integration) => put_integration(conn, sealer, tenant, integration).await?,
        Op::PutKey(key, hash) => put_key(conn, tenant, key, hash).await?,
        Op::ReleaseKey(key) | Op::DeleteKey(key) => {
            delete(conn, "DELETE FROM api_keys WHERE tenant = $1 AND id = $2", tenant, key.as_str()).await?;
        }
        Op::DeleteSubscription(id) => {
            delete(conn, "DELETE FROM subscriptions WHERE tenant = $1 AND id = $2", tenant, id.as_str())
                .await?;
        }
        Op::DeleteIntegration(id) => {
            delete_inbound_secrets(conn, tenant, id).await?;
            delete(conn, "DELETE FROM integrations WHERE tenant = $1 AND id = $2", tenant, id.as_str())
                .await?;
        }
        Op::DeleteEventType(name) => {
            delete(conn, "DELETE FROM event_types WHERE tenant = $1 AND name = $2", tenant, name).await?;
        }
        Op::DeleteEndpoint(id) => {
            delete_secrets(conn, tenant, id).await?;
            delete(conn, "DELETE FROM endpoints WHERE tenant = $1 AND id = $2", tenant, id.as_str()).await?;
        }
        Op::DeleteApp(id) => {
            delete(conn, "DELETE FROM apps WHERE tenant = $1 AND id = $2", tenant, id.as_str()).await?;
        }
        Op::DeleteTenant => {
            sqlx::query("DELETE FROM tenants WHERE tenant = $1").bind(id).execute(conn).await?;
        }
    }
    Ok(())
}

async fn put_endpoint(
    conn: &mut Connection,
    sealer: &Sealer,
    tenant: &TenantId,
    endpoint: &Endpoint,
    times: &[Timestamp],
) -> Result<(), Error> {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    // Whether it is paused is not written here: no set-up changes that.
    sqlx::query(
        "INSERT INTO endpoints (tenant, id, app, url, headers, class, timeout_ms, head_max_age_ms, \
         max_in_flight, rate_per_second) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
         ON CONFLICT (tenant, id) DO UPDATE SET app = excluded.app, url = excluded.url, \
         headers = excluded.headers, class = excluded.class, timeout_ms = excluded.timeout_ms, \
         head_max_age_ms = excluded.head_max_age_ms, max_in_flight = excluded.max_in_flight, \
         rate_per_second = excluded.rate_per_second",
    )
    .bind(tenant.as_str())
    .bind(endpoint.id.as_str())
    .bind(endpoint.app.as_str())
    .bind(endpoint.url.as_str())
    .bind(json(&endpoint.headers)?)
    .bind(endpoint.class.as_str())
    .bind(endpoint.timeout.map(millis))
    .bind(endpoint.head_max_age.map(millis))
    .bind(endpoint.max_in_flight.map(i64::from))
    .bind(endpoint.rate_per_second.map(i64::from))
    .execute(&mut *conn)
    .await?;
    delete_secrets(conn, tenant, &endpoint.id).await?;
    for (position, (secret, time)) in (0_i64..).zip(endpoint.secrets.iter().zip(times)) {
        sqlx::query(
            "INSERT INTO endpoint_secrets (tenant, endpoint, position, sealed, created_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(tenant.as_str())
        .bind(endpoint.id.as_str())
        .bind(position)
        .bind(sealer.seal(&secret_place(tenant, &endpoint.id), secret.expose().as_bytes()))
        .bind(time.millis())
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

async fn set_pause(
    conn: &mut Connection,
    tenant: &TenantId,
    endpoint: &EndpointId,
    pause: Option<&Pause>,
) -> Result<(), Error> {
    sqlx::query("UPDATE endpoints SET paused_at = $3, paused_by = $4 WHERE tenant = $1 AND id = $2")
        .bind(tenant.as_str())
        .bind(endpoint.as_str())
        .bind(pause.map(|pause| pause.at.millis()))
        .bind(pause.map(|pause| pause.by.as_str()))
        .execute(conn)
        .await?;
    Ok(())
}

async fn put_subscription(
    conn: &mut Connection,
    tenant: &TenantId,
    subscription: &Subscription,
) -> Result<(), Error> {
    let filter = subscription.filter.as_ref();
    sqlx::query(
        "INSERT INTO subscriptions (tenant, id, app, endpoint, event_types, filter_language, filter_text, \
         on_filter_error) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
         ON CONFLICT (tenant, id) DO UPDATE SET app = excluded.app, endpoint = excluded.endpoint, \
         event_types = excluded.event_types, filter_language = excluded.filter_language, \
         filter_text = excluded.filter_text, on_filter_error = excluded.on_filter_error",
    )
    .bind(tenant.as_str())
    .bind(subscription.id.as_str())
    .bind(subscription.app.as_str())
    .bind(subscription.endpoint.as_str())
    .bind(json(&subscription.event_types)?)
    .bind(filter.map(|filter| filter.language.name()))
    .bind(filter.map(|filter| filter.text.as_str()))
    .bind(subscription.on_filter_error.name())
    .execute(conn)
    .await?;
    Ok(())
}

async fn put_integration(
    conn: &mut Connection,
    sealer: &Sealer,
    tenant: &TenantId,
    integration: &Integration,
) -> Result<(), Error> {
    let cells: Vec<_> = integration.cells.iter().map(EndpointId::as_str).collect();
    sqlx::query(
        "INSERT INTO integrations (tenant, id, provider, cells, class) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (tenant, id) DO UPDATE SET provider = excluded.provider, cells = excluded.cells, \
         class = excluded.class",
    )
    .bind(tenant.as_str())
    .bind(integration.id.as_str())
    .bind(integration.provider.name())
    .bind(json(&cells)?)
    .bind(integration.class.as_ref().map(ClassId::as_str))
    .execute(&mut *conn)
    .await?;
    delete_inbound_secrets(conn, tenant, &integration.id).await?;
    for (position, secret) in (0_i64..).zip(&integration.secrets) {
        sqlx::query(
            "INSERT INTO integration_secrets (tenant, integration, position, sealed) VALUES ($1, $2, $3, $4)",
        )
        .bind(tenant.as_str())
        .bind(integration.id.as_str())
        .bind(position)
        .bind(sealer.seal(&inbound_secret_place(tenant, &integration.id), secret.expose().as_bytes()))
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Keys that lose their token are written first, so any row with this hash is really another key's.
async fn put_key(
    conn: &mut Connection,
    tenant: &TenantId,
    key: &KeyId,
    hash: &TokenHash,
) -> Result<(), Error> {
    let taken = sqlx::query("SELECT COUNT(*) AS n FROM api_keys WHERE hash = $1")
        .bind(&hash[..])
        .fetch_one(&mut *conn)
        .await?;
    if taken.try_get::<i64, _>("n")? > 0 {
        return Err(SetupError::TokenTaken { tenant: tenant.clone(), key: key.clone() }.into());
    }
    sqlx::query("INSERT INTO api_keys (tenant, id, hash) VALUES ($1, $2, $3)")
        .bind(tenant.as_str())
        .bind(key.as_str())
        .bind(&hash[..])
        .execute(conn)
        .await?;
    Ok(())
}

async fn delete_secrets(
    conn: &mut Connection,
    tenant: &TenantId,
    endpoint: &EndpointId,
) -> Result<(), Error> {
    let sql = "DELETE FROM endpoint_secrets WHERE tenant = $1 AND endpoint = $2";
    delete(conn, sql, tenant, endpoint.as_str()).await
}

async fn delete_inbound_secrets(
    conn: &mut Connection,
    tenant: &TenantId,
    integration: &IntegrationId,
) -> Result<(), Error> {
    let sql = "DELETE FROM integration_secrets WHERE tenant = $1 AND integration = $2";
    delete(conn, sql, tenant, integration.as_str()).await
}

async fn delete(conn: &mut Connection, sql: &'static str, tenant: &TenantId, id: &str) -> Result<(), Error> {
    sqlx::query(sql).bind(tenant.as_str()).bind(id).execute(conn).await?;
    Ok(())
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| Error::damaged("a value to be written", e))
}
