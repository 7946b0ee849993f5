//! A real Redis that fails in every way there is: each process has its share, nothing stops, and when it is back the limit is
//! not exceeded.

use std::time::Duration;

use super::{Client, Load, quick, recipient, until};
use crate::servers::Server;

const LIMIT: u32 = 8;
const PROCESSES: i64 = 4;

/// Four processes that know of each other and want more than the limit.
async fn under_load(server: &Server) -> (Vec<Client>, Load) {
    let fleet = Client::fleet(PROCESSES, &[server.url()], "", quick()).await;
    let load = Load::start(&fleet, &recipient("endpoint"), LIMIT, Duration::from_millis(3));
    load.goes_on(50).await;
    until("all trust the store", || fleet.iter().all(|it| it.metrics.on_share.get() == 0)).await;
    load.goes_on(50).await;
    (fleet, load)
}

fn all_on_share(fleet: &[Client], value: i64) -> impl Fn() -> bool + '_ {
    move || fleet.iter().all(|client| client.metrics.on_share.get() == value)
}

/// Each keeps to its share, which all together are the limit; then the store is mended and all of it is shared again. Never
/// above the limit once all have noticed, also not on the way back.
async fn each_has_its_share(fleet: Vec<Client>, load: Load, mend: impl FnOnce()) {
    until("all are on their share", all_on_share(&fleet, 1)).await;
    load.goes_on(20).await;
    // What ran when the store went away is over.
    load.open.take_most();
    load.goes_on(100).await;
    let most = load.open.take_most();
    assert!((1..=u64::from(LIMIT)).contains(&most), "{most} in the outage");
    mend();
    until("all trust the store again", all_on_share(&fleet, 0)).await;
    load.goes_on(50).await;
    let most = load.open.take_most();
    assert!(most <= u64::from(LIMIT), "{most} on the way back");
    load.end().await;
    for client in fleet {
        client.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_is_stopped_and_comes_back_empty() {
    let Some(mut server) = Server::start(&[]) else { return };
    let (fleet, load) = under_load(&server).await;
    server.kill();
    each_has_its_share(fleet, load, || assert!(server.run(&[]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_stalls() {
    let Some(server) = Server::start(&[]) else { return };
    let (fleet, load) = under_load(&server).await;
    server.signal("STOP");
    each_has_its_share(fleet, load, || server.signal("CONT")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_becomes_a_read_only_replica() {
    let (Some(server), Some(master)) = (Server::start(&[]), Server::start(&[])) else { return };
    let (fleet, load) = under_load(&server).await;
    assert_eq!(server.cli(&["replicaof", "127.0.0.1", &master.port.to_string()]), "OK");
    each_has_its_share(fleet, load, || assert_eq!(server.cli(&["replicaof", "no", "one"]), "OK")).await;
}

/// A server that is full still shares leases: they are little, and what begins with a deletion is let through.
#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_is_out_of_memory() {
    let Some(server) = Server::start(&["--maxmemory-policy", "noeviction"]) else { return };
    let (fleet, load) = under_load(&server).await;
    assert_eq!(server.cli(&["config", "set", "maxmemory", "1"]), "OK");
    assert!(server.cli(&["set", "another", "x"]).contains("OOM"));
    load.open.take_most();
    let exchanges = || fleet.iter().map(|client| client.metrics.exchanges.get()).sum::<u64>();
    let before = exchanges();
    until("leases are exchanged", || exchanges() >= before + 50).await;
    load.goes_on(100).await;
    let most = load.open.take_most();
    assert!((1..=u64::from(LIMIT)).contains(&most), "{most}");
    assert!(fleet.iter().all(|client| client.metrics.on_share.get() == 0), "nothing was refused");
    load.end().await;
}

/// A server that throws away what it was told: each process has its share.
#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_evicts() {
    let Some(server) = Server::start(&["--maxmemory-policy", "allkeys-random"]) else { return };
    let (fleet, load) = under_load(&server).await;
    assert_eq!(server.cli(&["config", "set", "maxmemory", "1"]), "OK");
    until("all are on their share", all_on_share(&fleet, 1)).await;
    load.goes_on(50).await;
    load.open.take_most();
    load.goes_on(200).await;
    let most = load.open.take_most();
    assert!((1..=u64::from(LIMIT)).contains(&most), "{most}");
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_is_loading() {
    let Some(mut server) = Server::start(&[]) else { return };
    let (fleet, load) = under_load(&server).await;
    server.restart_loading();
    each_has_its_share(fleet, load, || server.load_fast()).await;
}

/// Forgotten in the middle of it: what is in use is said again, and nobody takes more than its share until it was.
#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_is_wiped() {
    let Some(server) = Server::start(&[]) else { return };
    let (_fleet, load) = under_load(&server).await;
    load.open.take_most();
    assert_eq!(server.cli(&["flushall"]), "OK");
    load.goes_on(50).await;
    let most = load.open.take_most();
    assert!(most < 2 * u64::from(LIMIT), "{most} right after it: what ran, and the shares of the others");
    // As many as the limit, as soon as what was lost was said again.
    load.goes_on(200).await;
    load.open.take_most();
    load.goes_on(200).await;
    let most = load.open.take_most();
    assert!(most <= u64::from(LIMIT), "{most} later");
    load.end().await;
}

/// One that has never seen the store, or anybody, has one request open at a time.
#[tokio::test(flavor = "multi_thread")]
async fn a24_a_server_that_was_never_there() {
    let Some(mut server) = Server::start(&[]) else { return };
    server.kill();
    let fleet: Vec<Client> = (0..PROCESSES).map(|_| Client::start(&[server.url()], "", quick())).collect();
    let load = Load::start(&fleet, &recipient("endpoint"), LIMIT, Duration::from_millis(3));
    load.goes_on(100).await;
    let most = load.open.take_most();
    assert!((1..=u64::try_from(PROCESSES).expect("few")).contains(&most), "{most}");
    assert!(server.run(&[]));
    until("all trust the store", all_on_share(&fleet, 0)).await;
    load.goes_on(50).await;
    assert!(load.open.take_most() <= u64::from(LIMIT));
    load.end().await;
}

/// With fewer leases than processes each has one: above the limit, but nothing stops.
#[tokio::test(flavor = "multi_thread")]
async fn a24_fewer_leases_than_processes() {
    let Some(mut server) = Server::start(&[]) else { return };
    let fleet = Client::fleet(PROCESSES, &[server.url()], "", quick()).await;
    let load = Load::start(&fleet, &recipient("endpoint"), 2, Duration::from_millis(3));
    until("all trust the store", all_on_share(&fleet, 0)).await;
    load.goes_on(20).await;
    load.open.take_most();
    load.goes_on(20).await;
    assert_eq!(load.open.take_most(), 2, "exact, and each has its turn");
    server.kill();
    until("all are on their share", all_on_share(&fleet, 1)).await;
    load.goes_on(20).await;
    load.open.take_most();
    load.goes_on(100).await;
    let most = load.open.take_most();
    assert!(most <= u64::try_from(PROCESSES).expect("few"), "{most}: one each");
    load.end().await;
}

/// What is at a key is not ours: that endpoint is on shares, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a24_a_key_that_holds_something_else() {
    let Some(server) = Server::start(&[]) else { return };
    server.cli(&["set", "test:lease:{endpoint:acme:endpoint}", "x"]);
    let fleet = Client::fleet(PROCESSES, &[server.url()], "", quick()).await;
    let load = Load::start(&fleet, &recipient("endpoint"), LIMIT, Duration::from_millis(3));
    until("all trust the store", all_on_share(&fleet, 0)).await;
    load.goes_on(100).await;
    let most = load.open.take_most();
    assert!((1..=u64::from(LIMIT)).contains(&most), "{most}");
    let other = fleet[0].leases.take(&recipient("other"), 1).await;
    assert!(other.is_ok() && fleet[1].leases.take(&recipient("other"), 1).await.is_err(), "shared as ever");
    load.end().await;
}
