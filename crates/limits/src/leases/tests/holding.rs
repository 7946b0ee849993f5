//! With a store that answers.

use super::*;

/// A24, A40: a lease comes back on success, panic and cancellation.
#[tokio::test(start_paused = true)]
async fn a24_leases_come_back_on_success_panic_and_cancellation() {
    let store = Scripted::of(2);
    let process = Process::settled(&store).await;
    for _ in 0..3 {
        drop(process.take(1).await.expect("free"));
    }
    let leases = process.leases.clone();
    let panicked = tokio::spawn(async move {
        let _lease = leases.take(&endpoint(), 1).await.expect("free");
        panic!("in the middle of an attempt");
    });
    assert!(panicked.await.is_err());
    let leases = process.leases.clone();
    let (held, is_held) = oneshot::channel();
    let cancelled = tokio::spawn(async move {
        let _lease = leases.take(&endpoint(), 1).await.expect("free");
        let _ = held.send(());
        std::future::pending::<()>().await;
    });
    is_held.await.expect("held");
    assert!(process.take(1).await.is_none());
    cancelled.abort();
    assert!(cancelled.await.is_err());
    drop(process.take(1).await.expect("free"));
    a_while().await;
    let other = Process::settled(&store).await;
    assert!(other.take(1).await.is_some(), "given back, and not only kept");
}

/// A delivery that goes away while it asks leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a24_who_goes_away_while_it_asks_leaves_its_lease_free() {
    let store = Scripted::of(1);
    let process = Process::settled(&store).await;
    store.set(Mode::Late(Duration::from_millis(20)));
    let leases = process.leases.clone();
    let asking = tokio::spawn(async move { leases.take(&endpoint(), 1).await.map(|_| ()) });
    sleep(Duration::from_millis(10)).await;
    asking.abort();
    assert!(asking.await.is_err());
    sleep(Duration::from_millis(20)).await;
    assert!(process.take(1).await.is_some());
}

/// Nobody waits longer than the budget; what comes later is kept for who is woken.
#[tokio::test(start_paused = true)]
async fn a24_a_late_answer_wakes_who_was_held() {
    let store = Scripted::of(1);
    let process = Process::settled(&store).await;
    store.set(Mode::Late(Duration::from_millis(300)));
    let began = Instant::now();
    assert!(process.take(2).await.is_none());
    assert!(began.elapsed() <= Duration::from_millis(51), "{:?}", began.elapsed());
    assert!(process.leases.try_take(&endpoint(), 2).is_err(), "nothing is there yet");
    sleep(Duration::from_millis(300)).await;
    assert!(process.freed.load(Ordering::Relaxed) >= 1);
    assert!(process.leases.try_take(&endpoint(), 2).is_ok());
    assert_eq!(process.metrics.on_share.get(), 0, "slow is not away");
}

/// A40: as long as it is in use a lease is nobody else's, however long that is.
#[tokio::test(start_paused = true)]
async fn a24_a_lease_is_renewed_as_long_as_it_is_in_use() {
    let store = Scripted::of(2);
    let (one, other) = (Process::settled(&store).await, Process::settled(&store).await);
    let lease = one.take(1).await.expect("free");
    for _ in 0..100 {
        sleep(Duration::from_secs(3)).await;
        assert!(other.take(1).await.is_none());
    }
    assert_eq!(one.metrics.leases_lost.get(), 0);
    drop(lease);
    a_while().await;
    assert!(other.take(1).await.is_some());
}

/// A40: one that stands still loses its leases, and its late release and renewal take nobody's away.
#[tokio::test(start_paused = true)]
async fn a24_a_process_that_was_killed_frees_its_leases_by_their_expiry() {
    let store = Scripted::of(2);
    let (one, other) = (Process::settled(&store).await, Process::settled(&store).await);
    let mut leases = one.take_all(50).await;
    assert_eq!(leases.len(), 50);
    one.run.abort();
    sleep(Duration::from_secs(9)).await;
    assert!(other.take(50).await.is_none(), "renewed 5 s ago at most");
    sleep(Duration::from_secs(6)).await;
    let others = other.take_all(50).await;
    assert_eq!(others.len(), 50, "a lease lasts 15 s");
    assert!(leases.iter().all(|lease| !lease.holds()) && others.iter().all(Lease::holds));
    leases.clear();
    a_while().await;
    assert!(other.take(50).await.is_none(), "a late release frees nothing");
}

/// What is in use from one delivery to the next costs no round trip, but it goes back when others may want it.
#[tokio::test(start_paused = true)]
async fn a24_a_process_that_is_alone_asks_seldom() {
    let store = Scripted::of(1);
    let process = Process::settled(&store).await;
    store.exchanges.store(0, Ordering::Relaxed);
    for _ in 0..1_000 {
        let lease = process.take(4).await.expect("free");
        sleep(Duration::from_millis(3)).await;
        drop(lease);
    }
    assert_eq!(store.exchanges.load(Ordering::Relaxed), 1, "one for 3 s");
    store.processes.store(2, Ordering::Relaxed);
    sleep(Duration::from_secs(10)).await;
    store.exchanges.store(0, Ordering::Relaxed);
    for _ in 0..1_000 {
        let lease = process.take(4).await.expect("free");
        sleep(Duration::from_millis(3)).await;
        drop(lease);
    }
    let exchanges = store.exchanges.load(Ordering::Relaxed);
    assert!((6..=14).contains(&exchanges), "two in half a second, not {exchanges} in 3 s");
}

/// At its end a process gives back what it kept.
#[tokio::test(start_paused = true)]
async fn a24_a_process_that_ends_leaves_nothing() {
    let store = Scripted::of(1);
    let process = Process::settled(&store).await;
    drop(process.take_all(5).await);
    process.stop.cancel();
    process.run.await.expect("ended");
    let exchange = Exchange {
        limit: 5,
        share: 5,
        term: Duration::from_secs(15),
        queue_for: Duration::from_secs(1),
        process: 1,
        held: 0,
        give: Vec::new(),
        renew: Vec::new(),
        take: (0..5).map(|number| Token { process: 1, number }).collect(),
    };
    assert_eq!(store.leases.exchange(&endpoint(), &exchange).await.expect("local").granted, 5);
}

/// Nothing is remembered of an endpoint that nothing goes to.
#[tokio::test(start_paused = true)]
async fn a24_endpoints_are_forgotten() {
    let store = Scripted::of(1);
    let process = Process::settled(&store).await;
    for number in 0..100 {
        let recipient = Recipient { endpoint: format!("e-{number}").parse().expect("id"), ..endpoint() };
        drop(process.leases.take(&recipient, 1).await.expect("free"));
    }
    assert_eq!(process.leases.pools().len(), 100);
    a_while().await;
    assert_eq!((process.leases.pools().len(), process.metrics.leases.get()), (0, 0));
}

/// Without a runtime to go back in, a lease is left to its expiry.
#[test]
fn a24_a_lease_that_outlives_its_runtime_panics_nowhere() {
    let store = Scripted::of(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("runtime");
    let lease = runtime.block_on(async {
        let process = Process::settled(&store).await;
        process.take(1).await.expect("free")
    });
    drop(runtime);
    drop(lease);
}
