//! A real Redis Cluster: slots move and nodes go away under the sizer.

use mailrail_limits::Counter;

use crate::bench::{Bench, key};
use crate::servers::Cluster;

/// Counters enough to lie on every node.
fn counters() -> Vec<Counter> {
    (0..30).map(|n| Counter::new("github", &[&n.to_string(), "push"])).collect()
}

/// 20 payloads each, which are 16 mailboxes.
async fn known(cluster: &Cluster) -> Bench {
    let bench = Bench::new(&cluster.urls());
    for counter in counters() {
        bench.count(&counter, 20);
        assert_eq!(bench.healed(&counter).await.width, 16);
    }
    assert!(bench.sizer.flush().await);
    bench
}

async fn one_more_each(bench: &Bench) {
    bench.second();
    for counter in counters() {
        bench.count(&counter, 1);
        let sizing = bench.width(&counter).await;
        assert!(sizing.width >= 16 && (sizing.known || sizing.width == 64), "{counter:?}: {sizing:?}");
    }
    bench.sizer.flush().await;
}

/// Every counter is known again, with `payloads` for this process; in the store no more than that, and no less but for
/// those whose write was not answered.
async fn recovers(bench: &Bench, payloads: u64) {
    for counter in counters() {
        let sizing = bench.healed(&counter).await;
        assert_eq!((sizing.width, sizing.payloads), (16, Some(payloads)), "{counter:?}");
    }
}

#[tokio::test]
async fn s13_s14_a_slot_moves_under_a_running_sizer() {
    let Some(cluster) = Cluster::start() else { return };
    let bench = known(&cluster).await;
    let moving = counters().swap_remove(0);
    let slot_text = cluster.nodes[0].cli(&["cluster", "keyslot", &key(&moving, 0)]);
    let (from, to) = cluster.owner_and_other(slot_text.parse().expect("slot"));
    let (from_id, to_id) = (cluster.id(from), cluster.id(to));
    let set_slot = |node: usize, how: &[&str]| {
        let answer = cluster.nodes[node].cli(&[&["cluster", "setslot", &slot_text], how].concat());
        assert_eq!(answer, "OK");
    };
    // Half moved: keys that are still there are answered, for others there is an ASK.
    set_slot(to, &["importing", &from_id]);
    set_slot(from, &["migrating", &to_id]);
    one_more_each(&bench).await;
    let listed = cluster.nodes[from].cli(&["cluster", "getkeysinslot", &slot_text, "100"]);
    assert!(listed.contains(moving.name()), "{listed}");
    let port = cluster.nodes[to].port.to_string();
    for moved in listed.lines() {
        let answer = cluster.nodes[from].cli(&["migrate", "127.0.0.1", &port, moved, "0", "5000"]);
        assert_eq!(answer, "OK", "{moved}");
    }
    one_more_each(&bench).await;
    // Wholly moved: there is a MOVED.
    set_slot(to, &["node", &to_id]);
    set_slot(from, &["node", &to_id]);
    one_more_each(&bench).await;
    recovers(&bench, 23).await;
    for counter in counters() {
        let (stored, dropped) = (bench.stored(&counter).await, bench.sizer.counts().counts_dropped);
        assert!(
            (23 - dropped.min(3)..=23).contains(&stored),
            "{counter:?}: {stored} stored, {dropped} dropped"
        );
    }
    assert_eq!(cluster.nodes[from].cli(&["cluster", "countkeysinslot", &slot_text]), "0");
}

#[tokio::test]
async fn s13_s14_a_node_goes_away_and_comes_back_empty() {
    let Some(mut cluster) = Cluster::start() else { return };
    let bench = known(&cluster).await;
    cluster.nodes[1].kill();
    for _ in 0..4 {
        one_more_each(&bench).await;
    }
    assert!(bench.sizer.counts().sizing_unavailable > 0);
    assert!(cluster.nodes[1].run(&[]));
    cluster.await_ok();
    recovers(&bench, 24).await;
}
