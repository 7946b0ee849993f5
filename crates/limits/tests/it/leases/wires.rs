//! What goes wrong on the way to a real Redis, and in it: late answers, another server behind the address, forgotten scripts, a
//! clock that is set back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mailrail_limits::{Admission, Exchange, LeaseStore, Leases, RedisLeases, Terms, Token};
use mailrail_policy::{Rate, RateUse};
use mailrail_telemetry::ReasonLabels;
use mailrail_types::Timestamp;

use super::proxy::Proxy;
use super::{Client, patient, recipient, until};
use crate::bench::PREFIX;
use crate::servers::{PATIENCE, Server};

fn store(url: String) -> RedisLeases {
    RedisLeases::new(&[url], PREFIX).expect("urls")
}

/// Whoever wants one lease of one.
fn wants(process: u64, number: u64) -> Exchange {
    Exchange {
        limit: 1,
        share: 1,
        term: Duration::from_millis(200),
        queue_for: Duration::from_millis(500),
        process,
        held: 0,
        give: Vec::new(),
        renew: Vec::new(),
        take: vec![Token { process, number }],
    }
}

/// Sends as much as it may of 20 a second, until `stop`.
async fn send(leases: Leases, rate: u32, sent: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    let mut own = RateUse::default();
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match leases.admit(&recipient("rate"), rate).await {
            Admission::Go => {
                sent.fetch_add(1, Ordering::SeqCst);
            }
            // As deliver counts for itself.
            Admission::Share(share) => {
                let now = Timestamp(i64::try_from(began.elapsed().as_millis()).expect("short"));
                match own.take(Rate::per_second(share), now) {
                    Ok(()) => {
                        sent.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(until) => tokio::time::sleep(until.since(now)).await,
                }
            }
            Admission::Wait(wait) => tokio::time::sleep(wait).await,
        }
    }
}

/// One process whose Redis is slow, beside one that takes all that it gets: together no more than the rate, and both go on.
#[tokio::test(flavor = "multi_thread")]
async fn a37_a_slow_redis_lets_no_more_go_than_the_rate() {
    const RATE: u32 = 20;
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.port).await;
    // Nothing is away, however busy the machine is.
    let terms = Terms { ask_budget: Duration::from_millis(50), ..patient() };
    let (fast, slow) = (Client::start(&[server.url()], "", terms), Client::start(&[proxy.url()], "", terms));
    until("both are known", || [&fast, &slow].iter().all(|it| it.metrics.processes.get() == 2)).await;
    proxy.delay(Duration::from_millis(120));
    let (stop, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let sent = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let sending: Vec<_> = [&slow, &fast, &fast, &fast, &fast, &fast, &fast, &fast, &fast]
        .iter()
        .enumerate()
        .map(|(at, client)| {
            tokio::spawn(send(client.leases.clone(), RATE, sent[at.min(1)].clone(), stop.clone()))
        })
        .collect();
    until("it goes on for a while", || began.elapsed() >= Duration::from_secs(5)).await;
    until("both go on", || sent.iter().all(|sent| sent.load(Ordering::SeqCst) >= 5)).await;
    stop.store(true, Ordering::Relaxed);
    for sending in sending {
        sending.await.expect("it ends");
    }
    let (all, within) = (sent.iter().map(|sent| sent.load(Ordering::SeqCst)).sum::<u64>(), began.elapsed());
    // A second's worth may come at once.
    let most = f64::from(RATE) * (within.as_secs_f64() + 1.0) + 1.0;
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let is_within = all as f64 <= most;
    assert!(is_within, "{all} within {within:?}: {most} at most");
    let timeouts = slow.metrics.failures.get_or_create(&ReasonLabels { reason: "timeout" }).get();
    assert_eq!(timeouts, 0, "it was slow, and not away");
}

/// Whoever gave up takes its answer with it: the next question gets its own.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_late_is_nobody_elses() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.port).await;
    let store = store(proxy.url());
    for process in 0..40 {
        let alive = store.beat(process, Duration::from_mins(1)).await.expect("counted");
        assert_eq!(u64::from(alive), process + 1);
    }
    for round in 0..4 {
        // It would answer 40, and does before the next one: answers keep their order.
        proxy.delay(Duration::from_secs(1));
        let given_up =
            tokio::time::timeout(Duration::from_millis(20), store.beat(1, Duration::from_mins(1))).await;
        assert!(given_up.is_err());
        proxy.delay(Duration::ZERO);
        let wait = store.take_rate(&recipient(&format!("of-{round}")), 1).await.expect("taken");
        assert_eq!(wait, Duration::ZERO, "not the answer to the question before");
        let taken =
            store.exchange(&recipient(&format!("to-{round}")), &wants(1, round)).await.expect("taken");
        assert_eq!((taken.granted, taken.unknown), (1, 0));
    }
    assert_eq!(proxy.connections(), 1, "one that is slow now and then is kept");
}

