//! Pausing and resuming: everybody knows, nobody's set-up undoes it.

use mailrail_store::{ChangeKind, ChangeOp, Directory, Error, PAUSED_BY_MAX_CHARS, Store, Tally, TenantView};
use mailrail_types::{Secret, TenantId};

use crate::base::{Base, Following, assert_view, endpoint, endpoint_id, full, tenant, token};

crate::on_both!(
    a_pause_and_a_resume_reach_other_processes,
    a_second_pause_or_resume_writes_nothing,
    no_set_up_pauses_or_resumes,
    an_endpoint_made_anew_is_not_paused,
    what_does_not_exist_cannot_be_paused,
    who_paused_is_kept_in_bounds,
);

fn acme() -> TenantId {
    tenant("acme")
}

async fn view(store: &Store) -> TenantView {
    store.tenant_view(&acme()).await.expect("reads").expect("exists")
}

/// Ids of the endpoints that are paused, by both of the places that say so.
fn paused(view: &TenantView) -> Vec<&str> {
    let mut flagged: Vec<_> = view
        .endpoints
        .values()
        .filter(|endpoint| endpoint.paused)
        .map(|endpoint| endpoint.id.as_str())
        .collect();
    let mut explained: Vec<_> = view.pauses.keys().map(mailrail_types::EndpointId::as_str).collect();
    flagged.sort_unstable();
    explained.sort_unstable();
    assert_eq!(flagged, explained);
    flagged
}

async fn a_pause_and_a_resume_reach_other_processes(base: &Base) {
    let writer = base.open().await;
    let both = [full("acme", &token(1)), full("globex", &token(2))];
    let before = writer.apply(&both, false).await.expect("applies").seq;
    let following = Following::start(base.open().await).await;
    let seen = || following.directory.tenant(&acme()).expect("exists");
    assert_eq!(paused(&seen()), [""; 0]);

    let hook = endpoint_id("hook");
    let seq = writer.pause_endpoint(&acme(), &hook, "alice").await.expect("pauses");
    assert_eq!(seq, before + 1);
    following.reached(seq).await;
    assert_eq!(paused(&seen()), ["hook"]);
    let pause = &seen().pauses[&hook];
    assert!(pause.by == "alice" && pause.at.secs() > 1_700_000_000, "{pause:?}");
    // A process that starts now knows it too.
    let loaded = Directory::load(base.open().await).await.expect("loads");
    assert_eq!(paused(&loaded.tenant(&acme()).expect("exists")), ["hook"]);
    assert_eq!(paused(&loaded.tenant(&tenant("globex")).expect("exists")), [""; 0], "another's of that name");

    let seq = writer.resume_endpoint(&acme(), &hook).await.expect("resumes");
    assert_eq!(seq, before + 2);
    following.reached(seq).await;
    assert_view(&seen(), &full("acme", &token(1)));
    assert_eq!(paused(&seen()), [""; 0]);
    let changes = writer.changes_after(before, 10).await.expect("reads");
    for change in &changes {
        assert_eq!(
            (change.kind, change.entity.as_str(), change.op),
            (ChangeKind::Endpoint, "hook", ChangeOp::Put)
        );
        assert_eq!(change.tenant, Some(acme()));
    }
    assert_eq!(changes.len(), 2);
    following.stop().await;
}

async fn a_second_pause_or_resume_writes_nothing(base: &Base) {
    let store = base.open().await;
    let applied = store.apply(&[full("acme", &token(1))], false).await.expect("applies").seq;
    let hook = endpoint_id("hook");
    assert_eq!(store.resume_endpoint(&acme(), &hook).await, Ok(applied), "it is not paused");
    let seq = store.pause_endpoint(&acme(), &hook, "alice").await.expect("pauses");
    let first = view(&store).await.pauses;
    assert_eq!(store.pause_endpoint(&acme(), &hook, "bob").await, Ok(seq));
    assert_eq!(view(&store).await.pauses, first, "who paused it first stays");
    let seq = store.resume_endpoint(&acme(), &hook).await.expect("resumes");
    assert_eq!(store.resume_endpoint(&acme(), &hook).await, Ok(seq));
    assert_eq!(base.number("SELECT COUNT(*) FROM endpoints WHERE paused_by IS NOT NULL").await, 0);
}

