//! Opening: migrations under a lock, the right key, a schema that this binary knows.

use mailrail_store::{EncryptionKey, Error, Store};

use mailrail_types::{
    FilterErrorPolicy, IN_FLIGHT_MAX, MailboxClass, PRIORITY_DEFAULT, RATE_PER_SECOND_MAX, SubscriptionId,
};

use crate::base::{Base, empty, endpoint_id, full, tenant, token};

crate::on_both!(
    processes_that_start_together_migrate_once,
    the_first_of_several_keys_wins,
    another_key_is_refused_at_the_start,
    a_newer_schema_is_refused,
    a_failed_migration_leaves_nothing,
    a_database_of_the_first_schema_is_migrated,
    limits_of_a_newer_version_are_kept_in_bounds,
    a_policy_of_a_newer_version_is_the_default,
    a_closed_store_says_so,
);

async fn processes_that_start_together_migrate_once(base: &Base) {
    let (a, b, c, d) = tokio::join!(base.open(), base.open(), base.open(), base.open());
    a.apply(&[empty("acme")], false).await.expect("applies");
    for store in [b, c, d] {
        store.check().await.expect("answers");
        assert!(store.tenant_view(&tenant("acme")).await.expect("reads").is_some());
    }
    assert_eq!(base.number("SELECT COUNT(*) FROM schema_versions").await, 5);
    assert_eq!(base.number("SELECT COUNT(*) FROM key_check").await, 1);
}

async fn the_first_of_several_keys_wins(base: &Base) {
    let open = || base.try_open(EncryptionKey::generate());
    let (a, b, c, d) = tokio::join!(open(), open(), open(), open());
    let opened = [a, b, c, d].map(|result| result.map(|_| ()));
    assert_eq!(opened.iter().filter(|result| result.is_ok()).count(), 1, "{opened:?}");
    assert_eq!(opened.iter().filter(|result| **result == Err(Error::WrongKey)).count(), 3, "{opened:?}");
}

async fn another_key_is_refused_at_the_start(base: &Base) {
    base.open().await;
    let refused = base.try_open(EncryptionKey::generate()).await.map(|_| ());
    assert_eq!(refused, Err(Error::WrongKey));
    base.open().await.check().await.expect("the first key still opens it");
}

async fn a_newer_schema_is_refused(base: &Base) {
    let store = base.open().await;
    base.raw("INSERT INTO schema_versions (version) VALUES (999)").await;
    let refused = base.try_open(EncryptionKey::generate()).await.map(|_| ());
    assert_eq!(refused, Err(Error::NewerSchema { found: 999, known: 5 }));
    // Processes of the older version go on: a rolling upgrade needs them.
    store.apply(&[empty("acme")], false).await.expect("applies");
}

async fn a_failed_migration_leaves_nothing(base: &Base) {
    // The last table of the migration is in the way.
    base.raw("CREATE TABLE key_check (other BIGINT)").await;
    let refused = base.try_open(EncryptionKey::generate()).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    base.raw("DROP TABLE key_check").await;
    base.open().await.check().await.expect("nothing of the first try is in the way");
}