/// Connections that do not answer are let go and made again, as often as it takes: there is always one left.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_let_go_use_nothing_up() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.port).await;
    let store = store(proxy.url());
    store.beat(1, Duration::from_mins(1)).await.expect("counted");
    for _ in 0..8 {
        proxy.delay(Duration::from_secs(60));
        let before = proxy.connections();
        for _ in 0..3 {
            let ask = store.beat(1, Duration::from_mins(1));
            assert!(tokio::time::timeout(Duration::from_millis(20), ask).await.is_err());
        }
        proxy.delay(Duration::ZERO);
        assert_eq!(store.beat(1, Duration::from_mins(1)).await.expect("counted"), 1);
        assert_eq!(proxy.connections(), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_the_server_forgot_run_all_the_same() {
    let Some(server) = Server::start(&[]) else { return };
    let store = store(server.url());
    for number in 0..3 {
        assert_eq!(server.cli(&["script", "flush"]), "OK");
        let taken = store.exchange(&recipient(&format!("e-{number}")), &wants(1, number)).await;
        assert_eq!(taken.expect("taken").granted, 1);
        assert_eq!(server.cli(&["script", "flush"]), "OK");
        assert_eq!(store.take_rate(&recipient(&format!("e-{number}")), 1).await, Ok(Duration::ZERO));
    }
}

/// The connection stays open when its server becomes a replica; the address leads to the new master by then.
#[tokio::test(flavor = "multi_thread")]
async fn a24_after_a_failover_the_new_master_is_found() {
    let (Some(old), Some(new)) = (Server::start(&[]), Server::start(&[])) else { return };
    let proxy = Proxy::start(old.port).await;
    let store = store(proxy.url());
    store.beat(1, Duration::from_mins(1)).await.expect("counted");
    proxy.leads_to(new.port);
    assert_eq!(old.cli(&["replicaof", "127.0.0.1", &new.port.to_string()]), "OK");
    let began = Instant::now();
    while store.beat(1, Duration::from_mins(1)).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "it asks the old one for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(new.cli(&["zcard", &format!("{PREFIX}lease-processes")]), "1");
}

/// Asks until it is let go; says how long the longest wait was.
async fn until_it_goes(mut ask: impl AsyncFnMut() -> Option<Duration>) -> Duration {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while let Some(wait) = ask().await {
        assert!(began.elapsed() < PATIENCE, "it waits for the clock");
        longest = longest.max(wait);
        tokio::time::sleep(wait.min(Duration::from_millis(50))).await;
    }
    longest
}

/// What is in the store is of a clock that was an hour ahead: nothing waits for that hour.
#[tokio::test(flavor = "multi_thread")]
async fn a24_a_clock_that_is_set_back_stops_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    let store = store(server.url());
    let seconds: u64 = server.cli(&["time"]).lines().next().expect("a time").parse().expect("a number");
    let (ahead_ms, ahead_us) = ((seconds + 3_600) * 1_000, (seconds + 3_600) * 1_000_000);
    let key = |kind: &str| format!("{PREFIX}{kind}:{{endpoint:acme:e}}");
    let [ms, us] = [ahead_ms, ahead_us].map(|it| it.to_string());
    server.cli(&["hset", &key("rate"), "next", &us, "given", &us]);
    server.cli(&[
        "zadd",
        &key("lease"),
        &ms,
        "00000000000000ff-1",
        &format!("{}", 1_000_000_000_000_000 + ahead_ms),
        "known",
    ]);
    server.cli(&["hset", &format!("{}:queue", key("lease")), "00000000000000ff", &format!("{us} {ms}")]);
    server.cli(&["hset", &format!("{}:queue", key("lease")), "00000000000000fe", &format!("1 {ms}")]);
    server.cli(&["zadd", &format!("{PREFIX}lease-processes"), &ms, "00000000000000ff"]);

    let wait = until_it_goes(async || {
        let wait = store.take_rate(&recipient("e"), 10).await.expect("an answer");
        (!wait.is_zero()).then_some(wait)
    });
    let wait = wait.await;
    assert!(wait <= Duration::from_secs(2), "{wait:?}");
    let mut number = 0;
    until_it_goes(async || {
        number += 1;
        let taken = store.exchange(&recipient("e"), &wants(1, number)).await.expect("an answer");
        (taken.granted == 0).then_some(Duration::from_millis(50))
    })
    .await;
    let is_young = async || {
        number += 1;
        let taken = store.exchange(&recipient("e"), &wants(1, number)).await.expect("an answer");
        taken.young.then_some(Duration::from_millis(50))
    };
    until_it_goes(is_young).await;
    assert_eq!(store.beat(1, Duration::from_secs(15)).await, Ok(1), "the other one is long gone");
}
