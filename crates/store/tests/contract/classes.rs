//! Classes and shed rules: what always exists, what may change, and how soon everybody knows.

use mailrail_store::{
    ChangeKind, ChangeOp, Directory, Error, SHED_RULES_MAX, SetupError, Tally, TenantSetup,
};
use mailrail_types::{
    ClassError, ClassId, EndpointId, IntegrationId, MailboxClass, Provider, ShedRule, TenantId,
};

use crate::base::{Base, Following, empty, endpoint_id, full, tenant, token};

crate::on_both!(
    the_built_in_classes_are_there_from_the_start,
    a_change_of_a_class_reaches_other_processes,
    a_class_in_use_is_not_deleted,
    the_width_of_a_strict_class_in_use_is_fixed,
    options_out_of_range_are_refused,
    classes_and_tenants_are_one_write,
    a_missing_class_is_strict,
    shed_rules_reach_other_processes,
    too_many_shed_rules_are_refused,
    a_rule_of_a_newer_release_sheds_nothing_here,
);

fn class(id: &'static str, tolerates_reordering: bool) -> MailboxClass {
    MailboxClass::with_defaults(ClassId::of(id), tolerates_reordering)
}

fn setup_error<T: std::fmt::Debug>(result: Result<T, Error>) -> SetupError {
    match result.expect_err("must be refused") {
        Error::Setup(error) => error,
        other => panic!("not a refusal: {other:?}"),
    }
}

async fn the_built_in_classes_are_there_from_the_start(base: &Base) {
    let store = base.open().await;
    let built_in = [class("strict", false), class("tolerant", true)];
    assert_eq!(store.classes().await.as_deref(), Ok(&built_in[..]));
    for class in &built_in {
        let refused = setup_error(store.delete_class(&class.id).await);
        assert_eq!(refused, SetupError::ClassBuiltIn(class.id.clone()));
    }
    let directory = Directory::load(store).await.expect("loads");
    for class in built_in {
        assert_eq!(*directory.class(&class.id), class);
    }
}

async fn a_change_of_a_class_reaches_other_processes(base: &Base) {
    let writer = base.open().await;
    writer.apply(&[full("acme", &token(1))], false).await.expect("applies");
    let following = Following::start(base.open().await).await;
    let directory = &following.directory;
    let (acme, before) = (directory.tenant(&tenant("acme")).expect("exists"), directory.seq());

    let mut tolerant = class("tolerant", true);
    (tolerant.threads, tolerant.payloads_per_thread, tolerant.buckets_max) = (8, 100, 256);
    tolerant.priority = 1;
    let seq = writer.put_class(&tolerant).await.expect("changes");
    assert_eq!(seq, before + 1);
    following.reached(seq).await;
    assert_eq!(*directory.class(&tolerant.id), tolerant);
    assert!(
        std::sync::Arc::ptr_eq(&acme, &directory.tenant(&tenant("acme")).expect("exists")),
        "no tenant is read again"
    );
    assert_eq!(writer.put_class(&tolerant).await, Ok(seq), "an equal one writes nothing");

    let seq = writer.put_class(&class("bulk", true)).await.expect("creates");
    following.reached(seq).await;
    assert!(directory.class(&ClassId::of("bulk")).tolerates_reordering);
    let seq = writer.delete_class(&ClassId::of("bulk")).await.expect("deletes");
    following.reached(seq).await;
    assert!(!directory.class(&ClassId::of("bulk")).tolerates_reordering);
    let gone = writer.delete_class(&ClassId::of("bulk")).await;
    assert_eq!(gone, Err(Error::ClassNotFound(ClassId::of("bulk"))));

    let changes = writer.changes_after(before, 10).await.expect("reads");
    let written: Vec<_> = changes.iter().map(|c| (c.kind, c.entity.as_str(), c.op)).collect();
    assert_eq!(
        written,
        [
            (ChangeKind::Class, "tolerant", ChangeOp::Put),
            (ChangeKind::Class, "bulk", ChangeOp::Put),
            (ChangeKind::Class, "bulk", ChangeOp::Delete),
        ]
    );
    assert!(changes.iter().all(|change| change.tenant.is_none()));
    // A process of the first schema reads the tenant of every change as an id: it must be one.
    let texts = "SELECT COUNT(*) FROM changes WHERE kind = 'class' AND tenant = 'every-tenant'";
    assert_eq!(base.number(texts).await, 3);
    assert!(TenantId::new("every-tenant").is_ok());
    following.stop().await;
}