async fn no_set_up_pauses_or_resumes(base: &Base) {
    let store = base.open().await;
    let mut setup = full("acme", &token(1));
    setup.endpoints[1].endpoint.paused = true;
    store.apply(&[setup.clone()], false).await.expect("applies");
    assert_eq!(paused(&view(&store).await), [""; 0], "what is new is not paused");

    let (hook, plain) = (endpoint_id("hook"), endpoint_id("plain"));
    store.pause_endpoint(&acme(), &hook, "alice").await.expect("pauses");
    let by = view(&store).await.pauses;
    // The same set-up, which says that `plain` is paused and `hook` is not: both are wrong, and neither is a difference.
    let again = store.apply(&[setup.clone()], true).await.expect("applies");
    assert_eq!(again.counts.endpoints, Tally { unchanged: 2, ..Tally::default() });
    // Another one, with everything about it changed.
    let mut changed = endpoint("hook", "audit", &["whsec_other"]);
    (changed.endpoint.head_max_age, changed.endpoint.timeout) = (None, None);
    setup.endpoints[0] = changed;
    setup.subscriptions.retain(|subscription| subscription.endpoint != hook);
    let updated = store.apply(&[setup], true).await.expect("applies");
    assert_eq!(updated.counts.endpoints, Tally { updated: 1, unchanged: 1, ..Tally::default() });
    store.rotate_secret(&acme(), &hook, Secret::new("whsec_new".into()), true).await.expect("rotates");
    let after = view(&store).await;
    assert_eq!((paused(&after), &after.pauses), (vec!["hook"], &by));
    let stored = &after.endpoints[&hook];
    assert_eq!((stored.app.as_str(), stored.secrets.len(), stored.head_max_age), ("audit", 2, None));
    assert!(!after.endpoints[&plain].paused);
}

async fn an_endpoint_made_anew_is_not_paused(base: &Base) {
    let store = base.open().await;
    let setup = full("acme", &token(1));
    store.apply(std::slice::from_ref(&setup), false).await.expect("applies");
    for id in ["hook", "plain"] {
        store.pause_endpoint(&acme(), &endpoint_id(id), "alice").await.expect("pauses");
    }
    store.delete_endpoint(&acme(), &endpoint_id("hook")).await.expect("deletes");
    assert_eq!(paused(&view(&store).await), ["plain"]);
    store.apply(std::slice::from_ref(&setup), false).await.expect("applies");
    assert_eq!(paused(&view(&store).await), ["plain"]);
    store.delete_tenant(&acme()).await.expect("deletes");
    store.apply(&[setup], false).await.expect("applies");
    assert_eq!(paused(&view(&store).await), [""; 0]);
}

async fn what_does_not_exist_cannot_be_paused(base: &Base) {
    let store = base.open().await;
    let before =
        store.apply(&[full("acme", &token(1)), full("globex", &token(2))], false).await.expect("applies").seq;
    store.delete_endpoint(&acme(), &endpoint_id("hook")).await.expect("deletes");
    let gone = store.changes_after(before, 10).await.expect("reads").len();
    // `hook` is globex's, not acme's any more.
    for (of, id) in [("acme", "hook"), ("acme", "none"), ("nobody", "hook")] {
        let (of, id) = (tenant(of), endpoint_id(id));
        for result in [store.pause_endpoint(&of, &id, "alice").await, store.resume_endpoint(&of, &id).await] {
            let wanted =
                Error::NotFound { kind: ChangeKind::Endpoint, tenant: of.clone(), id: id.to_string() };
            assert_eq!(result, Err(wanted));
        }
    }
    assert_eq!(store.changes_after(before, 10).await.expect("reads").len(), gone);
}

async fn who_paused_is_kept_in_bounds(base: &Base) {
    let store = base.open().await;
    store.apply(&[full("acme", &token(1))], false).await.expect("applies");
    let long = format!("\0\u{1b}é\n{}", "x".repeat(1_000));
    store.pause_endpoint(&acme(), &endpoint_id("hook"), &long).await.expect("pauses");
    let by = view(&store).await.pauses[&endpoint_id("hook")].by.clone();
    assert!(by.starts_with("éxx") && by.chars().count() == PAUSED_BY_MAX_CHARS, "{by}");
}
