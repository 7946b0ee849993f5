//! A real Redis Cluster: slots move and nodes go away under leases.

use std::time::Duration;

use super::{Client, Load, quick, recipient, until};
use crate::servers::Cluster;

const LIMIT: u32 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_slot_moves_under_leases() {
    let Some(cluster) = Cluster::start() else { return };
    let fleet = Client::fleet(4, &cluster.urls(), "", quick()).await;
    let load = Load::start(&fleet, &recipient("endpoint"), LIMIT, Duration::from_millis(3));
    until("all trust the store", || fleet.iter().all(|it| it.metrics.on_share.get() == 0)).await;
    load.goes_on(50).await;
    load.open.take_most();
    let key = "test:lease:{endpoint:acme:endpoint}";
    let slot = cluster.nodes[0].cli(&["cluster", "keyslot", key]);
    let (from, to) = cluster.owner_and_other(slot.parse().expect("slot"));
    let (from_id, to_id) = (cluster.id(from), cluster.id(to));
    let set_slot = |node: usize, how: &[&str]| {
        assert_eq!(cluster.nodes[node].cli(&[&["cluster", "setslot", &slot], how].concat()), "OK");
    };
    set_slot(to, &["importing", &from_id]);
    set_slot(from, &["migrating", &to_id]);
    load.goes_on(20).await;
    let port = cluster.nodes[to].port.to_string();
    // Half moved, a script that needs keys of both sides is refused: each process is on its share for as long.
    loop {
        let listed = cluster.nodes[from].cli(&["cluster", "getkeysinslot", &slot, "100"]);
        let Some(moved) = listed.lines().find(|line| !line.is_empty()) else { break };
        let answer = cluster.nodes[from].cli(&["migrate", "127.0.0.1", &port, moved, "0", "5000"]);
        assert!(matches!(answer.as_str(), "OK" | "NOKEY"), "{moved}: {answer}");
    }
    load.goes_on(20).await;
    set_slot(to, &["node", &to_id]);
    set_slot(from, &["node", &to_id]);
    load.goes_on(50).await;
    until("all trust the store", || fleet.iter().all(|it| it.metrics.on_share.get() == 0)).await;
    load.open.take_most();
    load.goes_on(100).await;
    let most = load.open.take_most();
    assert!((1..=u64::from(LIMIT)).contains(&most), "{most}");
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_node_goes_away_and_comes_back_empty() {
    let Some(mut cluster) = Cluster::start() else { return };
    let fleet = Client::fleet(4, &cluster.urls(), "", quick()).await;
    let slot = cluster.nodes[0].cli(&["cluster", "keyslot", "test:lease:{endpoint:acme:endpoint}"]);
    let (owner, _) = cluster.owner_and_other(slot.parse().expect("slot"));
    let load = Load::start(&fleet, &recipient("endpoint"), LIMIT, Duration::from_millis(3));
    until("all trust the store", || fleet.iter().all(|it| it.metrics.on_share.get() == 0)).await;
    load.goes_on(50).await;
    cluster.nodes[owner].kill();
    until("all are on their share", || fleet.iter().all(|it| it.metrics.on_share.get() == 1)).await;
    load.goes_on(20).await;
    load.open.take_most();
    load.goes_on(100).await;
    let most = load.open.take_most();
    assert!((1..=u64::from(LIMIT)).contains(&most), "{most} in the outage");
    assert!(cluster.nodes[owner].run(&[]));
    cluster.await_ok();
    until("all trust the store", || fleet.iter().all(|it| it.metrics.on_share.get() == 0)).await;
    load.goes_on(50).await;
    let most = load.open.take_most();
    assert!(most <= u64::from(LIMIT), "{most} on the way back");
    load.end().await;
}
