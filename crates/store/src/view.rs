//! What roles read: one tenant, complete, as of one moment.

use std::collections::HashMap;
use std::sync::Arc;

use mailrail_types::{
    App, AppId, Endpoint, EndpointId, EventType, Integration, IntegrationId, Subscription, SubscriptionId,
    Tenant, Timestamp,
};

/// That somebody paused an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
}

/// Everything of one tenant in one snapshot of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantView {
    /// Position of the change feed of the snapshot.
    pub seq: u64,
    /// The tenant.
    pub tenant: Tenant,
    /// Its event types, by name.
    pub event_types: HashMap<String, EventType>,
    /// Its apps.
    pub apps: HashMap<AppId, App>,
    /// Its endpoints, with their secrets.
    pub endpoints: HashMap<EndpointId, Arc<Endpoint>>,
    /// Who paused which of its endpoints; those are the ones whose [`Endpoint::paused`] is true.
    pub pauses: HashMap<EndpointId, Pause>,
    /// Its subscriptions.
    pub subscriptions: HashMap<SubscriptionId, Arc<Subscription>>,
    /// Its integrations with third parties, with their secrets.
    pub integrations: HashMap<IntegrationId, Arc<Integration>>,
    /// The subscriptions that want an event type, each once, in order of their ids.
    pub by_event_type: HashMap<String, Vec<Arc<Subscription>>>,
}

/// Index of subscriptions by event type. `subscriptions` come in order of their ids.
pub(crate) fn by_event_type<'a>(
    subscriptions: impl Iterator<Item = &'a Arc<Subscription>>,
) -> HashMap<String, Vec<Arc<Subscription>>> {
    let mut index: HashMap<String, Vec<Arc<Subscription>>> = HashMap::new();
    for subscription in subscriptions {
        for event_type in &subscription.event_types {
            let wanting = index.entry(event_type.clone()).or_default();
            // A list that names a type twice must not make two deliveries.
            if wanting.last().is_none_or(|last| !Arc::ptr_eq(last, subscription)) {
                wanting.push(Arc::clone(subscription));
            }
        }
    }
    index
}
