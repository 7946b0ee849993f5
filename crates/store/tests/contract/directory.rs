//! The directory: it loads everything, follows other processes, and knows where it is.

use std::sync::Arc;

use mailrail_store::{Directory, TenantView};
use mailrail_types::{ApiKey, IntegrationId, KeyId, Provider, SubscriptionId};

use crate::base::{
    Base, Following, app, assert_view, empty, endpoint_id, full, integration, key, tenant, token,
};

crate::on_both!(
    it_loads_everything,
    it_follows_another_process,
    it_follows_writes_of_its_own_process,
    it_reloads_only_tenants_that_changed,
    a_revoked_key_stops_working,
    it_follows_a_long_feed,
    it_starts_on_an_empty_database,
    it_finds_an_integration_without_its_tenant,
);

async fn it_loads_everything(base: &Base) {
    let store = base.open().await;
    let setups = [full("acme", &token(1)), full("globex", &token(2)), empty("void")];
    let applied = store.apply(&setups, false).await.expect("applies");
    let directory = Directory::load(base.open().await).await.expect("loads");
    assert!(directory.is_current());
    assert_eq!(directory.seq(), applied.seq);
    assert_eq!(directory.tenants().len(), 3);
    for setup in &setups {
        let view = directory.tenant(&setup.tenant.id).expect("exists");
        assert_view(&view, setup);
        assert_eq!(Ok(Some((*view).clone())), store.tenant_view(&setup.tenant.id).await);
    }
    let main = KeyId::new("main").expect("valid");
    assert_eq!(directory.authenticate(&token(2)), Some(ApiKey { id: main, tenant: tenant("globex") }));
    for wrong in ["", &token(3), &token(1)[1..], &format!("{} ", token(1))] {
        assert_eq!(directory.authenticate(wrong), None, "{wrong:?}");
    }
}

async fn it_follows_another_process(base: &Base) {
    let writer = base.open().await;
    writer.apply(&[full("acme", &token(1)), full("globex", &token(2))], false).await.expect("applies");
    let following = Following::start(base.open().await).await;
    let directory = &following.directory;

    let created = writer.apply(&[full("third", &token(3))], false).await.expect("applies");
    following.reached(created.seq).await;
    assert!(directory.seq() >= created.seq);
    assert_view(&directory.tenant(&tenant("third")).expect("exists"), &full("third", &token(3)));

    let mut changed = full("acme", &token(1));
    changed.endpoints[0].endpoint.url = "https://example.com/moved".to_owned();
    changed.subscriptions[1].event_types = vec!["repo.deleted".to_owned()];
    let before = directory.tenant(&tenant("acme")).expect("exists");
    let updated = writer.apply(&[changed.clone()], true).await.expect("applies");
    following.reached(updated.seq).await;
    let view = directory.tenant(&tenant("acme")).expect("exists");
    assert_view(&view, &changed);
    assert_eq!(view.by_event_type["repo.deleted"].len(), 2);
    for (id, is_as_it_was) in [("filtered", true), ("all", false)] {
        let of = |view: &TenantView| view.subscriptions[&SubscriptionId::new(id).expect("valid")].clone();
        assert_eq!(Arc::ptr_eq(&of(&before), &of(&view)), is_as_it_was, "{id}");
    }

    let deleted = writer.delete_endpoint(&tenant("acme"), &endpoint_id("hook")).await.expect("deletes");
    following.reached(deleted).await;
    let view = directory.tenant(&tenant("acme")).expect("exists");
    assert!(!view.endpoints.contains_key(&endpoint_id("hook")));
    assert_eq!((view.subscriptions.len(), view.seq), (1, deleted));

    let deleted = writer.delete_tenant(&tenant("globex")).await.expect("deletes");
    following.reached(deleted).await;
    assert_eq!(directory.tenant(&tenant("globex")), None);
    assert_eq!(directory.authenticate(&token(2)), None);
    assert!(directory.authenticate(&token(3)).is_some());
    assert!(directory.is_current());
    following.stop().await;
}

async fn it_follows_writes_of_its_own_process(base: &Base) {
    let store = base.open().await;
    let following = Following::start(store.clone()).await;
    for n in 0..20 {
        let mut setup = empty("acme");
        setup.tenant.name = n.to_string();
        let applied = store.apply(&[setup], false).await.expect("applies");
        following.reached(applied.seq).await;
        assert_eq!(following.directory.tenant(&tenant("acme")).expect("exists").tenant.name, n.to_string());
    }
    following.stop().await;
}

