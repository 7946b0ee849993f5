//! A real Redis that fails in every way there is: there is always a width, and it is never narrower for it.

use std::time::Duration;

use mailrail_limits::{Counter, Sizing};

use crate::bench::{Bench, SHARD, key, push};
use crate::servers::Server;

/// The cap of the options in use.
const CAP: u32 = 64;

/// 20 payloads that are known and written: 16 mailboxes.
async fn known(server: &Server) -> Bench {
    let bench = Bench::new(&[server.url()]);
    bench.count(&push(), 20);
    assert_eq!(bench.healed(&push()).await, Sizing { width: 16, known: true, payloads: Some(20) });
    assert!(bench.sizer.flush().await);
    bench
}

/// Five seconds of traffic, 4 payloads. Answers how often the width was the cap.
async fn endures(bench: &Bench) -> usize {
    let mut unknown = 0;
    for second in 0..5 {
        bench.second();
        let sizing = bench.width(&push()).await;
        assert!(sizing.width >= 16, "second {second}: {sizing:?}");
        assert!(sizing.known || sizing.width == CAP, "second {second}: {sizing:?}");
        unknown += usize::from(!sizing.known);
        if second > 0 {
            bench.count(&push(), 1);
        }
        bench.sizer.flush().await;
    }
    unknown
}

/// Known again, as wide as before, with every payload of this process.
async fn recovers(bench: &Bench) {
    assert_eq!(bench.healed(&push()).await, Sizing { width: 16, known: true, payloads: Some(24) });
}

/// S13, S14: a Redis that is stopped and comes back empty: the cap meanwhile, then as wide as before.
#[tokio::test]
async fn s13_s14_a_server_that_is_stopped_and_comes_back_empty() {
    let Some(mut server) = Server::start(&[]) else { return };
    let bench = known(&server).await;
    server.kill();
    assert_eq!(endures(&bench).await, 5);
    assert!(bench.sizer.counts().sizing_unavailable >= 5);
    assert!(server.run(&[]));
    recovers(&bench).await;
    let lost = bench.sizer.counts().counts_dropped;
    assert!(bench.stored(&push()).await + lost >= 4, "what waited is written");
}

/// S13: a Redis that was never there is the cap.
#[tokio::test]
async fn s13_a_server_that_was_never_there() {
    let Some(mut server) = Server::start(&[]) else { return };
    server.kill();
    let bench = Bench::new(&[server.url()]);
    bench.count(&push(), 24);
    for _ in 0..3 {
        assert_eq!(bench.width(&push()).await, Sizing { width: CAP, known: false, payloads: None });
        bench.sizer.flush().await;
        bench.second();
    }
    assert!(server.run(&[]));
    recovers(&bench).await;
    assert_eq!((bench.stored(&push()).await, bench.sizer.counts().counts_dropped), (24, 0));
}

/// S14: a Redis that is wiped narrows nothing.
#[tokio::test]
async fn s14_a_server_that_is_wiped() {
    let Some(server) = Server::start(&[]) else { return };
    let bench = known(&server).await;
    assert_eq!(server.cli(&["flushall"]), "OK");
    assert_eq!(endures(&bench).await, 0, "nothing failed");
    recovers(&bench).await;
}

#[tokio::test]
async fn s14_a_server_that_becomes_a_read_only_replica() {
    let (Some(server), Some(master)) = (Server::start(&[]), Server::start(&[])) else { return };
    let bench = known(&server).await;
    assert_eq!(server.cli(&["replicaof", "127.0.0.1", &master.port.to_string()]), "OK");
    assert!(endures(&bench).await >= 3, "once a write failed, reads are not believed");
    assert_eq!(server.cli(&["replicaof", "no", "one"]), "OK");
    recovers(&bench).await;
    assert_eq!(bench.sizer.counts().counts_dropped, 0, "refused is not lost");
}

#[tokio::test]
async fn s14_a_server_that_is_out_of_memory() {
    let Some(server) = Server::start(&["--maxmemory-policy", "noeviction"]) else { return };
    let bench = known(&server).await;
    assert_eq!(server.cli(&["config", "set", "maxmemory", "1"]), "OK");
    assert!(endures(&bench).await >= 3, "once a write failed, reads are not believed");
    assert_eq!(server.cli(&["config", "set", "maxmemory", "0"]), "OK");
    recovers(&bench).await;
    assert_eq!((bench.stored(&push()).await, bench.sizer.counts().counts_dropped), (24, 0));
}

#[tokio::test]
async fn s13_a_server_that_is_loading() {
    let Some(mut server) = Server::start(&[]) else { return };
    let bench = known(&server).await;
    server.restart_loading();
    assert_eq!(endures(&bench).await, 5);
    assert!(server.is_loading(), "it should have been loading all the time");
    server.load_fast();
    recovers(&bench).await;
    assert!(bench.stored(&push()).await + bench.sizer.counts().counts_dropped >= 24);
}

/// Seconds of real time: connections time out, new ones are accepted by the kernel and stall as well.
#[tokio::test]
async fn s13_s14_a_server_that_stalls_for_five_seconds() {
    let Some(server) = Server::start(&[]) else { return };
    let bench = known(&server).await;
    server.signal("STOP");
    let mut unknown = 0;
    for _ in 0..5 {
        bench.second();
        let sizing = bench.width(&push()).await;
        assert!(sizing.width >= 16, "{sizing:?}");
        unknown += usize::from(!sizing.known);
        bench.sizer.flush().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    bench.count(&push(), 4);
    assert_eq!(unknown, 5);
    server.signal("CONT");
    recovers(&bench).await;
    assert_eq!(bench.stored(&push()).await, 24, "nothing twice");
}

/// What was sent into the stall may be applied later: once at most.
#[tokio::test]
async fn s14_a_stall_counts_nothing_twice() {
    let Some(server) = Server::start(&[]) else { return };
    let bench = known(&server).await;
    server.signal("STOP");
    assert!(endures(&bench).await >= 4);
    server.signal("CONT");
    recovers(&bench).await;
    let (stored, dropped) = (bench.stored(&push()).await, bench.sizer.counts().counts_dropped);
    assert!((24 - dropped..=24).contains(&stored), "{stored} stored, {dropped} dropped");
}

#[tokio::test]
async fn s13_keys_that_hold_something_else() {
    let Some(server) = Server::start(&[]) else { return };
    let other = Counter::new("github", &["4321", "check_run"]);
    for put in [["rpush", "x"], ["set", "many"], ["set", "-5"], ["sadd", "y"]] {
        let bench = known(&server).await;
        bench.count(&other, 3);
        let shard = key(&push(), SHARD);
        server.cli(&["del", &shard]);
        server.cli(&[put[0], &shard, put[1]]);
        assert_eq!(endures(&bench).await, 5, "{put:?}");
        assert!(bench.width(&other).await.known, "{put:?}: the other counter is sound");
        server.cli(&["del", &shard]);
        recovers(&bench).await;
        server.cli(&["flushall"]);
    }
}

#[tokio::test]
async fn an_unreadable_width_costs_only_the_hysteresis() {
    let Some(server) = Server::start(&[]) else { return };
    let bench = known(&server).await;
    for put in [["rpush", "x"], ["set", "wide"], ["set", "4294967296/1"]] {
        let held = key(&push(), "width");
        server.cli(&["del", &held]);
        server.cli(&[put[0], &held, put[1]]);
        assert_eq!(bench.healed(&push()).await.width, 16);
        assert!(bench.sizer.flush().await);
        assert_eq!(server.cli(&["get", &held]), "16/1", "{put:?} is replaced");
    }
}
