//! What every store of leases promises, on each adapter; and what Redis promises beyond that.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mailrail_limits::{Error, Exchange, LeaseStore, LocalLeases, RedisLeases, Token};

use super::{recipient, until};
use crate::bench::PREFIX;
use crate::servers::{Cluster, Server, shared};

const TERM: Duration = Duration::from_secs(60);

fn token(process: u64, number: u64) -> Token {
    Token { process, number }
}

fn tokens(process: u64, numbers: std::ops::Range<u64>) -> Vec<Token> {
    numbers.map(|number| token(process, number)).collect()
}

/// A process with nothing asks for nothing.
fn nothing(process: u64, limit: u32) -> Exchange {
    let (give, renew, take) = (Vec::new(), Vec::new(), Vec::new());
    Exchange { limit, share: limit, term: TERM, queue_for: TERM, process, held: 0, give, renew, take }
}

async fn takes(store: &dyn LeaseStore, name: &str, limit: u32, take: Vec<Token>) -> u32 {
    let process = take[0].process;
    let exchange = Exchange { take, ..nothing(process, limit) };
    store.exchange(&recipient(name), &exchange).await.expect("exchanged").granted
}

async fn gives(store: &dyn LeaseStore, name: &str, limit: u32, give: Vec<Token>) {
    let process = give[0].process;
    store.exchange(&recipient(name), &Exchange { give, ..nothing(process, limit) }).await.expect("exchanged");
}

async fn keeps_the_contract(store: Arc<dyn LeaseStore>, run: &str) {
    let (store, named) = (&*store, |name: &str| format!("{run}-{name}"));
    never_above_the_limit(store, &named("limit")).await;
    late_and_double_releases_free_nobody_elses(store, &named("double")).await;
    asked_twice_is_asked_once(store, &named("twice")).await;
    renewals_register_what_is_not_there(store, &named("renew")).await;
    leases_expire(store, &named("expire")).await;
    a_limit_that_was_lowered_is_waited_for(store, &named("lowered")).await;
    many_at_a_time(store, &named("many")).await;
}

async fn never_above_the_limit(store: &dyn LeaseStore, name: &str) {
    assert_eq!(takes(store, name, 3, tokens(1, 0..2)).await, 2);
    assert_eq!(takes(store, name, 3, tokens(2, 0..2)).await, 1, "the first of those that were asked for");
    assert_eq!(takes(store, name, 3, tokens(3, 0..1)).await, 0);
    gives(store, name, 3, vec![token(2, 1)]).await;
    assert_eq!(takes(store, name, 3, tokens(4, 0..1)).await, 0, "that one was never given");
    gives(store, name, 3, vec![token(2, 0)]).await;
    assert_eq!(takes(store, name, 3, tokens(3, 0..1)).await, 1, "it waited first");
}

async fn late_and_double_releases_free_nobody_elses(store: &dyn LeaseStore, name: &str) {
    assert_eq!(takes(store, name, 1, tokens(1, 0..1)).await, 1);
    gives(store, name, 1, vec![token(1, 0)]).await;
    assert_eq!(takes(store, name, 1, tokens(2, 0..1)).await, 1);
    gives(store, name, 1, vec![token(1, 0), token(1, 0)]).await;
    assert_eq!(takes(store, name, 1, tokens(3, 0..1)).await, 0, "the second one's is not free");
}

async fn asked_twice_is_asked_once(store: &dyn LeaseStore, name: &str) {
    for _ in 0..3 {
        assert_eq!(takes(store, name, 2, tokens(1, 0..2)).await, 2, "the answer before did not arrive");
    }
    gives(store, name, 2, tokens(1, 0..2)).await;
    assert_eq!(takes(store, name, 2, tokens(2, 0..2)).await, 2);
}

async fn renewals_register_what_is_not_there(store: &dyn LeaseStore, name: &str) {
    assert_eq!(takes(store, name, 2, tokens(1, 0..1)).await, 1);
    let exchange = Exchange { renew: tokens(1, 0..4), held: 4, ..nothing(1, 2) };
    let exchanged = store.exchange(&recipient(name), &exchange).await.expect("exchanged");
    assert_eq!(exchanged.unknown, 3, "in use, whatever the limit is");
    let exchanged = store.exchange(&recipient(name), &exchange).await.expect("exchanged");
    assert_eq!(exchanged.unknown, 0);
    gives(store, name, 2, tokens(1, 0..2)).await;
    assert_eq!(takes(store, name, 2, tokens(2, 0..1)).await, 0, "still at the limit");
    gives(store, name, 2, tokens(1, 2..3)).await;
    assert_eq!(takes(store, name, 2, tokens(2, 0..2)).await, 1);
}

