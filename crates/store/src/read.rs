//! Rows to nouns: one tenant or all of them, within the caller's snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mailrail_types::{
    App, AppId, ClassId, Endpoint, EndpointId, EventType, FilterErrorPolicy, FilterLanguage, FilterSource,
    IN_FLIGHT_MAX, Integration, IntegrationId, KeyId, Provider, RATE_PER_SECOND_MAX, Secret, Subscription,
    SubscriptionId, Tenant, TenantId, Timestamp,
};
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::database::Connection;
use crate::seal::Sealer;
use crate::token::TokenHash;
use crate::view::by_event_type;
use crate::{Error, Pause, TenantView};

/// Everything stored of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredTenant {
    pub(crate) tenant: Tenant,
    pub(crate) event_types: BTreeMap<String, EventType>,
    pub(crate) apps: BTreeMap<AppId, App>,
    pub(crate) endpoints: BTreeMap<EndpointId, Endpoint>,
    /// When each secret of an endpoint was made, in the order of [`Endpoint::secrets`].
    pub(crate) secret_times: BTreeMap<EndpointId, Vec<Timestamp>>,
    /// Of the endpoints that are paused.
    pub(crate) pauses: BTreeMap<EndpointId, Pause>,
    pub(crate) subscriptions: BTreeMap<SubscriptionId, Subscription>,
    pub(crate) integrations: BTreeMap<IntegrationId, Integration>,
    pub(crate) keys: BTreeMap<KeyId, TokenHash>,
}

impl StoredTenant {
    pub(crate) const fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            event_types: BTreeMap::new(),
            apps: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            secret_times: BTreeMap::new(),
            pauses: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            integrations: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    /// The tenant as of `seq`. Subscriptions that are as in the `former` view keep their place in memory: who compiled
    /// something from one sees by its address that it still holds.
    pub(crate) fn into_view(self, seq: u64, former: Option<&TenantView>) -> TenantView {
        let known = |s: Subscription| {
            let same = former.and_then(|former| former.subscriptions.get(&s.id)).filter(|same| ***same == s);
            same.map_or_else(|| Arc::new(s), Arc::clone)
        };
        let subscriptions: Vec<_> = self.subscriptions.into_values().map(known).collect();
        TenantView {
            seq,
            tenant: self.tenant,
            event_types: self.event_types.into_iter().collect(),
            apps: self.apps.into_iter().collect(),
            endpoints: self.endpoints.into_iter().map(|(id, endpoint)| (id, Arc::new(endpoint))).collect(),
            pauses: self.pauses.into_iter().collect(),
            integrations: self.integrations.into_iter().map(|(id, i)| (id, Arc::new(i))).collect(),
            by_event_type: by_event_type(subscriptions.iter()),
            subscriptions: subscriptions.into_iter().map(|s| (s.id.clone(), s)).collect(),
        }
    }
}

/// Queries a table, whole or one tenant's rows of it.
macro_rules! rows {
    ($conn:expr, $tenant:expr, $sql:literal) => {
        match $tenant {
            Some(tenant) => {
                let tenant: &TenantId = tenant;
                sqlx::query(concat!($sql, " WHERE tenant = $1"))
                    .bind(tenant.as_str())
                    .fetch_all(&mut *$conn)
                    .await?
            }
            None => sqlx::query($sql).fetch_all(&mut *$conn).await?,
        }
    };
}

/// Every tenant by id, in the caller's snapshot.
pub(crate) async fn all(
    conn: &mut Connection,
    sealer: &Sealer,
) -> Result<HashMap<TenantId, StoredTenant>, Error> {
    load(conn, sealer, None).await
}

/// One tenant, in the caller's snapshot; `None` when there is none with this id.
pub(crate) async fn one(
    conn: &mut Connection,
    sealer: &Sealer,
    tenant: &TenantId,
) -> Result<Option<StoredTenant>, Error> {
    Ok(load(conn, sealer, Some(tenant)).await?.remove(tenant))
}

