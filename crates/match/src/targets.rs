//! Event → the recipients that are owed it: subscriptions, or the cells of a forwarded webhook.

use std::sync::Arc;

use mailrail_store::TenantView;
use mailrail_telemetry::MatchMetrics;
use mailrail_types::{AppId, ClassId, EndpointId, Event, SubscriptionId};

use crate::filters::Filters;
use crate::find_matches::find_matches;

/// One recipient of an event.
pub(crate) struct Target {
    pub(crate) app: AppId,
    /// What the delivery follows from; for a cell its endpoint's name.
    pub(crate) subscription: SubscriptionId,
    pub(crate) endpoint: EndpointId,
    /// Class of its mailboxes.
    pub(crate) class: ClassId,
}

/// Everybody who is owed the event.
pub(crate) fn targets(
    view: &TenantView,
    filters: &Filters,
    event: &Event,
    metrics: &MatchMetrics,
) -> Vec<Target> {
    match event.forwarded.as_deref() {
        Some(forwarded) => {
            let Some(integration) = view.integrations.get(&forwarded.integration) else { return Vec::new() };
            let class = mailrail_surfaces::integration_class(integration);
            integration.cells.iter().filter_map(|cell| to_cell(view, cell, &class)).collect()
        }
        None => find_matches(view, filters, event, metrics)
            .into_iter()
            .filter_map(|s| {
                let class = view.endpoints.get(&s.endpoint)?.class.clone();
                let (app, subscription, endpoint) = (s.app.clone(), s.id.clone(), s.endpoint.clone());
                Some(Target { app, subscription, endpoint, class })
            })
            .collect(),
    }
}

/// One delivery for each cell: one cell's failure never holds another's copy.
fn to_cell(view: &TenantView, cell: &EndpointId, class: &ClassId) -> Option<Target> {
    let endpoint: &Arc<_> = view.endpoints.get(cell)?;
    Some(Target {
        app: endpoint.app.clone(),
        subscription: SubscriptionId::new(cell.as_str()).ok()?,
        endpoint: cell.clone(),
        class: class.clone(),
    })
}