/// Makes something of a set-up name a class.
type Naming = fn(&mut TenantSetup, ClassId);

async fn a_class_in_use_is_not_deleted(base: &Base) {
    let store = base.open().await;
    let mine = ClassId::of("mine");
    store.put_class(&class("mine", true)).await.expect("creates");
    let uses: [(&str, Naming); 3] = [
        ("tenant 'acme'", |setup, class| setup.tenant.source_class = class),
        ("endpoint 'hook' of tenant 'acme'", |setup, class| setup.endpoints[0].endpoint.class = class),
        ("integration 'open' of tenant 'acme'", |setup, class| setup.integrations[1].class = Some(class)),
    ];
    for (user, name) in uses {
        let mut setup = full("acme", &token(1));
        name(&mut setup, mine.clone());
        store.apply(&[setup], true).await.expect("applies");
        let refused = setup_error(store.delete_class(&mine).await);
        assert_eq!(refused, SetupError::ClassInUse { class: mine.clone(), used_by: user.to_owned() });
    }
    store.apply(&[full("acme", &token(1))], true).await.expect("applies");
    store.delete_class(&mine).await.expect("nothing uses it any more");
}

/// A wider split would send a key to another mailbox while its records wait in the old one.
async fn the_width_of_a_strict_class_in_use_is_fixed(base: &Base) {
    let store = base.open().await;
    let mut wider = class("strict", false);
    wider.fixed_buckets = 4;
    store.put_class(&wider).await.expect("nothing uses it yet");
    store.apply(&[empty("acme")], false).await.expect("applies");
    let fixed = |result| match setup_error(result) {
        SetupError::ClassFixed { class, field, used_by } => (class.to_string(), field, used_by),
        other => panic!("{other:?}"),
    };
    wider.fixed_buckets = 16;
    let user = || "tenant 'acme'".to_owned();
    assert_eq!(fixed(store.put_class(&wider).await), ("strict".into(), "fixed_buckets", user()));
    let tolerant = class("strict", true);
    assert_eq!(fixed(store.put_class(&tolerant).await), ("strict".into(), "tolerates_reordering", user()));
    // What a strict class does not read may change.
    (wider.fixed_buckets, wider.threads) = (4, 9);
    store.put_class(&wider).await.expect("no key moves");
    assert_eq!(store.classes().await.expect("reads")[0], wider);
}

async fn options_out_of_range_are_refused(base: &Base) {
    let store = base.open().await;
    let mut bad = class("mine", true);
    bad.threads = 0;
    let refused = setup_error(store.put_class(&bad).await);
    let wanted = ClassError { class: bad.id.clone(), field: "threads", value: 0, max: 1024 };
    assert_eq!(refused, SetupError::ClassOption(wanted));
    for priority in [0, 11] {
        let refused = setup_error(store.put_class(&MailboxClass { priority, ..class("mine", true) }).await);
        let value = u32::from(priority);
        let wanted = ClassError { class: bad.id.clone(), field: "priority", value, max: 10 };
        assert_eq!(refused, SetupError::ClassOption(wanted));
    }
    assert_eq!(store.classes().await.expect("reads").len(), 2);
    // Behind our back: clamped by those who read it, and no reason to stop.
    base.raw("UPDATE mailbox_classes SET threads = -3, buckets_max = 9999999999, priority = 300 WHERE id = 'tolerant'")
        .await;
    base.raw("UPDATE mailbox_classes SET priority = -1 WHERE id = 'strict'").await;
    let directory = Directory::load(store).await.expect("loads");
    let read = directory.class(&ClassId::of("tolerant"));
    assert_eq!((read.threads, read.buckets_max, read.priority), (0, u32::MAX, 10));
    assert_eq!(directory.class(&ClassId::of("strict")).priority, 1);
}