async fn load(
    conn: &mut Connection,
    sealer: &Sealer,
    of: Option<&TenantId>,
) -> Result<HashMap<TenantId, StoredTenant>, Error> {
    let mut tenants = HashMap::new();
    for row in rows!(conn, of, "SELECT tenant, name, source_class FROM tenants") {
        let tenant = tenant(&row)?;
        tenants.insert(tenant.id.clone(), StoredTenant::new(tenant));
    }
    for row in rows!(conn, of, "SELECT tenant, name, ordering_key FROM event_types") {
        let event_type = event_type(&row)?;
        owner(&mut tenants, &row)?.event_types.insert(event_type.name.clone(), event_type);
    }
    for row in rows!(conn, of, "SELECT tenant, id, name, permissions FROM apps") {
        let app = app(&row)?;
        owner(&mut tenants, &row)?.apps.insert(app.id.clone(), app);
    }
    for row in rows!(
        conn,
        of,
        "SELECT tenant, id, app, url, headers, class, timeout_ms, head_max_age_ms, max_in_flight, rate_per_second, \
         paused_at, paused_by FROM endpoints"
    ) {
        let (endpoint, pause) = endpoint(&row)?;
        let stored = owner(&mut tenants, &row)?;
        stored.pauses.extend(pause.map(|pause| (endpoint.id.clone(), pause)));
        stored.endpoints.insert(endpoint.id.clone(), endpoint);
    }
    let secrets =
        rows!(conn, of, "SELECT tenant, endpoint, position, sealed, created_at FROM endpoint_secrets");
    for row in &in_position(secrets)? {
        let id = id(row, "endpoint", EndpointId::new)?;
        let tenant = tenant_of(row)?;
        let place = secret_place(&tenant, &id);
        let secret = open_secret(sealer, "endpoint", &place, row.try_get("sealed")?)?;
        let stored = owner(&mut tenants, row)?;
        if let Some(endpoint) = stored.endpoints.get_mut(&id) {
            endpoint.secrets.push(secret);
            stored.secret_times.entry(id).or_default().push(Timestamp(row.try_get("created_at")?));
        }
    }
    for row in rows!(
        conn,
        of,
        "SELECT tenant, id, app, endpoint, event_types, filter_language, filter_text, on_filter_error FROM subscriptions"
    ) {
        let subscription = subscription(&row)?;
        owner(&mut tenants, &row)?.subscriptions.insert(subscription.id.clone(), subscription);
    }
    for row in rows!(conn, of, "SELECT tenant, id, provider, cells, class FROM integrations") {
        let integration = integration(&row)?;
        owner(&mut tenants, &row)?.integrations.insert(integration.id.clone(), integration);
    }
    let secrets = rows!(conn, of, "SELECT tenant, integration, position, sealed FROM integration_secrets");
    for row in &in_position(secrets)? {
        let id = id(row, "integration", IntegrationId::new)?;
        let tenant = tenant_of(row)?;
        let place = inbound_secret_place(&tenant, &id);
        let secret = open_secret(sealer, "integration", &place, row.try_get("sealed")?)?;
        if let Some(integration) = owner(&mut tenants, row)?.integrations.get_mut(&id) {
            integration.secrets.push(secret);
        }
    }
    for row in rows!(conn, of, "SELECT tenant, id, hash FROM api_keys") {
        let id = id(&row, "id", KeyId::new)?;
        let hash = TokenHash::try_from(row.try_get::<&[u8], _>("hash")?)
            .map_err(|e| Error::damaged(format!("key '{id}'"), e))?;
        owner(&mut tenants, &row)?.keys.insert(id, hash);
    }
    Ok(tenants)
}

/// Where a signing secret stands: [`Sealer`] binds it to that.
pub(crate) fn secret_place<'a>(tenant: &'a TenantId, endpoint: &'a EndpointId) -> [&'a str; 3] {
    [tenant.as_str(), endpoint.as_str(), "signing-secret"]
}

/// The same for the secret of an integration.
pub(crate) fn inbound_secret_place<'a>(tenant: &'a TenantId, integration: &'a IntegrationId) -> [&'a str; 3] {
    [tenant.as_str(), integration.as_str(), "inbound-secret"]
}

/// Not by the database: a query of a whole table has no order that would serve all tenants.
fn in_position(rows: Vec<AnyRow>) -> Result<Vec<AnyRow>, Error> {
    let mut placed = rows
        .into_iter()
        .map(|row| Ok((row.try_get::<i64, _>("position")?, row)))
        .collect::<Result<Vec<_>, Error>>()?;
    placed.sort_by_key(|(position, _)| *position);
    Ok(placed.into_iter().map(|(_, row)| row).collect())
}

fn open_secret(sealer: &Sealer, kind: &str, place: &[&str; 3], sealed: &[u8]) -> Result<Secret, Error> {
    let [tenant, id, _] = place;
    let what = || format!("a secret of {kind} '{id}' of tenant '{tenant}'");
    let plain = sealer.open(place, sealed).map_err(|e| Error::damaged(what(), e))?;
    let text = std::str::from_utf8(&plain).map_err(|_| Error::damaged(what(), "it is not text"))?;
    Ok(Secret::new(text.to_owned()))
}

fn owner<'a>(
    tenants: &'a mut HashMap<TenantId, StoredTenant>,
    row: &AnyRow,
) -> Result<&'a mut StoredTenant, Error> {
    let id = tenant_of(row)?;
    tenants
        .get_mut(&id)
        .ok_or_else(|| Error::damaged(format!("tenant '{id}'"), "it has rows but does not exist"))
}

fn tenant_of(row: &AnyRow) -> Result<TenantId, Error> {
    id(row, "tenant", TenantId::new)
}

/// A row of `tenants`, whole.
pub(crate) fn tenant(row: &AnyRow) -> Result<Tenant, Error> {
    Ok(Tenant {
        id: tenant_of(row)?,
        name: row.try_get("name")?,
        source_class: id(row, "source_class", ClassId::new)?,
    })
}

