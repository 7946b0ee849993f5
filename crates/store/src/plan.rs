//! Decides what a set-up changes: compares what is wanted with what is stored, and lists the writes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use mailrail_types::{
    App, AppId, ClassId, Endpoint, EndpointId, EventType, Integration, IntegrationId, KeyId, Secret,
    Subscription, SubscriptionId, Tenant, TenantId, Timestamp,
};

use crate::check::{check_classes, check_references, insert, wanted};
use crate::read::StoredTenant;
use crate::setup::{Counts, GeneratedSecret, SECRETS_MAX, Tally, TenantSetup};
use crate::token::TokenHash;
use crate::{ChangeKind, ChangeOp, Pause, SetupError};

/// One write, of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    PutTenant(Tenant),
    PutEventType(EventType),
    PutApp(App),
    /// With the time of each of its secrets.
    PutEndpoint(Endpoint, Vec<Timestamp>),
    PauseEndpoint(EndpointId, Pause),
    ResumeEndpoint(EndpointId),
    PutSubscription(Subscription),
    PutIntegration(Integration),
    PutKey(KeyId, TokenHash),
    /// Takes a changed key's old token away first, so that keys may exchange tokens. Not a change of its own.
    ReleaseKey(KeyId),
    DeleteTenant,
    DeleteEventType(String),
    DeleteApp(AppId),
    DeleteEndpoint(EndpointId),
    DeleteSubscription(SubscriptionId),
    DeleteIntegration(IntegrationId),
    DeleteKey(KeyId),
}

