//! Deletions: what depends on the entity goes with it, each with its change.

use mailrail_store::{ChangeKind, ChangeOp, Error, Store};
use mailrail_types::{AppId, IntegrationId, KeyId, SubscriptionId};

use crate::base::{Base, assert_view, endpoint_id, full, tenant, token};

crate::on_both!(
    an_endpoint_takes_its_subscriptions_along,
    an_app_takes_its_endpoints_along,
    a_tenant_takes_everything_along,
    single_entities_go_alone,
    what_does_not_exist_is_not_found,
);

async fn an_endpoint_takes_its_subscriptions_along(base: &Base) {
    let store = base.open().await;
    let mut setup = full("acme", &token(1));
    let before = store.apply(&[setup.clone()], false).await.expect("applies").seq;
    let seq = store.delete_endpoint(&tenant("acme"), &endpoint_id("hook")).await.expect("deletes");
    assert_eq!(
        written(&store, before, seq).await,
        ["delete subscription filtered", "put integration github", "delete endpoint hook"]
    );
    setup.integrations[0].cells.retain(|cell| cell.as_str() == "plain");
    setup.endpoints.remove(0);
    setup.subscriptions.remove(0);
    assert_view(&store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists"), &setup);
    assert_eq!(base.number("SELECT COUNT(*) FROM endpoint_secrets").await, 1);
}

async fn an_app_takes_its_endpoints_along(base: &Base) {
    let store = base.open().await;
    let before = store.apply(&[full("acme", &token(1))], false).await.expect("applies").seq;
    let app = AppId::new("shop").expect("valid");
    let seq = store.delete_app(&tenant("acme"), &app).await.expect("deletes");
    let gone = [
        "delete subscription all",
        "delete subscription filtered",
        "put integration github",
        "delete endpoint hook",
        "delete endpoint plain",
        "delete app shop",
    ];
    assert_eq!(written(&store, before, seq).await, gone);
    let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    assert_eq!((view.apps.len(), view.endpoints.len(), view.by_event_type.len()), (1, 0, 0));
    assert!(view.integrations.values().all(|integration| integration.cells.is_empty()));
}

async fn a_tenant_takes_everything_along(base: &Base) {
    let store = base.open().await;
    let globex = full("globex", &token(2));
    let before = store.apply(&[full("acme", &token(1)), globex.clone()], false).await.expect("applies").seq;
    let seq = store.delete_tenant(&tenant("acme")).await.expect("deletes");
    let gone = written(&store, before, seq).await;
    assert!(gone.iter().all(|change| change.starts_with("delete ")), "{gone:?}");
    assert_eq!((gone.len(), gone.last().map(String::as_str)), (12, Some("delete tenant acme")));
    assert_eq!(base.number("SELECT COUNT(*) FROM integration_secrets").await, 2, "globex's stay");
    assert_eq!(store.tenant_view(&tenant("acme")).await, Ok(None));
    assert_view(&store.tenant_view(&tenant("globex")).await.expect("reads").expect("exists"), &globex);
    // Its token is free again.
    store.apply(&[full("third", &token(1))], false).await.expect("applies");
}

async fn single_entities_go_alone(base: &Base) {
    let store = base.open().await;
    let acme = tenant("acme");
    let before = store.apply(&[full("acme", &token(1))], false).await.expect("applies").seq;
    store.delete_subscription(&acme, &SubscriptionId::new("all").expect("valid")).await.expect("deletes");
    store.delete_event_type(&acme, "repo.pushed").await.expect("deletes");
    store.delete_integration(&acme, &IntegrationId::of("github")).await.expect("deletes");
    let seq = store.delete_key(&acme, &KeyId::new("main").expect("valid")).await.expect("deletes");
    assert_eq!(
        written(&store, before, seq).await,
        [
            "delete subscription all",
            "delete event type repo.pushed",
            "delete integration github",
            "delete key main"
        ]
    );
    assert_eq!(base.number("SELECT COUNT(*) FROM integration_secrets").await, 0);
}

async fn what_does_not_exist_is_not_found(base: &Base) {
    let store = base.open().await;
    let before =
        store.apply(&[full("acme", &token(1)), full("globex", &token(2))], false).await.expect("applies").seq;
    let acme = tenant("acme");
    store.delete_key(&tenant("globex"), &KeyId::new("main").expect("valid")).await.expect("deletes");
    for (kind, result) in [
        (ChangeKind::Tenant, store.delete_tenant(&tenant("nobody")).await),
        (ChangeKind::App, store.delete_app(&acme, &AppId::new("x").expect("valid")).await),
        (ChangeKind::Endpoint, store.delete_endpoint(&acme, &endpoint_id("x")).await),
        (ChangeKind::Endpoint, store.delete_endpoint(&tenant("nobody"), &endpoint_id("hook")).await),
        (
            ChangeKind::Subscription,
            store.delete_subscription(&acme, &SubscriptionId::new("x").expect("valid")).await,
        ),
        (ChangeKind::Integration, store.delete_integration(&acme, &IntegrationId::of("x")).await),
        (ChangeKind::Integration, store.revoke_previous_inbound(&acme, &IntegrationId::of("x")).await),
        (ChangeKind::EventType, store.delete_event_type(&acme, "x").await),
        (ChangeKind::Key, store.delete_key(&tenant("globex"), &KeyId::new("main").expect("valid")).await),
    ] {
        assert!(matches!(&result, Err(Error::NotFound { kind: found, .. }) if *found == kind), "{result:?}");
    }
    assert_eq!(store.changes_after(before, 10).await.expect("reads").len(), 1);
}

/// What was written after `before`, in order; the last one has number `seq`.
async fn written(store: &Store, before: u64, seq: u64) -> Vec<String> {
    let changes = store.changes_after(before, 100).await.expect("reads");
    assert_eq!(changes.last().map(|change| change.seq), Some(seq));
    let op = |op| if op == ChangeOp::Put { "put" } else { "delete" };
    changes.iter().map(|change| format!("{} {} {}", op(change.op), change.kind, change.entity)).collect()
}
