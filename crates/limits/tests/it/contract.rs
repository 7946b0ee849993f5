//! What every store of windows promises, on each adapter; and what Redis promises beyond that.

use std::sync::Arc;

use futures::future::join_all;
use mailrail_limits::{Counter, Error, HeldWidth, LocalWindows, RedisWindows, Stored, Windows, Write};
use mailrail_policy::{COUNTER_TTL, shard_start};
use mailrail_types::Timestamp;

use crate::bench::{Bench, PREFIX, SHARD, key, push};
use crate::servers::{Cluster, Server, shared};

fn count(counter: &Counter, shard: i64, count: u64) -> Write {
    Write::Count { counter: counter.clone(), shard, count }
}

fn width(counter: &Counter, width: u32) -> Write {
    Write::Width { counter: counter.clone(), held: HeldWidth { width, unit: 16 } }
}

fn now() -> Timestamp {
    shard_start(SHARD)
}

async fn write(windows: &dyn Windows, writes: &[Write]) {
    let results = windows.write(writes, now()).await;
    assert_eq!(results, vec![Ok(()); writes.len()], "{writes:?}");
}

async fn read(windows: &dyn Windows, counter: &Counter) -> Stored {
    windows.read(counter, SHARD).await.expect("read")
}

/// Every clause, under names of its own, so that one store serves all.
async fn keeps_the_contract(windows: Arc<dyn Windows>, run: &str) {
    let named = |name: &str| Counter::new(run, &[name]);
    let windows = &*windows;
    unknown_is_nothing(windows, &named("unknown")).await;
    counts_add_up_by_shard(windows, &named("shards")).await;
    counters_and_widths_are_apart(windows, &named("one"), &named("two")).await;
    hostile_names_are_names(windows, run).await;
    concurrent_writers_lose_nothing(windows, &named("concurrent")).await;
    long_batches_are_applied(windows, run).await;
}

async fn unknown_is_nothing(windows: &dyn Windows, counter: &Counter) {
    assert_eq!(read(windows, counter).await, Stored::default());
    assert_eq!(windows.write(&[], now()).await, vec![]);
}

async fn counts_add_up_by_shard(windows: &dyn Windows, counter: &Counter) {
    let writes: Vec<Write> =
        (0i64..).zip([5u64, 4, 3, 2, 1, 6]).map(|(back, n)| count(counter, SHARD - back, n)).collect();
    write(windows, &writes).await;
    assert_eq!(read(windows, counter).await.shards, [5, 4, 3, 2, 1, 6], "the current one first");
    write(windows, &[count(counter, SHARD, 10), count(counter, SHARD, 1), count(counter, SHARD - 4, 7)])
        .await;
    assert_eq!(read(windows, counter).await.shards, [16, 4, 3, 2, 8, 6]);
    write(windows, &[count(counter, SHARD - 6, 9)]).await;
    assert_eq!(read(windows, counter).await.shards[0], 16, "what is too old replaces nothing");
    let later = windows.read(counter, SHARD + 2).await.expect("read");
    assert_eq!(later.shards, [0, 0, 16, 4, 3, 2], "two shards later");
    assert_eq!(windows.read(counter, SHARD + 6).await.expect("read").shards, [0; 6]);
}

async fn counters_and_widths_are_apart(windows: &dyn Windows, one: &Counter, two: &Counter) {
    write(windows, &[width(one, 8), count(two, SHARD, 3)]).await;
    let (first, second) = (read(windows, one).await, read(windows, two).await);
    assert_eq!((first.shards[0], second.shards[0]), (0, 3));
    assert_eq!((first.width, second.width), (Some(HeldWidth { width: 8, unit: 16 }), None));
    write(windows, &[width(one, 4)]).await;
    assert_eq!(read(windows, one).await.width, Some(HeldWidth { width: 4, unit: 16 }), "the last one counts");
}

async fn hostile_names_are_names(windows: &dyn Windows, run: &str) {
    let parts = ["", "{", "}", "{}", "{a}b", "a:b", "%", "*", "a b", "\r\nFLUSHALL\r\n", "é", "\0"];
    let counters: Vec<Counter> = parts.iter().map(|it| Counter::new(run, &["hostile", it])).collect();
    for (n, counter) in (1..).zip(&counters) {
        write(windows, &[count(counter, SHARD, n)]).await;
    }
    for (n, counter) in (1..).zip(&counters) {
        assert_eq!(read(windows, counter).await.shards[0], n, "{counter:?}");
    }
}

async fn concurrent_writers_lose_nothing(windows: &dyn Windows, counter: &Counter) {
    let one = [count(counter, SHARD, 1), count(counter, SHARD - 1, 2)];
    join_all((0..100).map(|_| write(windows, &one))).await;
    assert_eq!(read(windows, counter).await.shards[..2], [100, 200]);
}

