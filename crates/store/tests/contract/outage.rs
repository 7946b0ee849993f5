//! The directory when the store fails, forgets or is set back: the last known state stays, then the truth returns.

use mailrail_store::{Directory, EncryptionKey, Error, Store};

use crate::base::{Base, Following, assert_view, empty, full, not_hanging, tenant, token, until};

crate::on_both!(
    the_last_known_state_survives_a_store_that_is_gone,
    a_store_that_comes_back_is_followed_again,
    a_trimmed_feed_is_noticed,
    a_database_that_was_set_back_is_noticed,
);

async fn the_last_known_state_survives_a_store_that_is_gone(base: &Base) {
    let store = base.open().await;
    let setup = full("acme", &token(1));
    let applied = store.apply(std::slice::from_ref(&setup), false).await.expect("applies");
    let following = Following::start(store.clone()).await;
    let directory = &following.directory;
    assert!(directory.is_current());
    store.close().await;
    until(|| !directory.is_current()).await;
    assert_eq!(directory.seq(), applied.seq);
    assert_view(&directory.tenant(&tenant("acme")).expect("exists"), &setup);
    assert!(directory.authenticate(&token(1)).is_some());
    not_hanging(directory.reached(applied.seq)).await;
    // It stops while the store is away, too.
    following.stop().await;
}

async fn a_store_that_comes_back_is_followed_again(base: &Base) {
    let writer = base.open().await;
    writer.apply(&[empty("acme")], false).await.expect("applies");
    let following = Following::start(base.open().await).await;
    let directory = &following.directory;
    base.raw("ALTER TABLE changes RENAME TO away").await;
    until(|| !directory.is_current()).await;
    assert!(directory.tenant(&tenant("acme")).is_some());
    base.raw("ALTER TABLE away RENAME TO changes").await;
    let applied = writer.apply(&[empty("globex")], false).await.expect("applies");
    following.reached(applied.seq).await;
    until(|| directory.is_current()).await;
    assert!(directory.tenant(&tenant("globex")).is_some());
    following.stop().await;
}

/// The changes of two tenants are forgotten before the directory has seen them.
async fn a_trimmed_feed_is_noticed(base: &Base) {
    let writer = base.open().await;
    writer.apply(&[empty("acme"), empty("goes")], false).await.expect("applies");
    let directory = Directory::load(base.open().await).await.expect("loads");
    writer.apply(&[empty("globex")], false).await.expect("applies");
    writer.delete_tenant(&tenant("goes")).await.expect("deletes");
    let last = writer.apply(&[empty("third")], false).await.expect("applies");
    base.raw(&format!("DELETE FROM changes WHERE seq < {}", last.seq)).await;
    let following = Following::of(directory);
    following.reached(last.seq).await;
    let mut known: Vec<_> =
        following.directory.tenants().iter().map(|view| view.tenant.id.to_string()).collect();
    known.sort();
    assert_eq!(known, ["acme", "globex", "third"]);
    following.stop().await;
}

/// Somebody restored a backup: what came after it is gone, and so are its numbers.
async fn a_database_that_was_set_back_is_noticed(base: &Base) {
    let writer = base.open().await;
    let backup = writer.apply(&[empty("acme")], false).await.expect("applies").seq;
    let later = writer.apply(&[empty("later")], false).await.expect("applies").seq;
    let directory = Directory::load(base.open().await).await.expect("loads");
    assert_eq!(directory.seq(), later);
    base.raw(&format!(
        "DELETE FROM changes WHERE seq > {backup}; DELETE FROM tenants WHERE tenant = 'later'"
    ))
    .await;
    let following = Following::of(directory);
    until(|| following.directory.seq() == backup).await;
    assert_eq!(following.directory.tenant(&tenant("later")), None);
    let applied = writer.apply(&[empty("new")], false).await.expect("applies");
    following.reached(applied.seq).await;
    assert!(following.directory.tenant(&tenant("new")).is_some());
    following.stop().await;
}

#[tokio::test]
async fn cut_connections_are_replaced() {
    let Some(base) = Base::postgres().await else { return };
    let store = base.open().await;
    store.apply(&[empty("acme")], false).await.expect("applies");
    let following = Following::start(base.open().await).await;
    base.cut_connections().await;
    let applied = store.apply(&[empty("globex")], false).await.expect("applies on a new connection");
    following.reached(applied.seq).await;
    assert!(following.directory.tenant(&tenant("globex")).is_some());
    following.stop().await;
    base.remove().await;
}

/// It takes connections and says nothing: the case in which only our own limits end the wait.
#[tokio::test]
async fn a_server_that_never_answers_is_unavailable() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://u@{}/d", server.local_addr().expect("an address"));
    let refused = not_hanging(Store::open(&url, EncryptionKey::generate())).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}
