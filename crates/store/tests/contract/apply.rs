//! Declarative set-up: it is stored as given, only differences are written, and an error leaves nothing.

use mailrail_store::{
    ChangeKind, ChangeOp, Counts, Directory, Error, SetupError, Store, Tally, TenantSetup, generate_token,
};
use mailrail_types::{ClassId, EventType, KeyId};

use crate::base::{
    Base, app, assert_view, empty, endpoint, endpoint_id, full, integration, key, subscription, tenant, token,
};

crate::on_both!(
    everything_comes_back_as_it_was_given,
    a_second_apply_writes_nothing,
    only_differences_are_written,
    prune_deletes_what_is_not_listed_of_named_tenants_only,
    an_error_names_the_entity_and_leaves_nothing,
    a_parent_can_be_replaced_in_one_apply,
    tokens_move_only_when_given_up,
    kept_keys_stay_without_their_token,
    a_preview_counts_and_checks_and_changes_nothing,
    a_view_is_one_snapshot_and_knows_its_position,
);

async fn everything_comes_back_as_it_was_given(base: &Base) {
    let store = base.open().await;
    let (acme, globex) = (full("acme", &token(1)), full("globex", &token(2)));
    let applied = store.apply(&[acme.clone(), globex.clone(), empty("void")], false).await.expect("applies");
    assert_eq!(applied.counts.total(), Tally { created: 2 * 12 + 1, ..Tally::default() });
    assert_eq!(applied.secrets, []);

    // Another process reads the same.
    let other = base.open().await;
    for setup in [&acme, &globex, &empty("void")] {
        let view = other.tenant_view(&setup.tenant.id).await.expect("reads").expect("exists");
        assert_view(&view, setup);
        assert_eq!(view.seq, applied.seq);
    }
    let view = other.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    let wanting = |name: &str| -> Vec<String> {
        view.by_event_type[name].iter().map(|subscription| subscription.id.to_string()).collect()
    };
    assert_eq!(
        (wanting("repo.pushed"), wanting("repo.deleted")),
        (vec!["all".into(), "filtered".into()], vec!["filtered".into()])
    );
    let names: Vec<_> = other.tenants().await.expect("lists").into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["Tenant acme é", "Tenant globex é", "Tenant void é"]);
    assert_eq!(other.tenant_view(&tenant("nobody")).await, Ok(None));
}

async fn a_second_apply_writes_nothing(base: &Base) {
    let store = base.open().await;
    let mut setup = full("acme", &token(1));
    setup.endpoints.push(endpoint("generated", "shop", &[]));
    let first = store.apply(&[setup.clone()], true).await.expect("applies");
    assert_eq!(first.secrets.len(), 1);
    for prune in [false, true] {
        let again = store.apply(&[setup.clone()], prune).await.expect("applies");
        assert_eq!(again.counts.total(), Tally { unchanged: 13, ..Tally::default() });
        assert_eq!((again.seq, again.secrets.len()), (first.seq, 0));
    }
    assert_eq!(store.changes_after(first.seq, 10).await, Ok(vec![]));
}

