//! Decides what a set-up changes: compares, checks references, and lists the writes. Pure.

use std::collections::BTreeMap;

use mailrail_types::{
    App, AppId, Endpoint, EndpointId, EventType, KeyId, Secret, Subscription, SubscriptionId, Tenant,
    TenantId, Timestamp,
};

use crate::read::StoredTenant;
use crate::setup::{
    Counts, EVENT_TYPE_NAME_MAX, GeneratedSecret, SECRETS_MAX, TOKEN_MIN_CHARS, Tally, TenantSetup,
};
use crate::token::{self, TokenHash};
use crate::{ChangeKind, ChangeOp, SetupError};

/// One write, of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    PutTenant(Tenant),
    PutEventType(EventType),
    PutApp(App),
    /// With the time of each of its secrets.
    PutEndpoint(Endpoint, Vec<Timestamp>),
    PutSubscription(Subscription),
    PutKey(KeyId, TokenHash),
    /// Takes a changed key's old token away first, so that keys may exchange tokens. Not a change of its own.
    ReleaseKey(KeyId),
    DeleteTenant,
    DeleteEventType(String),
    DeleteApp(AppId),
    DeleteEndpoint(EndpointId),
    DeleteSubscription(SubscriptionId),
    DeleteKey(KeyId),
}

impl Op {
    /// Place in a transaction: nothing is written before what it refers to, nothing is deleted while referred to.
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::DeleteKey(_) | Self::ReleaseKey(_) => 0,
            Self::DeleteSubscription(_) => 1,
            Self::DeleteEventType(_) => 2,
            Self::PutTenant(_) => 3,
            Self::PutEventType(_) => 4,
            Self::PutApp(_) => 5,
            Self::PutEndpoint(..) => 6,
            Self::PutSubscription(_) => 7,
            Self::PutKey(..) => 8,
            Self::DeleteEndpoint(_) => 9,
            Self::DeleteApp(_) => 10,
            Self::DeleteTenant => 11,
        }
    }

    /// What the change feed says of it; `None`: nothing.
    pub(crate) fn change(&self, tenant: &TenantId) -> Option<(ChangeKind, String, ChangeOp)> {
        let (kind, id, op) = match self {
            Self::PutTenant(_) => (ChangeKind::Tenant, tenant.as_str(), ChangeOp::Put),
            Self::PutEventType(event_type) => {
                (ChangeKind::EventType, event_type.name.as_str(), ChangeOp::Put)
            }
            Self::PutApp(app) => (ChangeKind::App, app.id.as_str(), ChangeOp::Put),
            Self::PutEndpoint(endpoint, _) => (ChangeKind::Endpoint, endpoint.id.as_str(), ChangeOp::Put),
            Self::PutSubscription(subscription) => {
                (ChangeKind::Subscription, subscription.id.as_str(), ChangeOp::Put)
            }
            Self::PutKey(id, _) => (ChangeKind::Key, id.as_str(), ChangeOp::Put),
            Self::ReleaseKey(_) => return None,
            Self::DeleteTenant => (ChangeKind::Tenant, tenant.as_str(), ChangeOp::Delete),
            Self::DeleteEventType(name) => (ChangeKind::EventType, name.as_str(), ChangeOp::Delete),
            Self::DeleteApp(id) => (ChangeKind::App, id.as_str(), ChangeOp::Delete),
            Self::DeleteEndpoint(id) => (ChangeKind::Endpoint, id.as_str(), ChangeOp::Delete),
            Self::DeleteSubscription(id) => (ChangeKind::Subscription, id.as_str(), ChangeOp::Delete),
            Self::DeleteKey(id) => (ChangeKind::Key, id.as_str(), ChangeOp::Delete),
        };
        Some((kind, id.to_owned(), op))
    }
}

/// What one tenant's set-up changes.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<Op>,
    pub(crate) counts: Counts,
    pub(crate) generated: Vec<GeneratedSecret>,
}

