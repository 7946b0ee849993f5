//! Delivery → the endpoint as it is set up now.

use std::sync::Arc;

use mailrail_store::{Directory, TenantView};
use mailrail_types::{CancelReason, Delivery, Endpoint};

/// The endpoint, or why the delivery is no longer owed. Looked up at each attempt: a changed URL or secret holds for the
/// backlog too. To be asked only when this process has seen the set-up that match decided with: nothing is called deleted on an
/// older one.
pub(crate) fn resolve(directory: &Directory, delivery: &Delivery) -> Result<Arc<Endpoint>, CancelReason> {
    let view = directory.tenant(&delivery.event.tenant).ok_or(CancelReason::TenantDeleted)?;
    if !is_still_wanted(&view, delivery) {
        return Err(CancelReason::SubscriptionDeleted);
    }
    // Asked by match too; a permission that was taken away since holds for what is queued.
    if !view.apps.get(&delivery.app).is_none_or(|app| app.may_get(&delivery.event)) {
        return Err(CancelReason::PermissionMissing);
    }
    view.endpoints.get(&delivery.endpoint).cloned().ok_or(CancelReason::EndpointDeleted)
}

/// Whether what matched the event is still there: the subscription, or the cell in the integration's list.
fn is_still_wanted(view: &TenantView, delivery: &Delivery) -> bool {
    match delivery.event.forwarded.as_deref() {
        Some(forwarded) => view
            .integrations
            .get(&forwarded.integration)
            .is_some_and(|i| i.cells.contains(&delivery.endpoint)),
        None => view.subscriptions.contains_key(&delivery.subscription),
    }
}
