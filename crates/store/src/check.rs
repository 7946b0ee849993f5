//! Checks of a set-up: each entity by itself, and what refers to what. Pure.

use std::collections::{BTreeMap, BTreeSet};

use mailrail_types::{AppId, ClassId, EndpointId, Secret, Subscription, TenantId};

use crate::read::StoredTenant;
use crate::setup::{EVENT_TYPE_NAME_MAX, SECRETS_MAX, TOKEN_MIN_CHARS, TenantSetup};
use crate::token;
use crate::{ChangeKind, SetupError};

/// The set-up by id, each entity checked by itself.
pub(crate) fn wanted(setup: &TenantSetup) -> Result<StoredTenant, SetupError> {
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
        check_secrets(tenant, ChangeKind::Endpoint, id.as_str(), &endpoint.secrets)?;
        check_text(tenant, ChangeKind::Endpoint, id.as_str(), &[&endpoint.url])?;
        insert(tenant, &mut want.endpoints, ChangeKind::Endpoint, id.clone(), endpoint.clone())?;
    }
    for subscription in &setup.subscriptions {
        let filter = subscription.filter.as_ref().map_or("", |filter| &filter.text);
        check_text(tenant, ChangeKind::Subscription, subscription.id.as_str(), &[filter])?;
        let id = subscription.id.clone();
        insert(tenant, &mut want.subscriptions, ChangeKind::Subscription, id, subscription.clone())?;
    }
    for integration in &setup.integrations {
        let id = &integration.id;
        check_secrets(tenant, ChangeKind::Integration, id.as_str(), &integration.secrets)?;
        let mut cells = BTreeSet::new();
        if let Some(cell) = integration.cells.iter().find(|cell| !cells.insert(*cell)) {
            let (integration, endpoint) = (id.clone(), cell.clone());
            return Err(SetupError::CellTwice { tenant: tenant.clone(), integration, endpoint });
        }
        insert(tenant, &mut want.integrations, ChangeKind::Integration, id.clone(), integration.clone())?;
    }
    for key in &setup.keys {
        if key.token.chars().count() < TOKEN_MIN_CHARS {
            return Err(SetupError::TokenShort { tenant: tenant.clone(), key: key.id.clone() });
        }
        insert(tenant, &mut want.keys, ChangeKind::Key, key.id.clone(), token::hash(&key.token))?;
    }
    Ok(want)
}

pub(crate) fn insert<K: Ord + ToString, V>(
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

fn check_secrets(
    tenant: &TenantId,
    kind: ChangeKind,
    id: &str,
    secrets: &[Secret],
) -> Result<(), SetupError> {
    let count = secrets.len();
    if count > SECRETS_MAX {
        return Err(SetupError::Secrets { tenant: tenant.clone(), kind, id: id.to_owned(), count });
    }
    Ok(())
}

/// Checks that the classes that a set-up names exist. (Those that stored entities name cannot be deleted.)
pub(crate) fn check_classes(want: &StoredTenant, classes: &BTreeSet<ClassId>) -> Result<(), SetupError> {
    let tenant = &want.tenant;
    let endpoints = want.endpoints.values().map(|e| (ChangeKind::Endpoint, e.id.as_str(), &e.class));
    let integrations = want
        .integrations
        .values()
        .filter_map(|i| Some((ChangeKind::Integration, i.id.as_str(), i.class.as_ref()?)));
    let mut named = std::iter::once((ChangeKind::Tenant, tenant.id.as_str(), &tenant.source_class))
        .chain(endpoints)
        .chain(integrations);
    match named.find(|(.., class)| !classes.contains(class)) {
        None => Ok(()),
        Some((kind, id, class)) => {
            let (tenant, id, class) = (tenant.id.clone(), id.to_owned(), class.clone());
            Err(SetupError::Class { tenant, kind, id, class })
        }
    }
}

/// Checks what would be stored afterwards: what is wanted, over what stays of `have`.
pub(crate) fn check_references(
    have: &StoredTenant,
    want: &StoredTenant,
    prune: bool,
) -> Result<(), SetupError> {
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
    check_cells(have, want, prune)
}

/// As [`check_references`], for the endpoints that integrations forward to.
fn check_cells(have: &StoredTenant, want: &StoredTenant, prune: bool) -> Result<(), SetupError> {
    let exists = |cell: &EndpointId| {
        want.endpoints.contains_key(cell) || (!prune && have.endpoints.contains_key(cell))
    };
    for integration in want.integrations.values() {
        if let Some(cell) = integration.cells.iter().find(|cell| !exists(cell)) {
            let (integration, endpoint) = (integration.id.clone(), cell.clone());
            return Err(SetupError::Cell { tenant: have.tenant.id.clone(), integration, endpoint });
        }
    }
    Ok(())
}