async fn classes_and_tenants_are_one_write(base: &Base) {
    let store = base.open().await;
    let bulk = class("bulk", true);
    let mut setup = full("acme", &token(1));
    setup.endpoints[0].endpoint.class = bulk.id.clone();
    let mut bad = setup.clone();
    bad.endpoints[1].endpoint.class = ClassId::of("none");
    assert!(store.apply_all(std::slice::from_ref(&bulk), &[bad], true).await.is_err());
    assert_eq!(store.classes().await.expect("reads").len(), 2, "all of it or nothing");
    let twice = store.apply_all(&[bulk.clone(), bulk.clone()], &[], false).await;
    assert_eq!(setup_error(twice), SetupError::ClassTwice(bulk.id.clone()));

    let one = |created, unchanged| Tally { created, unchanged, ..Tally::default() };
    let preview =
        store.preview(std::slice::from_ref(&bulk), std::slice::from_ref(&setup), true).await.expect("fits");
    assert_eq!((preview.counts.classes, preview.counts.tenants), (one(1, 0), one(1, 0)));
    assert_eq!(store.changes_after(0, 10).await, Ok(vec![]));

    let following = Following::start(base.open().await).await;
    let setups = [setup];
    let applied = store.apply_all(std::slice::from_ref(&bulk), &setups, true).await.expect("applies");
    assert_eq!(applied.counts, preview.counts);
    following.reached(applied.seq).await;
    let hook: EndpointId = endpoint_id("hook");
    let view = following.directory.tenant(&tenant("acme")).expect("exists");
    assert_eq!(*following.directory.class(&view.endpoints[&hook].class), bulk);
    let again = store.apply_all(&[bulk], &setups, true).await.expect("applies");
    assert_eq!((again.seq, again.counts.classes), (applied.seq, one(0, 1)));
    following.stop().await;
}

async fn a_missing_class_is_strict(base: &Base) {
    let directory = Directory::load(base.open().await).await.expect("loads");
    for _ in 0..2 {
        assert_eq!(*directory.class(&ClassId::of("none")), class("none", false));
    }
}

async fn shed_rules_reach_other_processes(base: &Base) {
    let writer = base.open().await;
    let following = Following::start(base.open().await).await;
    let directory = &following.directory;
    assert_eq!(*directory.shed(), vec![]);
    let rules = vec![
        ShedRule { provider: Provider::Jira, tenant: None, integration: None },
        ShedRule {
            provider: Provider::GitHub,
            tenant: Some(tenant("acme")),
            integration: Some(IntegrationId::of("main")),
        },
    ];
    let seq = writer.set_shed(rules.clone()).await.expect("sets");
    following.reached(seq).await;
    assert_eq!(*directory.shed(), rules);
    assert_eq!(writer.set_shed(rules.clone()).await, Ok(seq), "equal rules write nothing");
    assert_eq!(writer.shed().await.as_ref(), Ok(&rules));
    let changes = writer.changes_after(seq - 1, 10).await.expect("reads");
    assert_eq!(changes.iter().map(|c| (c.kind, &c.tenant)).collect::<Vec<_>>(), [(ChangeKind::Shed, &None)]);

    let loaded = Directory::load(base.open().await).await.expect("loads");
    assert_eq!(*loaded.shed(), rules);
    let seq = writer.set_shed(Vec::new()).await.expect("clears");
    following.reached(seq).await;
    assert_eq!(*directory.shed(), vec![]);
    following.stop().await;
}

async fn too_many_shed_rules_are_refused(base: &Base) {
    let store = base.open().await;
    let rule = ShedRule { provider: Provider::Generic, tenant: None, integration: None };
    let refused = setup_error(store.set_shed(vec![rule.clone(); SHED_RULES_MAX + 1]).await);
    assert_eq!(refused, SetupError::ShedRules(SHED_RULES_MAX + 1));
    assert_eq!(store.shed().await, Ok(vec![]));
    store.set_shed(vec![rule; SHED_RULES_MAX]).await.expect("as many as allowed");
}

async fn a_rule_of_a_newer_release_sheds_nothing_here(base: &Base) {
    let store = base.open().await;
    let known = ShedRule { provider: Provider::GitLab, tenant: None, integration: None };
    store.set_shed(vec![known.clone()]).await.expect("sets");
    base.raw("INSERT INTO shed (position, provider) VALUES (7, 'bitbucket')").await;
    assert_eq!(*Directory::load(store).await.expect("loads").shed(), vec![known]);
}