async fn leases_expire(store: &dyn LeaseStore, name: &str) {
    let term = Duration::from_millis(50);
    let exchange = Exchange { take: tokens(1, 0..2), term, ..nothing(1, 2) };
    assert_eq!(store.exchange(&recipient(name), &exchange).await.expect("exchanged").granted, 2);
    for number in 0.. {
        if takes(store, name, 2, tokens(2, number..number + 1)).await == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gives(store, name, 2, tokens(1, 0..2)).await;
    assert!(takes(store, name, 2, tokens(3, 0..2)).await <= 1, "a release after the expiry frees nothing");
}

async fn a_limit_that_was_lowered_is_waited_for(store: &dyn LeaseStore, name: &str) {
    assert_eq!(takes(store, name, 5, tokens(1, 0..5)).await, 5);
    assert_eq!(takes(store, name, 2, tokens(1, 5..6)).await, 0);
    gives(store, name, 2, tokens(1, 0..3)).await;
    assert_eq!(takes(store, name, 2, tokens(1, 5..6)).await, 0);
    gives(store, name, 2, tokens(1, 3..4)).await;
    assert_eq!(takes(store, name, 2, tokens(1, 5..7)).await, 1);
}

async fn many_at_a_time(store: &dyn LeaseStore, name: &str) {
    // Of one process: others that wait would have their place in the queue.
    let granted = join_all((0..50).map(|n| takes(store, name, 77, tokens(1, n * 2..n * 2 + 2)))).await;
    assert_eq!(granted.iter().sum::<u32>(), 77);
}

/// A name that no other run on a shared server has.
fn run() -> String {
    let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |it| it.as_nanos());
    format!("run-{}-{nanos}", std::process::id())
}

fn redis(urls: &[String]) -> Arc<RedisLeases> {
    Arc::new(RedisLeases::new(urls, PREFIX).expect("urls"))
}

/// A39, A40: one limit for all processes; leases expire, and a double, late or foreign release frees nobody else's.
#[tokio::test]
async fn a24_the_local_adapter_keeps_the_contract() {
    keeps_the_contract(Arc::new(LocalLeases::new()), "local").await;
}

/// A39, A40: the same of Redis.
#[tokio::test]
async fn a24_the_redis_adapter_keeps_the_contract() {
    let Some(url) = shared() else { return };
    keeps_the_contract(redis(&[url]), &run()).await;
}

#[tokio::test]
async fn a24_the_redis_adapter_keeps_the_contract_on_a_cluster() {
    let Some(cluster) = Cluster::start() else { return };
    keeps_the_contract(redis(&cluster.urls()), "cluster").await;
}

/// Who waits first gets the next one; while others wait nobody takes more than its part.
#[tokio::test]
async fn a24_processes_that_wait_take_turns() {
    let Some(server) = Server::start(&[]) else { return };
    let store = redis(&[server.url()]);
    assert_eq!(takes(&*store, "turns", 1, tokens(1, 0..1)).await, 1);
    assert_eq!(takes(&*store, "turns", 1, tokens(2, 0..1)).await, 0);
    assert_eq!(takes(&*store, "turns", 1, tokens(3, 0..1)).await, 0);
    let again = Exchange { give: tokens(1, 0..1), take: tokens(1, 1..2), ..nothing(1, 1) };
    let granted = store.exchange(&recipient("turns"), &again).await.expect("exchanged").granted;
    assert_eq!(granted, 0, "given back and asked for again: two wait for longer");
    assert_eq!(takes(&*store, "turns", 1, tokens(3, 0..1)).await, 0, "second in the queue");
    assert_eq!(takes(&*store, "turns", 1, tokens(2, 0..1)).await, 1, "first in the queue");
    gives(&*store, "turns", 1, tokens(2, 0..1)).await;
    assert_eq!(takes(&*store, "turns", 1, tokens(3, 0..1)).await, 1);
    // A process that waited and is gone holds nobody up for long.
    assert_eq!(takes(&*store, "turns", 1, tokens(4, 0..1)).await, 0);
    gives(&*store, "turns", 1, tokens(3, 0..1)).await;
    let soon = Duration::from_millis(50);
    for number in 0.. {
        let exchange = Exchange { take: vec![token(5, number)], queue_for: soon, ..nothing(5, 1) };
        if store.exchange(&recipient("turns"), &exchange).await.expect("exchanged").granted == 1 {
            break;
        }
        tokio::time::sleep(soon).await;
    }
}

