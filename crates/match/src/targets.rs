//! Event → the recipients that are owed it: subscriptions, or the cells of a forwarded webhook.

use mailrail_store::TenantView;
use mailrail_types::{AppId, ClassId, EndpointId, Event, Forwarded, Subscription, SubscriptionId};

use crate::admission::Admission;
use crate::find_matches::Known;
use crate::wanting::Work;

/// One recipient of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) app: AppId,
    /// What the delivery follows from; for a cell its endpoint's name.
    pub(crate) subscription: SubscriptionId,
    pub(crate) endpoint: EndpointId,
    /// Class of its mailboxes.
    pub(crate) class: ClassId,
}

/// Everybody who is owed the event, and the position of the set-up that says so; `None`: nobody wants events like it. Then
/// neither the body nor a filter was looked at.
pub(crate) fn targets(known: &Known, event: &Event, work: &mut Work<'_>) -> Option<(u64, Vec<Target>)> {
    if let Some(forwarded) = event.forwarded.as_deref() {
        let view = known.directory.tenant(&event.tenant)?;
        let admission = Admission::new(event, &view);
        let mut cells = cells(&view, forwarded);
        cells.retain(|cell| admission.admits(&cell.app));
        work.denied += admission.denied();
        return Some((view.seq, cells));
    }
    known.table.with(&event.tenant, &event.attributes.event_type, |shard| {
        let admission = Admission::new(event, &shard.view);
        let wanting = shard.wanting.find(event, &admission, work);
        work.denied += admission.denied();
        let targets = wanting.iter().filter_map(|s| to_subscription(&shard.view, s)).collect();
        (shard.view.seq, targets)
    })
}

fn to_subscription(view: &TenantView, subscription: &Subscription) -> Option<Target> {
    let Subscription { app, id, endpoint, .. } = subscription;
    let class = view.endpoints.get(endpoint)?.class.clone();
    Some(Target { app: app.clone(), subscription: id.clone(), endpoint: endpoint.clone(), class })
}

/// One delivery for each cell: one cell's failure never holds another's copy.
fn cells(view: &TenantView, forwarded: &Forwarded) -> Vec<Target> {
    let Some(integration) = view.integrations.get(&forwarded.integration) else { return Vec::new() };
    let class = mailrail_surfaces::integration_class(integration);
    let to_cell = |cell: &EndpointId| {
        Some(Target {
            app: view.endpoints.get(cell)?.app.clone(),
            subscription: SubscriptionId::new(cell.as_str()).ok()?,
            endpoint: cell.clone(),
            class: class.clone(),
        })
    };
    integration.cells.iter().filter_map(to_cell).collect()
}