/// Compares `setup` with what is `stored`. `secret` makes a new secret; `now` is its time.
pub(crate) fn plan(
    stored: Option<&StoredTenant>,
    setup: &TenantSetup,
    prune: bool,
    now: Timestamp,
    mut secret: impl FnMut() -> Secret,
) -> Result<Plan, SetupError> {
    let mut plan = Plan::default();
    let nothing = StoredTenant::new(setup.tenant.clone());
    let have = stored.unwrap_or(&nothing);
    let mut want = wanted(setup)?;
    for endpoint in want.endpoints.values_mut().filter(|endpoint| endpoint.secrets.is_empty()) {
        match have.endpoints.get(&endpoint.id) {
            Some(known) if !known.secrets.is_empty() => endpoint.secrets.clone_from(&known.secrets),
            _ => {
                let (tenant, secret) = (setup.tenant.id.clone(), secret());
                endpoint.secrets.push(secret.clone());
                plan.generated.push(GeneratedSecret { tenant, endpoint: endpoint.id.clone(), secret });
            }
        }
    }
    for id in &setup.kept_keys {
        let tenant = &setup.tenant.id;
        let missing = || SetupError::KeptKey { tenant: tenant.clone(), key: id.clone() };
        let hash = *have.keys.get(id).ok_or_else(missing)?;
        insert(tenant, &mut want.keys, ChangeKind::Key, id.clone(), hash)?;
    }
    check_references(have, &want, prune)?;

    match stored {
        None => plan.counts.tenants.created = 1,
        Some(stored) if stored.tenant != setup.tenant => plan.counts.tenants.updated = 1,
        Some(_) => plan.counts.tenants.unchanged = 1,
    }
    if plan.counts.tenants.unchanged == 0 {
        plan.ops.push(Op::PutTenant(setup.tenant.clone()));
    }
    let (ops, counts) = (&mut plan.ops, &mut plan.counts);
    counts.event_types =
        diff(ops, &have.event_types, want.event_types, prune, Op::PutEventType, Op::DeleteEventType);
    counts.apps = diff(ops, &have.apps, want.apps, prune, Op::PutApp, Op::DeleteApp);
    let put = |endpoint: Endpoint| {
        let times = secret_times(have, &endpoint, now);
        Op::PutEndpoint(endpoint, times)
    };
    counts.endpoints = diff(ops, &have.endpoints, want.endpoints, prune, put, Op::DeleteEndpoint);
    counts.subscriptions = diff(
        ops,
        &have.subscriptions,
        want.subscriptions,
        prune,
        Op::PutSubscription,
        Op::DeleteSubscription,
    );
    let known = ops.len();
    let keyed = |keys: &BTreeMap<KeyId, TokenHash>| -> BTreeMap<KeyId, (KeyId, TokenHash)> {
        keys.iter().map(|(id, hash)| (id.clone(), (id.clone(), *hash))).collect()
    };
    let put = |(id, hash)| Op::PutKey(id, hash);
    counts.keys = diff(ops, &keyed(&have.keys), keyed(&want.keys), prune, put, Op::DeleteKey);
    let released: Vec<_> = ops[known..]
        .iter()
        .filter_map(|op| match op {
            Op::PutKey(id, _) if have.keys.contains_key(id) => Some(Op::ReleaseKey(id.clone())),
            _ => None,
        })
        .collect();
    ops.extend(released);
    Ok(plan)
}

/// The writes that delete a tenant and everything in it.
pub(crate) fn delete_tenant(stored: &StoredTenant) -> Vec<Op> {
    let mut ops: Vec<_> = stored.keys.keys().cloned().map(Op::DeleteKey).collect();
    ops.extend(stored.subscriptions.keys().cloned().map(Op::DeleteSubscription));
    ops.extend(stored.event_types.keys().cloned().map(Op::DeleteEventType));
    ops.extend(stored.endpoints.keys().cloned().map(Op::DeleteEndpoint));
    ops.extend(stored.apps.keys().cloned().map(Op::DeleteApp));
    ops.push(Op::DeleteTenant);
    ops
}