impl Op {
    /// Place in a transaction: nothing is written before what it refers to, nothing is deleted while referred to.
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::DeleteKey(_) | Self::ReleaseKey(_) => 0,
            Self::DeleteSubscription(_) => 1,
            Self::DeleteIntegration(_) => 2,
            Self::DeleteEventType(_) => 3,
            Self::PutTenant(_) => 4,
            Self::PutEventType(_) => 5,
            Self::PutApp(_) => 6,
            Self::PutEndpoint(..) | Self::PauseEndpoint(..) | Self::ResumeEndpoint(_) => 7,
            Self::PutSubscription(_) => 8,
            Self::PutIntegration(_) => 9,
            Self::PutKey(..) => 10,
            Self::DeleteEndpoint(_) => 11,
            Self::DeleteApp(_) => 12,
            Self::DeleteTenant => 13,
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
            Self::PauseEndpoint(id, _) | Self::ResumeEndpoint(id) => {
                (ChangeKind::Endpoint, id.as_str(), ChangeOp::Put)
            }
            Self::PutSubscription(subscription) => {
                (ChangeKind::Subscription, subscription.id.as_str(), ChangeOp::Put)
            }
            Self::PutIntegration(integration) => {
                (ChangeKind::Integration, integration.id.as_str(), ChangeOp::Put)
            }
            Self::PutKey(id, _) => (ChangeKind::Key, id.as_str(), ChangeOp::Put),
            Self::ReleaseKey(_) => return None,
            Self::DeleteTenant => (ChangeKind::Tenant, tenant.as_str(), ChangeOp::Delete),
            Self::DeleteEventType(name) => (ChangeKind::EventType, name.as_str(), ChangeOp::Delete),
            Self::DeleteApp(id) => (ChangeKind::App, id.as_str(), ChangeOp::Delete),
            Self::DeleteEndpoint(id) => (ChangeKind::Endpoint, id.as_str(), ChangeOp::Delete),
            Self::DeleteSubscription(id) => (ChangeKind::Subscription, id.as_str(), ChangeOp::Delete),
            Self::DeleteIntegration(id) => (ChangeKind::Integration, id.as_str(), ChangeOp::Delete),
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

/// Compares `setup` with what is `stored`. `classes` exist; `secret` makes a new secret; `now` is its time.
pub(crate) fn plan(
    stored: Option<&StoredTenant>,
    classes: &BTreeSet<ClassId>,
    setup: &TenantSetup,
    prune: bool,
    now: Timestamp,
    mut secret: impl FnMut() -> Secret,
) -> Result<Plan, SetupError> {
    let mut plan = Plan::default();
    let nothing = StoredTenant::new(setup.tenant.clone());
    let have = stored.unwrap_or(&nothing);
    let mut want = wanted(setup)?;
    for integration in want.integrations.values_mut().filter(|integration| integration.secrets.is_empty()) {
        if let Some(known) = have.integrations.get(&integration.id) {
            integration.secrets.clone_from(&known.secrets);
        }
    }
    for endpoint in want.endpoints.values_mut() {
        // Not a set-up's to say: what is paused stays so, what is new is not.
        endpoint.paused = have.pauses.contains_key(&endpoint.id);
    }
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
    check_classes(&want, classes)?;

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
    counts.integrations =
        diff(ops, &have.integrations, want.integrations, prune, Op::PutIntegration, Op::DeleteIntegration);
    counts.keys = diff_keys(ops, &have.keys, &want.keys, prune);
    Ok(plan)
}

/// As [`diff`]; a key that changes gives its old token up before anything takes it.
fn diff_keys(
    ops: &mut Vec<Op>,
    have: &BTreeMap<KeyId, TokenHash>,
    want: &BTreeMap<KeyId, TokenHash>,
    prune: bool,
) -> Tally {
    let known = ops.len();
    let keyed = |keys: &BTreeMap<KeyId, TokenHash>| -> BTreeMap<KeyId, (KeyId, TokenHash)> {
        keys.iter().map(|(id, hash)| (id.clone(), (id.clone(), *hash))).collect()
    };
    let put = |(id, hash)| Op::PutKey(id, hash);
    let tally = diff(ops, &keyed(have), keyed(want), prune, put, Op::DeleteKey);
    let released: Vec<_> = ops[known..]
        .iter()
        .filter_map(|op| match op {
            Op::PutKey(id, _) if have.contains_key(id) => Some(Op::ReleaseKey(id.clone())),
            _ => None,
        })
        .collect();
    ops.extend(released);
    tally
}

/// The writes that delete a tenant and everything in it.
pub(crate) fn delete_tenant(stored: &StoredTenant) -> Vec<Op> {
    let mut ops: Vec<_> = stored.keys.keys().cloned().map(Op::DeleteKey).collect();
    ops.extend(stored.subscriptions.keys().cloned().map(Op::DeleteSubscription));
    ops.extend(stored.integrations.keys().cloned().map(Op::DeleteIntegration));
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
        let endpoints: Vec<_> = stored.endpoints.values().filter(|e| e.app == *id).map(|e| &e.id).collect();
        let mut ops: Vec<_> = subscriptions.map(|s| Op::DeleteSubscription(s.id.clone())).collect();
        ops.extend(without_cells(stored, &endpoints));
        ops.extend(endpoints.into_iter().cloned().map(Op::DeleteEndpoint));
        ops.push(Op::DeleteApp(id.clone()));
        ops
    })
}

/// The writes that delete an endpoint and its subscriptions; `None`: there is no such endpoint.
pub(crate) fn delete_endpoint(stored: &StoredTenant, id: &EndpointId) -> Option<Vec<Op>> {
    stored.endpoints.contains_key(id).then(|| {
        let subscriptions = stored.subscriptions.values().filter(|s| s.endpoint == *id);
        let mut ops: Vec<_> = subscriptions.map(|s| Op::DeleteSubscription(s.id.clone())).collect();
        ops.extend(without_cells(stored, &[id]));
        ops.push(Op::DeleteEndpoint(id.clone()));
        ops
    })
}

/// The writes that take endpoints out of the integrations that forward to them.
fn without_cells(stored: &StoredTenant, gone: &[&EndpointId]) -> impl Iterator<Item = Op> {
    stored.integrations.values().filter(|i| i.cells.iter().any(|cell| gone.contains(&cell))).map(
        |integration| {
            let mut integration = integration.clone();
            integration.cells.retain(|cell| !gone.contains(&cell));
            Op::PutIntegration(integration)
        },
    )
}

/// The write that leaves an integration its newest secret only; `None`: there is no such integration. Without a second
/// secret it is a write of what is there.
pub(crate) fn revoke_previous(stored: &StoredTenant, id: &IntegrationId) -> Option<Op> {
    let mut integration = stored.integrations.get(id)?.clone();
    integration.secrets.truncate(1);
    Some(Op::PutIntegration(integration))
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