async fn long_batches_are_applied(windows: &dyn Windows, run: &str) {
    let counters: Vec<Counter> = (0..1_000).map(|n| Counter::new(run, &["batch", &n.to_string()])).collect();
    let writes: Vec<Write> = (1..).zip(&counters).map(|(n, it)| count(it, SHARD, n)).collect();
    write(windows, &writes).await;
    for (n, counter) in (1..).zip(&counters) {
        assert_eq!(read(windows, counter).await.shards[0], n);
    }
}

/// A name that no other run on a shared server has.
fn run() -> String {
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |it| it.as_nanos());
    format!("run-{}-{nanos}", std::process::id())
}

fn redis(urls: &[String]) -> Arc<RedisWindows> {
    Arc::new(RedisWindows::new(urls, PREFIX).expect("urls"))
}

#[tokio::test]
async fn the_local_adapter_keeps_the_contract() {
    keeps_the_contract(Arc::new(LocalWindows::new()), "local").await;
}

#[tokio::test]
async fn the_redis_adapter_keeps_the_contract() {
    let Some(url) = shared() else { return };
    keeps_the_contract(redis(&[url]), &run()).await;
}

#[tokio::test]
async fn the_redis_adapter_keeps_the_contract_on_a_cluster() {
    let Some(cluster) = Cluster::start() else { return };
    keeps_the_contract(redis(&cluster.urls()), "cluster").await;
    let entry = format!("redis-cluster://127.0.0.1:{}", cluster.nodes[0].port);
    keeps_the_contract(redis(&[entry]), "entry-point").await;
}

#[tokio::test]
async fn local_counters_are_bounded() {
    let windows = LocalWindows::with_room_for(3);
    let named = |n: u64| Counter::new("n", &[&n.to_string()]);
    for n in 0..10 {
        write(&windows, &[count(&named(n), SHARD, n)]).await;
        read(&windows, &named(0)).await;
    }
    assert_eq!(windows.len(), 3);
    assert_eq!(read(&windows, &named(9)).await.shards[0], 9, "the last one is there");
    assert_eq!(read(&windows, &named(1)).await.shards[0], 0, "the oldest is gone");
}

/// S07, S25: every key that sizing leaves behind expires, the counters in (900, 1080] s, and there is none of another kind.
#[tokio::test]
async fn s07_s25_every_key_expires() {
    let Some(server) = Server::start(&[]) else { return };
    let bench = Bench::new(&[server.url()]);
    bench.count(&push(), 40);
    assert!(bench.width(&push()).await.known);
    assert!(bench.sizer.flush().await);
    bench.second();
    bench.count(&push(), 1);
    assert!(bench.sizer.flush().await);
    let mut keys: Vec<String> = server.cli(&["keys", "*"]).lines().map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys, [key(&push(), SHARD), key(&push(), "width")]);
    for key in &keys {
        let ttl: u64 = server.cli(&["ttl", key]).parse().expect("seconds");
        assert!(ttl > 900 && ttl <= 1_080, "{key}: {ttl} s");
    }
    assert_eq!(server.cli(&["get", &keys[0]]), "41");
    assert_eq!(server.cli(&["get", &keys[1]]), "32/1");
}

/// S07: a count that could only be written after its shard does not make the key live longer.
#[tokio::test]
async fn s07_a_late_count_does_not_outlive_its_window() {
    let Some(server) = Server::start(&[]) else { return };
    let windows = redis(&[server.url()]);
    let late = shard_start(SHARD + 1).plus(std::time::Duration::from_mins(9));
    assert_eq!(windows.write(&[count(&push(), SHARD, 1)], late).await, [Ok(())]);
    let ttl: u64 = server.cli(&["ttl", &key(&push(), SHARD)]).parse().expect("seconds");
    let most = COUNTER_TTL.as_secs() - 9 * 60;
    assert!(ttl > 0 && ttl <= most, "{ttl} s, at most {most}");
}

#[tokio::test]
async fn one_refused_write_leaves_the_others() {
    let Some(server) = Server::start(&[]) else { return };
    let windows = redis(&[server.url()]);
    let other = Counter::new("other", &[]);
    server.cli(&["rpush", &key(&push(), SHARD), "x"]);
    let results =
        windows.write(&[count(&other, SHARD, 1), count(&push(), SHARD, 1), width(&push(), 2)], now()).await;
    assert!(matches!(&results[..], [Ok(()), Err(Error::Refused(_)), Ok(())]), "{results:?}");
    assert!(matches!(windows.read(&push(), SHARD).await, Err(Error::Refused(_))));
    assert_eq!(read(&*windows, &other).await.shards[0], 1);
}