/// The writes that delete an app, its endpoints and its subscriptions; `None`: there is no such app.
pub(crate) fn delete_app(stored: &StoredTenant, id: &AppId) -> Option<Vec<Op>> {
    stored.apps.contains_key(id).then(|| {
        let subscriptions = stored.subscriptions.values().filter(|s| s.app == *id);
        let endpoints = stored.endpoints.values().filter(|e| e.app == *id);
        let mut ops: Vec<_> = subscriptions.map(|s| Op::DeleteSubscription(s.id.clone())).collect();
        ops.extend(endpoints.map(|e| Op::DeleteEndpoint(e.id.clone())));
        ops.push(Op::DeleteApp(id.clone()));
        ops
    })
}

/// The writes that delete an endpoint and its subscriptions; `None`: there is no such endpoint.
pub(crate) fn delete_endpoint(stored: &StoredTenant, id: &EndpointId) -> Option<Vec<Op>> {
    stored.endpoints.contains_key(id).then(|| {
        let subscriptions = stored.subscriptions.values().filter(|s| s.endpoint == *id);
        let mut ops: Vec<_> = subscriptions.map(|s| Op::DeleteSubscription(s.id.clone())).collect();
        ops.push(Op::DeleteEndpoint(id.clone()));
        ops
    })
}

/// The write that puts `new` first among an endpoint's secrets; `None`: there is no such endpoint.
pub(crate) fn rotate(
    stored: &StoredTenant,
    id: &EndpointId,
    new: Secret,
    keep_previous: bool,
    now: Timestamp,
) -> Option<Op> {
    let mut endpoint = stored.endpoints.get(id)?.clone();
    if !keep_previous {
        endpoint.secrets.clear();
    }
    endpoint.secrets.retain(|secret| *secret != new);
    endpoint.secrets.insert(0, new);
    endpoint.secrets.truncate(SECRETS_MAX);
    let times = secret_times(stored, &endpoint, now);
    Some(Op::PutEndpoint(endpoint, times))
}

/// A secret that stays keeps its time.
fn secret_times(have: &StoredTenant, endpoint: &Endpoint, now: Timestamp) -> Vec<Timestamp> {
    let known = have.endpoints.get(&endpoint.id).map_or(&[][..], |known| &known.secrets);
    let times = have.secret_times.get(&endpoint.id).map_or(&[][..], |times| times);
    let time_of =
        |secret| known.iter().zip(times).find(|(known, _)| *known == secret).map_or(now, |(_, time)| *time);
    endpoint.secrets.iter().map(time_of).collect()
}

fn diff<K: Ord + Clone, V: PartialEq>(
    ops: &mut Vec<Op>,
    have: &BTreeMap<K, V>,
    want: BTreeMap<K, V>,
    prune: bool,
    put: impl Fn(V) -> Op,
    delete: impl Fn(K) -> Op,
) -> Tally {
    let mut tally = Tally::default();
    if prune {
        let gone = have.keys().filter(|id| !want.contains_key(id)).cloned();
        let before = ops.len();
        ops.extend(gone.map(delete));
        tally.deleted = u32::try_from(ops.len() - before).unwrap_or(u32::MAX);
    }
    for (id, value) in want {
        match have.get(&id) {
            Some(known) if *known == value => {
                tally.unchanged += 1;
                continue;
            }
            Some(_) => tally.updated += 1,
            None => tally.created += 1,
        }
        ops.push(put(value));
    }
    tally
}