async fn only_differences_are_written(base: &Base) {
    let store = base.open().await;
    let mut setup = full("acme", &token(1));
    let first = store.apply(&[setup.clone()], false).await.expect("applies");
    setup.tenant.name = String::new();
    setup.event_types[1].ordering_key = Some("id".parse().expect("a path"));
    setup.apps.push(app("new"));
    setup.endpoints[0].endpoint.headers.pop();
    setup.subscriptions[0].filter = None;
    setup.integrations[1].cells = vec![endpoint_id("hook")];
    setup.keys[0].token = token(2);
    let applied = store.apply(&[setup.clone()], false).await.expect("applies");
    let tally = |created, updated, unchanged| Tally { created, updated, unchanged, deleted: 0 };
    assert_eq!(
        applied.counts,
        Counts {
            classes: tally(0, 0, 0),
            tenants: tally(0, 1, 0),
            event_types: tally(0, 1, 1),
            apps: tally(1, 0, 2),
            endpoints: tally(0, 1, 1),
            subscriptions: tally(0, 1, 1),
            integrations: tally(0, 1, 1),
            keys: tally(0, 1, 0),
        }
    );
    let changes = store.changes_after(first.seq, 100).await.expect("reads");
    let mut written: Vec<_> = changes.iter().map(|c| (c.kind.name(), c.entity.as_str(), c.op)).collect();
    written.sort_by_key(|(kind, ..)| *kind);
    assert_eq!(
        written,
        [
            ("app", "new", ChangeOp::Put),
            ("endpoint", "hook", ChangeOp::Put),
            ("event type", "repo.deleted", ChangeOp::Put),
            ("integration", "open", ChangeOp::Put),
            ("key", "main", ChangeOp::Put),
            ("subscription", "filtered", ChangeOp::Put),
            ("tenant", "acme", ChangeOp::Put),
        ]
    );
    assert_eq!(changes.last().map(|change| change.seq), Some(applied.seq));
    assert_view(&store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists"), &setup);
    let directory = Directory::load(store).await.expect("loads");
    assert_eq!(directory.authenticate(&token(1)), None);
    assert!(directory.authenticate(&token(2)).is_some());
}

async fn prune_deletes_what_is_not_listed_of_named_tenants_only(base: &Base) {
    let store = base.open().await;
    let (acme, globex) = (full("acme", &token(1)), full("globex", &token(2)));
    store.apply(&[acme.clone(), globex.clone()], false).await.expect("applies");

    let mut less = full("acme", &token(1));
    less.event_types.pop();
    less.apps.pop();
    less.subscriptions.pop();
    less.endpoints.pop();
    less.integrations.clear();
    less.keys.clear();
    let kept = store.apply(&[less.clone()], false).await.expect("applies");
    assert_eq!(kept.counts.total(), Tally { unchanged: 5, ..Tally::default() });
    assert_view(&store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists"), &acme);

    let pruned = store.apply(&[less.clone()], true).await.expect("applies");
    assert_eq!(pruned.counts.total(), Tally { unchanged: 5, deleted: 7, ..Tally::default() });
    let changes = store.changes_after(kept.seq, 100).await.expect("reads");
    assert_eq!(changes.len(), 7);
    assert!(
        changes.iter().all(|change| change.op == ChangeOp::Delete && change.tenant == Some(tenant("acme")))
    );
    assert_view(&store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists"), &less);
    assert_view(&store.tenant_view(&tenant("globex")).await.expect("reads").expect("exists"), &globex);
}

async fn an_error_names_the_entity_and_leaves_nothing(base: &Base) {
    let store = base.open().await;
    let stored = store.apply(&[full("acme", &token(1))], false).await.expect("applies");

    assert_refused(&store, full("other", &token(1)), "key 'main' of tenant 'other' is used by another key")
        .await;
    let mut setup = empty("other");
    setup.keys = vec![key("a", &token(2)), key("b", &token(2))];
    assert_refused(&store, setup, "used by another key").await;
    let mut setup = empty("other");
    setup.keys = vec![key("a", "short")];
    assert_refused(&store, setup, "key 'a' of tenant 'other' is too short").await;
    let mut setup = empty("acme");
    setup.endpoints = vec![endpoint("x", "nowhere", &[])];
    assert_refused(&store, setup, "endpoint 'x' of tenant 'acme' names app 'nowhere'").await;
    let mut setup = empty("acme");
    setup.subscriptions = vec![subscription("x", "nowhere", "hook", &["a"])];
    assert_refused(&store, setup, "subscription 'x' of tenant 'acme' names app 'nowhere'").await;
    let mut setup = empty("acme");
    setup.subscriptions = vec![subscription("x", "shop", "nowhere", &["a"])];
    assert_refused(&store, setup, "subscription 'x' of tenant 'acme' names endpoint 'nowhere'").await;
    let mut setup = empty("acme");
    setup.subscriptions = vec![subscription("x", "audit", "hook", &["a"])];
    assert_refused(&store, setup, "endpoint 'hook' belongs to app 'shop'").await;
    // Another tenant's app and endpoint do not count.
    let mut setup = empty("other");
    setup.subscriptions = vec![subscription("x", "shop", "hook", &["a"])];
    assert_refused(&store, setup, "names app 'shop'").await;
    // An endpoint that moves away from its stored subscriptions.
    let mut setup = empty("acme");
    setup.endpoints = vec![endpoint("hook", "audit", &[])];
    assert_refused(&store, setup, "subscription 'filtered' of tenant 'acme' is of app 'shop'").await;
    let mut setup = empty("acme");
    setup.tenant.source_class = ClassId::of("none");
    assert_refused(&store, setup, "tenant 'acme' of tenant 'acme' names class 'none'").await;
    let mut setup = empty("acme");
    setup.endpoints = vec![endpoint("hook", "shop", &[])];
    setup.endpoints[0].endpoint.class = ClassId::of("none");
    assert_refused(&store, setup, "endpoint 'hook' of tenant 'acme' names class 'none'").await;
    assert_refused_integrations(&store).await;
    let mut setup = empty("acme");
    setup.apps = vec![app("x"), app("x")];
    assert_refused(&store, setup, "lists app 'x' twice").await;
    let mut setup = full("acme", &token(1));
    setup.endpoints[0] = endpoint("hook", "shop", &["a", "b", "c", "d", "e"]);
    assert_refused(&store, setup, "endpoint 'hook' of tenant 'acme' lists 5 secrets").await;
    let mut setup = empty("acme");
    setup.event_types = vec![EventType { name: "x".repeat(1025), ordering_key: None }];
    assert_refused(&store, setup, "1025 bytes").await;
    let mut setup = empty("acme");
    setup.tenant.name = "a\0b".to_owned();
    assert_refused(&store, setup, "NUL").await;
    let twice = store.apply(&[empty("twice"), empty("twice")], false).await;
    assert_eq!(twice, Err(SetupError::TenantTwice(tenant("twice")).into()));

    assert_eq!(store.changes_after(stored.seq, 10).await, Ok(vec![]));
    assert_eq!(store.tenants().await.expect("lists").len(), 1);
    assert_view(
        &store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists"),
        &full("acme", &token(1)),
    );
}

/// Tenant `acme` is stored, `other` is not.
async fn assert_refused_integrations(store: &Store) {
    let mut setup = empty("acme");
    setup.integrations = vec![integration("x", &["hook"], &[])];
    setup.integrations[0].class = Some(ClassId::of("none"));
    assert_refused(store, setup, "integration 'x' of tenant 'acme' names class 'none'").await;
    for (cells, says) in [
        (&["hook", "nowhere"][..], "integration 'x' of tenant 'acme' names endpoint 'nowhere', which"),
        (&["hook", "hook"][..], "names endpoint 'hook' twice"),
    ] {
        let mut setup = empty("acme");
        setup.integrations = vec![integration("x", cells, &[])];
        assert_refused(store, setup, says).await;
    }
    // Another tenant's endpoint is no cell, and neither is one that pruning takes away.
    let mut setup = empty("other");
    setup.integrations = vec![integration("x", &["hook"], &[])];
    assert_refused(store, setup, "names endpoint 'hook', which").await;
    let mut setup = empty("acme");
    setup.integrations = vec![integration("x", &["hook"], &[])];
    let pruned = store.apply(&[setup], true).await.expect_err("the endpoint goes");
    assert!(pruned.to_string().contains("names endpoint 'hook', which"), "{pruned}");
    let mut setup = empty("acme");
    setup.integrations = vec![integration("x", &[], &["a", "b", "c", "d", "e"])];
    assert_refused(store, setup, "integration 'x' of tenant 'acme' lists 5 secrets").await;
}

/// Applies a good new tenant together with `bad`: neither may be stored.
async fn assert_refused(store: &Store, bad: TenantSetup, says: &str) {
    let refused = store.apply(&[empty("good"), bad], false).await.expect_err(says);
    assert!(matches!(refused, Error::Setup(_)), "{refused:?}");
    assert!(refused.to_string().contains(says), "'{refused}' does not say '{says}'");
}

/// What referred to the old app and endpoint moves to the new ones while the old ones go.
async fn a_parent_can_be_replaced_in_one_apply(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    setup.apps = vec![app("old")];
    setup.endpoints = vec![endpoint("moves", "old", &["s"]), endpoint("goes", "old", &["s"])];
    setup.subscriptions = vec![subscription("s", "old", "goes", &["a"])];
    store.apply(&[setup.clone()], true).await.expect("applies");
    setup.apps = vec![app("new")];
    setup.endpoints = vec![endpoint("moves", "new", &["s"]), endpoint("comes", "new", &["s"])];
    setup.subscriptions = vec![subscription("s", "new", "comes", &["a"])];
    let applied = store.apply(&[setup.clone()], true).await.expect("applies");
    assert_eq!(applied.counts.total(), Tally { created: 2, updated: 2, unchanged: 1, deleted: 2 });
    assert_view(&store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists"), &setup);
}

async fn tokens_move_only_when_given_up(base: &Base) {
    let store = base.open().await;
    let (mut acme, mut globex) = (empty("acme"), empty("globex"));
    acme.keys = vec![key("a", &token(1)), key("b", &token(2))];
    store.apply(&[acme.clone(), globex.clone()], true).await.expect("applies");
    // Two keys exchange tokens.
    acme.keys = vec![key("a", &token(2)), key("b", &token(1))];
    let swapped = store.apply(&[acme.clone()], true).await.expect("applies");
    assert_eq!(swapped.counts.keys, Tally { updated: 2, ..Tally::default() });
    // A token goes to another tenant that stands first in the list.
    let moved = generate_token();
    acme.keys = vec![key("a", &moved)];
    store.apply(&[acme.clone()], true).await.expect("applies");
    globex.keys = vec![key("g", &moved)];
    assert!(matches!(
        store.apply(&[globex.clone()], true).await,
        Err(Error::Setup(SetupError::TokenTaken { .. }))
    ));
    acme.keys.clear();
    store.apply(&[globex, acme], true).await.expect("applies");
    let directory = Directory::load(store.clone()).await.expect("loads");
    assert_eq!(directory.authenticate(&moved).map(|key| key.tenant), Some(tenant("globex")));
    let kinds: Vec<_> =
        store.changes_after(swapped.seq, 10).await.expect("reads").iter().map(|change| change.kind).collect();
    assert!(kinds.iter().all(|kind| *kind == ChangeKind::Key));
}

async fn kept_keys_stay_without_their_token(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    setup.keys = vec![key("b", &token(1)), key("a", &token(2)), key("c", &token(3))];
    store.apply(&[setup.clone()], true).await.expect("applies");
    let names = |ids: &[&str]| -> Vec<_> { ids.iter().map(|id| KeyId::new(id).expect("valid")).collect() };
    assert_eq!(store.keys(&tenant("acme")).await, Ok(Some(names(&["a", "b", "c"]))));
    assert_eq!(store.keys(&tenant("nobody")).await, Ok(None));

    setup.keys = vec![key("a", &token(4))];
    setup.kept_keys = names(&["b"]);
    let applied = store.apply(&[setup.clone()], true).await.expect("applies");
    assert_eq!(applied.counts.keys, Tally { updated: 1, unchanged: 1, deleted: 1, created: 0 });
    let directory = Directory::load(store.clone()).await.expect("loads");
    assert_eq!(directory.authenticate(&token(1)).map(|key| key.id), Some(names(&["b"])[0].clone()));

    setup.kept_keys = names(&["c"]);
    assert_refused(&store, setup.clone(), "key 'c' of tenant 'acme' shall stay as it is but does not exist")
        .await;
    setup.kept_keys = names(&["a"]);
    assert_refused(&store, setup, "lists key 'a' twice").await;
}

async fn a_preview_counts_and_checks_and_changes_nothing(base: &Base) {
    let store = base.open().await;
    let before = store.apply(&[full("acme", &token(1))], true).await.expect("applies").seq;
    let mut setup = full("acme", &token(2));
    setup.apps.pop();
    setup.endpoints.push(endpoint("new", "shop", &[]));
    let preview = store.preview(&[], &[setup.clone()], true).await.expect("previews");
    assert_eq!(preview.counts.total(), Tally { created: 1, updated: 1, unchanged: 10, deleted: 1 });
    let taken = store.preview(&[], &[full("other", &token(1))], false).await;
    assert!(matches!(taken, Err(Error::Setup(SetupError::TokenTaken { .. }))), "{taken:?}");
    assert_eq!(store.changes_after(before, 10).await, Ok(vec![]));
    assert_view(
        &store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists"),
        &full("acme", &token(1)),
    );
    assert_eq!(store.apply(&[setup], true).await.expect("applies").counts, preview.counts);
}

/// Two rows of different tables change together; a reader must never see one without the other, nor another position.
async fn a_view_is_one_snapshot_and_knows_its_position(base: &Base) {
    let (writing, reading) = (base.open().await, base.open().await);
    let named = |n: u64| {
        let mut setup = empty("acme");
        setup.tenant.name = n.to_string();
        setup.apps = vec![app("shop")];
        setup.apps[0].name = n.to_string();
        setup
    };
    let first = writing.apply(&[named(0)], false).await.expect("applies").seq;
    let writer = tokio::spawn(async move {
        for n in 1..=60 {
            writing.apply(&[named(n)], false).await.expect("applies");
        }
    });
    loop {
        let done = writer.is_finished();
        let view = reading.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
        let app = view.apps.values().next().expect("an app");
        assert_eq!(view.tenant.name, app.name);
        assert_eq!(view.seq, first + 2 * view.tenant.name.parse::<u64>().expect("a number"));
        if done {
            assert_eq!(view.tenant.name, "60");
            break;
        }
    }
    writer.await.expect("writes");
}
