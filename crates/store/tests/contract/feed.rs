//! The change feed: numbers in the order of commits, without gaps, whoever writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mailrail_store::ChangeOp;

use crate::base::{Base, app, empty, endpoint, full, not_hanging, tenant, token};

crate::on_both!(
    a_follower_misses_nothing_of_eight_writers,
    the_feed_says_what_was_written,
    one_of_many_equal_applies_generates_the_secret,
    the_feed_keeps_its_newest_hundred_thousand,
);

const WRITERS: usize = 8;
const WRITES: usize = 12;

async fn a_follower_misses_nothing_of_eight_writers(base: &Base) {
    // Two stores are two processes: nothing but the database stands between their writers.
    let stores = [base.open().await, base.open().await];
    let done = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, done) = (stores[writer % 2].clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut setup = empty(&format!("tenant-{writer}"));
                setup.apps = vec![app("shop"), app("audit")];
                for n in 0..WRITES {
                    for app in &mut setup.apps {
                        app.name = n.to_string();
                    }
                    store.apply(std::slice::from_ref(&setup), false).await.expect("applies");
                }
                done.fetch_add(1, Ordering::AcqRel);
            })
        })
        .collect();

    let follower = base.open().await;
    let mut followed = Vec::new();
    not_hanging(async {
        loop {
            let finished = done.load(Ordering::Acquire) == WRITERS;
            let last = followed.last().map_or(0, |change: &mailrail_store::Change| change.seq);
            let more = follower.changes_after(last, 7).await.expect("reads");
            if more.is_empty() && finished {
                break;
            }
            followed.extend(more);
        }
    })
    .await;
    for writer in writers {
        writer.await.expect("writes");
    }
    let numbers: Vec<_> = followed.iter().map(|change| change.seq).collect();
    let expected = u64::try_from(WRITERS * (1 + 2 * WRITES)).expect("small");
    assert_eq!(numbers, (1..=expected).collect::<Vec<_>>());
    assert_eq!(Ok(followed), follower.changes_after(0, 10_000).await);
}

async fn the_feed_says_what_was_written(base: &Base) {
    let store = base.open().await;
    assert_eq!(store.changes_after(0, 10).await, Ok(vec![]));
    let applied = store.apply(&[full("acme", &token(1))], false).await.expect("applies");
    let changes = store.changes_after(0, 100).await.expect("reads");
    assert_eq!(changes.len(), 12);
    assert_eq!(changes.last().map(|change| change.seq), Some(applied.seq));
    assert!(changes.iter().all(|change| change.tenant == Some(tenant("acme")) && change.op == ChangeOp::Put));
    assert_eq!(store.changes_after(0, 3).await.as_deref(), Ok(&changes[..3]));
    assert_eq!(store.changes_after(7, 100).await.as_deref(), Ok(&changes[7..]));
}

/// Read-compare-write is alone: without that, two applies would both find no secret.
async fn one_of_many_equal_applies_generates_the_secret(base: &Base) {
    let stores = [base.open().await, base.open().await];
    let mut setup = empty("acme");
    setup.apps = vec![app("shop")];
    setup.endpoints = vec![endpoint("hook", "shop", &[])];
    let applies: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, setup) = (stores[writer % 2].clone(), setup.clone());
            tokio::spawn(async move { store.apply(&[setup], true).await.expect("applies") })
        })
        .collect();
    let mut secrets = Vec::new();
    for apply in applies {
        secrets.extend(apply.await.expect("applies").secrets);
    }
    assert_eq!(secrets.len(), 1);
    let view = stores[0].tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    assert!(view.endpoints.values().next().expect("an endpoint").secrets == [secrets[0].secret.clone()]);
}

async fn the_feed_keeps_its_newest_hundred_thousand(base: &Base) {
    let store = base.open().await;
    base.raw(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100005) \
         INSERT INTO changes (seq, tenant, kind, entity, op) SELECT n, 'old', 'tenant', 'old', 'put' FROM numbers",
    )
    .await;
    let applied = store.apply(&[empty("acme")], false).await.expect("applies");
    assert_eq!(applied.seq, 100_006);
    assert_eq!(base.number("SELECT COUNT(*) FROM changes").await, 100_000);
    assert_eq!(store.changes_after(0, 1).await.expect("reads")[0].seq, 7);
}