/// What the first release wrote gets the classes that a file leaves out.
async fn a_database_of_the_first_schema_is_migrated(base: &Base) {
    let bytes = if base.dir.is_some() { "BLOB " } else { "BYTEA " };
    let first = include_str!("../../migrations/0001_setup.sql").replace("BYTES ", bytes);
    base.raw(&format!(
        "CREATE TABLE schema_versions (version BIGINT NOT NULL PRIMARY KEY); \
         INSERT INTO schema_versions (version) VALUES (1); {first} \
         INSERT INTO tenants (tenant, name) VALUES ('acme', 'Acme'); \
         INSERT INTO apps (tenant, id, name) VALUES ('acme', 'shop', ''); \
         INSERT INTO endpoints (tenant, id, app, url, headers) VALUES ('acme', 'hook', 'shop', 'https://e.example', '[]'); \
         INSERT INTO changes (seq, tenant, kind, entity, op) VALUES (1, 'acme', 'tenant', 'acme', 'put');"
    ))
    .await;
    let store = base.open().await;
    let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    assert_eq!((view.seq, view.tenant.source_class.as_str()), (1, MailboxClass::STRICT));
    let hook = &view.endpoints[&endpoint_id("hook")];
    assert_eq!(hook.class.as_str(), MailboxClass::TOLERANT);
    assert_eq!((hook.head_max_age, hook.paused, view.pauses.len()), (None, false, 0));
    assert_eq!((hook.max_in_flight, hook.rate_per_second), (None, None));
    let classes = store.classes().await.expect("reads");
    assert!(classes.iter().all(|class| class.priority == PRIORITY_DEFAULT), "{classes:?}");
    // A process of the first release that goes on writes rows without the new columns.
    base.raw("INSERT INTO tenants (tenant, name) VALUES ('late', '')").await;
    let late = store.tenant_view(&tenant("late")).await.expect("reads").expect("exists");
    assert_eq!(late.tenant.source_class.as_str(), MailboxClass::STRICT);
    // And what it changes of an endpoint does not let held mail go.
    store.pause_endpoint(&tenant("acme"), &endpoint_id("hook"), "alice").await.expect("pauses");
    base.raw(
        "INSERT INTO endpoints (tenant, id, app, url, headers) VALUES ('acme', 'hook', 'shop', 'https://f.example', '[]') \
         ON CONFLICT (tenant, id) DO UPDATE SET url = excluded.url",
    )
    .await;
    let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    let hook = &view.endpoints[&endpoint_id("hook")];
    assert_eq!((hook.url.as_str(), hook.paused), ("https://f.example", true));
}

/// Processes of the older version read what a newer one wrote: a rolling upgrade needs them.
/// And so is what an older version wrote, which knows neither policies nor permissions.
async fn a_policy_of_a_newer_version_is_the_default(base: &Base) {
    let store = base.open().await;
    store.apply(&[full("acme", &token(1))], false).await.expect("applies");
    let filtered = SubscriptionId::new("filtered").expect("valid");
    for stored in ["'retry-later'", "NULL"] {
        base.raw(&format!("UPDATE subscriptions SET on_filter_error = {stored}")).await;
        let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
        assert_eq!(
            view.subscriptions[&filtered].on_filter_error,
            FilterErrorPolicy::DropAndCount,
            "{stored}"
        );
    }
    base.raw("UPDATE apps SET permissions = NULL").await;
    let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    assert!(view.apps.values().all(|app| app.permissions.is_empty()));
}

async fn limits_of_a_newer_version_are_kept_in_bounds(base: &Base) {
    let store = base.open().await;
    store.apply(&[full("acme", &token(1))], false).await.expect("applies");
    for (stored, (in_flight, rate)) in [
        ("9000000000", (IN_FLIGHT_MAX, RATE_PER_SECOND_MAX)),
        ("0", (1, 1)),
        ("-5", (1, 1)),
        ("1000", (1_000, 1_000)),
    ] {
        base.raw(&format!(
            "UPDATE endpoints SET max_in_flight = {stored}, rate_per_second = {stored} WHERE id = 'hook'"
        ))
        .await;
        let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
        let (hook, plain) = (&view.endpoints[&endpoint_id("hook")], &view.endpoints[&endpoint_id("plain")]);
        assert_eq!(
            (hook.max_in_flight, hook.rate_per_second),
            (Some(in_flight), Some(rate)),
            "stored as {stored}"
        );
        assert_eq!((plain.max_in_flight, plain.rate_per_second), (None, None));
    }
}

async fn a_closed_store_says_so(base: &Base) {
    let store = base.open().await;
    store.close().await;
    assert!(matches!(store.check().await, Err(Error::Unavailable(_))));
    assert!(matches!(store.apply(&[empty("acme")], false).await, Err(Error::Unavailable(_))));
}

#[tokio::test]
async fn unusable_addresses_are_refused_without_quoting_passwords() {
    for url in ["", "mysql://u:canary@h/d", "sqlite:", "sqlite::memory:", "postgres://u:canary@h:notaport/d"]
    {
        let refused = Store::open(url, EncryptionKey::generate()).await.map(|_| ()).expect_err(url);
        assert!(matches!(refused, Error::Url(_)), "{url}: {refused:?}");
        assert!(!format!("{refused} {refused:?}").contains("canary"), "{refused}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_made_is_unavailable() {
    let dir = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", dir.path().join("missing").join("x.db").display());
    let refused = Store::open(&url, EncryptionKey::generate()).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}