pub(crate) fn id<T, E: ToString>(
    row: &AnyRow,
    column: &str,
    new: impl Fn(&str) -> Result<T, E>,
) -> Result<T, Error> {
    new(row.try_get(column)?).map_err(|e| Error::damaged(format!("column {column}"), e))
}

fn app(row: &AnyRow) -> Result<App, Error> {
    let permissions = match row.try_get::<Option<&str>, _>("permissions")? {
        Some(_) => json(row, "permissions")?,
        None => BTreeSet::new(),
    };
    Ok(App { id: id(row, "id", AppId::new)?, name: row.try_get("name")?, permissions })
}

fn event_type(row: &AnyRow) -> Result<EventType, Error> {
    let name: String = row.try_get("name")?;
    let ordering_key = row
        .try_get::<Option<&str>, _>("ordering_key")?
        .map(|path| path.parse().map_err(|e| Error::damaged(format!("event type '{name}'"), e)))
        .transpose()?;
    Ok(EventType { name, ordering_key })
}

/// An endpoint without its secrets, and who paused it.
fn endpoint(row: &AnyRow) -> Result<(Endpoint, Option<Pause>), Error> {
    let id = id(row, "id", EndpointId::new)?;
    let duration = |column: &str| -> Result<Option<Duration>, Error> {
        row.try_get::<Option<i64>, _>(column)?
            .map(|ms| u64::try_from(ms).map_err(|e| Error::damaged(format!("endpoint '{id}'"), e)))
            .transpose()
            .map(|ms| ms.map(Duration::from_millis))
    };
    let (timeout, head_max_age) = (duration("timeout_ms")?, duration("head_max_age_ms")?);
    // A newer version may allow more than this one.
    let limit = |column: &str, max: u32| -> Result<Option<u32>, Error> {
        let stored = row.try_get::<Option<i64>, _>(column)?;
        Ok(stored.map(|limit| u32::try_from(limit.clamp(1, i64::from(max))).unwrap_or(max)))
    };
    let max_in_flight = limit("max_in_flight", IN_FLIGHT_MAX)?;
    let rate_per_second = limit("rate_per_second", RATE_PER_SECOND_MAX)?;
    let by: Option<String> = row.try_get("paused_by")?;
    let pause = row
        .try_get::<Option<i64>, _>("paused_at")?
        .map(|at| Pause { at: Timestamp(at), by: by.unwrap_or_default() });
    let endpoint = Endpoint {
        app: self::id(row, "app", AppId::new)?,
        url: row.try_get("url")?,
        secrets: Vec::new(),
        headers: json(row, "headers")?,
        class: self::id(row, "class", ClassId::new)?,
        timeout,
        head_max_age,
        max_in_flight,
        rate_per_second,
        paused: pause.is_some(),
        id,
    };
    Ok((endpoint, pause))
}

fn subscription(row: &AnyRow) -> Result<Subscription, Error> {
    let id = id(row, "id", SubscriptionId::new)?;
    let filter = match (row.try_get::<Option<&str>, _>("filter_language")?, row.try_get("filter_text")?) {
        (Some(name), Some(text)) => Some(FilterSource {
            language: FilterLanguage::from_name(name).ok_or_else(|| {
                Error::damaged(
                    format!("subscription '{id}'"),
                    format!("filter language '{name}' is not known"),
                )
            })?,
            text,
        }),
        _ => None,
    };
    let on_filter_error = row.try_get::<Option<&str>, _>("on_filter_error")?.map(|name| {
        FilterErrorPolicy::from_name(name).unwrap_or_else(|| {
            // A newer mailrail knows more policies. Not to know one must not keep a tenant's other changes away.
            tracing::warn!(subscription = %id, policy = name, "a policy for filter errors is not known here");
            FilterErrorPolicy::default()
        })
    });
    Ok(Subscription {
        app: self::id(row, "app", AppId::new)?,
        endpoint: self::id(row, "endpoint", EndpointId::new)?,
        event_types: json(row, "event_types")?,
        filter,
        on_filter_error: on_filter_error.unwrap_or_default(),
        id,
    })
}

fn integration(row: &AnyRow) -> Result<Integration, Error> {
    let id = id(row, "id", IntegrationId::new)?;
    let damaged = |problem: String| Error::damaged(format!("integration '{id}'"), problem);
    let name: &str = row.try_get("provider")?;
    let provider =
        Provider::from_name(name).ok_or_else(|| damaged(format!("provider '{name}' is not known")))?;
    let cells = json::<Vec<String>>(row, "cells")?
        .iter()
        .map(|cell| EndpointId::new(cell))
        .collect::<Result<_, _>>()
        .map_err(|e| damaged(e.to_string()))?;
    let class = row.try_get::<Option<&str>, _>("class")?.map(ClassId::new).transpose();
    let class = class.map_err(|e| damaged(e.to_string()))?;
    Ok(Integration { id, provider, secrets: Vec::new(), cells, class })
}

fn json<T: serde::de::DeserializeOwned>(row: &AnyRow, column: &str) -> Result<T, Error> {
    serde_json::from_str(row.try_get(column)?).map_err(|e| Error::damaged(format!("column {column}"), e))
}
