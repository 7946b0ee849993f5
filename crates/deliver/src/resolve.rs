//! Delivery → the endpoint as it is set up now.

use std::sync::Arc;

use mailrail_store::{Directory, TenantView};
use mailrail_types::{CancelReason, Delivery, Endpoint};

/// The endpoint, or why the delivery is no longer owed. Looked up at each attempt: a changed URL or secret holds for the
/// backlog too. Nothing is called deleted on a set-up older than the one that match decided with; until this process has
/// seen that one, the delivery waits.
pub(crate) async fn resolve(
    directory: &Directory,
    delivery: &Delivery,
) -> Result<Arc<Endpoint>, CancelReason> {
    if directory.seq() < delivery.setup_seq {
        directory.reached(delivery.setup_seq).await;
    }
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