/// The set-up by id, each entity checked by itself.
fn wanted(setup: &TenantSetup) -> Result<StoredTenant, SetupError> {
    let tenant = &setup.tenant.id;
    let mut want = StoredTenant::new(setup.tenant.clone());
    check_text(tenant, ChangeKind::Tenant, tenant.as_str(), &[&setup.tenant.name])?;
    for event_type in &setup.event_types {
        let name = &event_type.name;
        if name.is_empty() || name.len() > EVENT_TYPE_NAME_MAX {
            return Err(SetupError::EventTypeName { tenant: tenant.clone(), bytes: name.len() });
        }
        let path = event_type.ordering_key.as_ref().map_or("", |path| path.as_str());
        check_text(tenant, ChangeKind::EventType, name, &[name, path])?;
        insert(tenant, &mut want.event_types, ChangeKind::EventType, name.clone(), event_type.clone())?;
    }
    for app in &setup.apps {
        check_text(tenant, ChangeKind::App, app.id.as_str(), &[&app.name])?;
        insert(tenant, &mut want.apps, ChangeKind::App, app.id.clone(), app.clone())?;
    }
    for endpoint in setup.endpoints.iter().map(|setup| &setup.endpoint) {
        let id = &endpoint.id;
        let count = endpoint.secrets.len();
        if count > SECRETS_MAX {
            return Err(SetupError::Secrets { tenant: tenant.clone(), endpoint: id.clone(), count });
        }
        check_text(tenant, ChangeKind::Endpoint, id.as_str(), &[&endpoint.url])?;
        insert(tenant, &mut want.endpoints, ChangeKind::Endpoint, id.clone(), endpoint.clone())?;
    }
    for subscription in &setup.subscriptions {
        let filter = subscription.filter.as_ref().map_or("", |filter| &filter.text);
        check_text(tenant, ChangeKind::Subscription, subscription.id.as_str(), &[filter])?;
        let id = subscription.id.clone();
        insert(tenant, &mut want.subscriptions, ChangeKind::Subscription, id, subscription.clone())?;
    }
    for key in &setup.keys {
        if key.token.chars().count() < TOKEN_MIN_CHARS {
            return Err(SetupError::TokenShort { tenant: tenant.clone(), key: key.id.clone() });
        }
        insert(tenant, &mut want.keys, ChangeKind::Key, key.id.clone(), token::hash(&key.token))?;
    }
    Ok(want)
}

fn insert<K: Ord + ToString, V>(
    tenant: &TenantId,
    into: &mut BTreeMap<K, V>,
    kind: ChangeKind,
    id: K,
    value: V,
) -> Result<(), SetupError> {
    if into.contains_key(&id) {
        return Err(SetupError::Twice { tenant: tenant.clone(), kind, id: id.to_string() });
    }
    into.insert(id, value);
    Ok(())
}

fn check_text(tenant: &TenantId, kind: ChangeKind, id: &str, texts: &[&str]) -> Result<(), SetupError> {
    if texts.iter().any(|text| text.contains('\0')) {
        return Err(SetupError::Nul { tenant: tenant.clone(), kind, id: id.replace('\0', "?") });
    }
    Ok(())
}

/// Checks what would be stored afterwards: what is wanted, over what stays of `have`.
fn check_references(have: &StoredTenant, want: &StoredTenant, prune: bool) -> Result<(), SetupError> {
    let tenant = || have.tenant.id.clone();
    let stays = !prune;
    let app_exists = |app: &AppId| want.apps.contains_key(app) || (stays && have.apps.contains_key(app));
    for endpoint in want.endpoints.values() {
        if !app_exists(&endpoint.app) {
            let (endpoint, app) = (endpoint.id.clone(), endpoint.app.clone());
            return Err(SetupError::EndpointApp { tenant: tenant(), endpoint, app });
        }
    }
    // Stored subscriptions are checked too: an endpoint that moves to another app must not leave them behind.
    let staying = have.subscriptions.values().filter(|s| stays && !want.subscriptions.contains_key(&s.id));
    for subscription in want.subscriptions.values().chain(staying) {
        let Subscription { id, app, endpoint, .. } = subscription;
        let (id, app, endpoint) = (id.clone(), app.clone(), endpoint.clone());
        if !app_exists(&app) {
            return Err(SetupError::SubscriptionApp { tenant: tenant(), subscription: id, app });
        }
        let stored = have.endpoints.get(&endpoint).filter(|_| stays);
        match want.endpoints.get(&endpoint).or(stored).map(|found| found.app.clone()) {
            None => {
                return Err(SetupError::SubscriptionEndpoint {
                    tenant: tenant(),
                    subscription: id,
                    endpoint,
                });
            }
            Some(owner) if owner != app => {
                return Err(SetupError::ForeignEndpoint {
                    tenant: tenant(),
                    subscription: id,
                    app,
                    endpoint,
                    owner,
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