async fn it_reloads_only_tenants_that_changed(base: &Base) {
    let writer = base.open().await;
    writer.apply(&[full("acme", &token(1)), full("globex", &token(2))], false).await.expect("applies");
    let following = Following::start(base.open().await).await;
    let view = |id: &str| -> Arc<TenantView> { following.directory.tenant(&tenant(id)).expect("exists") };
    let (acme, globex) = (view("acme"), view("globex"));
    let deleted = writer.delete_event_type(&tenant("acme"), "repo.pushed").await.expect("deletes");
    following.reached(deleted).await;
    assert!(Arc::ptr_eq(&globex, &view("globex")));
    assert!(!Arc::ptr_eq(&acme, &view("acme")));
    assert_eq!((acme.event_types.len(), view("acme").event_types.len()), (2, 1));
    following.stop().await;
}

async fn a_revoked_key_stops_working(base: &Base) {
    let writer = base.open().await;
    let mut setup = empty("acme");
    setup.keys = vec![key("a", &token(1)), key("b", &token(2))];
    writer.apply(&[setup], false).await.expect("applies");
    let following = Following::start(base.open().await).await;
    assert!(following.directory.authenticate(&token(1)).is_some());
    let revoked =
        writer.delete_key(&tenant("acme"), &KeyId::new("a").expect("valid")).await.expect("deletes");
    following.reached(revoked).await;
    assert_eq!(following.directory.authenticate(&token(1)), None);
    assert!(following.directory.authenticate(&token(2)).is_some());
    following.stop().await;
}

/// More changes than one step reads.
async fn it_follows_a_long_feed(base: &Base) {
    let writer = base.open().await;
    let directory = Directory::load(base.open().await).await.expect("loads");
    let mut setup = empty("acme");
    setup.apps = (0..1_100).map(|n| app(&format!("a{n}"))).collect();
    writer.apply(&[setup.clone()], false).await.expect("applies");
    let last = writer.apply(&[empty("globex")], false).await.expect("applies");
    let following = Following::of(directory);
    following.reached(last.seq).await;
    assert_view(&following.directory.tenant(&tenant("acme")).expect("exists"), &setup);
    assert!(following.directory.tenant(&tenant("globex")).is_some());
    following.stop().await;
}

async fn it_starts_on_an_empty_database(base: &Base) {
    let following = Following::start(base.open().await).await;
    following.reached(0).await;
    assert_eq!((following.directory.seq(), following.directory.tenants().len()), (0, 0));
    let applied = base.open().await.apply(&[empty("acme")], false).await.expect("applies");
    following.reached(applied.seq).await;
    assert!(following.directory.tenant(&tenant("acme")).is_some());
    following.stop().await;
}

/// As long as it is the only one, also when others come and go.
async fn it_finds_an_integration_without_its_tenant(base: &Base) {
    let writer = base.open().await;
    let with = |name: &str, provider: Option<Provider>| {
        let mut setup = empty(name);
        setup.integrations.extend(provider.map(|provider| {
            let mut shared = integration("shared", &[], &[]);
            shared.provider = provider;
            shared
        }));
        setup
    };
    let following = Following::start(base.open().await).await;
    let found = |provider| {
        let found = following.directory.integration(provider, &IntegrationId::of("shared"));
        found.map(|(view, shared)| {
            assert_eq!(view.integrations[&shared.id], shared);
            view.tenant.id.to_string()
        })
    };
    let acme = Some("acme".to_owned());
    for (step, expected) in [
        (with("acme", None), None),
        (with("acme", Some(Provider::GitHub)), acme.clone()),
        (with("globex", Some(Provider::GitHub)), None),
        (with("globex", Some(Provider::GitLab)), acme.clone()),
        (with("globex", None), acme),
        (with("acme", None), None),
    ] {
        let applied = writer.apply(std::slice::from_ref(&step), true).await.expect("applies");
        following.reached(applied.seq).await;
        assert_eq!(found(Provider::GitHub), expected, "{step:?}");
    }
    assert_eq!(found(Provider::Jira), None);
    following.stop().await;
}