/// Each key expires: leases an hour after the last of them, the queue with the last that waits, processes after their last
/// sign of life.
#[tokio::test]
async fn a24_every_key_expires_and_has_its_tag() {
    let Some(server) = Server::start(&[]) else { return };
    let store = redis(&[server.url()]);
    takes(&*store, "keys", 1, tokens(1, 0..1)).await;
    let queue_for = Duration::from_secs(2);
    let waits = Exchange { take: tokens(2, 0..1), queue_for, ..nothing(2, 1) };
    assert_eq!(store.exchange(&recipient("keys"), &waits).await.expect("exchanged").granted, 0);
    assert_eq!(store.beat(1, TERM).await, Ok(1));
    assert_eq!(store.beat(2, TERM).await, Ok(2));
    assert_eq!(store.beat(1, TERM).await, Ok(2), "once each");
    store.leave(2).await.expect("left");
    assert_eq!(store.beat(1, TERM).await, Ok(1));
    let mut keys: Vec<String> = server.cli(&["keys", "*"]).lines().map(str::to_owned).collect();
    keys.sort();
    let key = format!("{PREFIX}lease:{{endpoint:acme:keys}}");
    let processes = format!("{PREFIX}lease-processes");
    let expected = [processes.clone(), key.clone(), format!("{key}:queue")];
    assert!(keys.iter().all(|key| expected.contains(key)) && keys.len() >= 2, "{keys:?}");
    let ttl = |key: &str| server.cli(&["pttl", key]).parse::<i64>().expect("ms");
    assert!((1..=3_600_000).contains(&ttl(&key)) && (1..=60_000).contains(&ttl(&processes)));
    until("the queue expires", || ttl(&format!("{key}:queue")) == -2).await;
}

/// While the store has not known a recipient for a term, each process has its share of it and no more.
#[tokio::test]
async fn a24_a_recipient_that_was_forgotten_is_begun_by_shares() {
    let Some(server) = Server::start(&[]) else { return };
    let store = redis(&[server.url()]);
    let ask = |number: u64, held: u32, take: std::ops::Range<u64>, term: Duration| {
        let (store, renew) = (store.clone(), tokens(number, 0..u64::from(held)));
        let take = tokens(number, take);
        async move {
            let exchange = Exchange { share: 2, held, term, renew, take, ..nothing(number, 8) };
            store.exchange(&recipient("young"), &exchange).await.expect("exchanged")
        }
    };
    let first = ask(1, 0, 0..8, TERM).await;
    assert_eq!((first.granted, first.young), (2, true));
    let mut held = 2;
    loop {
        let next = ask(1, held, u64::from(held)..8, Duration::from_millis(300)).await;
        held += next.granted;
        if !next.young {
            assert_eq!(held, 8, "all, once it is known that there are no others");
            break;
        }
        assert_eq!(held, 2);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.cli(&["flushall"]), "OK");
    assert_eq!(ask(2, 0, 0..8, TERM).await.granted, 2, "of what was forgotten");
    let back = ask(1, 8, 8..9, TERM).await;
    assert_eq!((back.unknown, back.granted, back.young), (8, 0, true), "what is in use is said again");
    assert_eq!(ask(2, 2, 2..3, TERM).await.granted, 0, "ten are out");
}

#[tokio::test]
async fn a24_keys_that_hold_something_else_are_an_error() {
    let Some(server) = Server::start(&[]) else { return };
    let store = redis(&[server.url()]);
    server.cli(&["set", &format!("{PREFIX}lease:{{endpoint:acme:other}}"), "x"]);
    let exchange = Exchange { take: tokens(1, 0..1), ..nothing(1, 1) };
    let error = store.exchange(&recipient("other"), &exchange).await.expect_err("a string");
    assert_eq!(error, Error::Refused("WRONGTYPE".to_owned()));
}

/// A37: over all processes, and whoever is refused is given a moment of its own.
#[tokio::test]
async fn a37_a_rate_is_taken_from_by_all_and_who_waits_comes_back_spread() {
    let Some(server) = Server::start(&[]) else { return };
    let stores = [redis(&[server.url()]), redis(&[server.url()])];
    let began = std::time::Instant::now();
    let (mut taken, mut waits) = (0, Vec::new());
    for number in 0..100 {
        let wait = stores[number % 2].take_rate(&recipient("rate"), 20).await.expect("taken");
        if wait.is_zero() { taken += 1 } else { waits.push(began.elapsed() + wait) }
    }
    let most = 20 + began.elapsed().as_millis() / 50 + 1;
    assert!((20..=most).contains(&taken), "a second's worth at once, and what came since: {taken} of {most}");
    let apart = Duration::from_millis(45);
    assert!(waits.windows(2).all(|pair| pair[1] >= pair[0] + apart), "each its own: {waits:?}");
    let ttl: i64 =
        server.cli(&["pttl", &format!("{PREFIX}rate:{{endpoint:acme:rate}}")]).parse().expect("ms");
    assert!((1..=62_000).contains(&ttl), "{ttl}");
}
