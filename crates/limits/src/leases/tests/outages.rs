//! With a store that does not answer, or answers something else.

use super::*;
use crate::leases::late::RECIPIENTS_MAX;

/// A51: when the limiter fails or hangs, who asks waits 50 ms at most and goes by the documented policy, its share of the
/// limit; it is asked again by itself.
/// Whatever fails: the share, from the moment that it is noticed, and all again after it is over.
#[tokio::test(start_paused = true)]
async fn a24_whatever_fails_a_process_has_its_share() {
    for mode in [
        Mode::Failing(Error::NotConnected("refused".to_owned())),
        Mode::Failing(Error::Refused("READONLY".to_owned())),
        Mode::Failing(Error::Refused("OOM".to_owned())),
        Mode::Failing(Error::Refused("LOADING".to_owned())),
        Mode::Failing(Error::Refused("CLUSTERDOWN".to_owned())),
        Mode::Failing(Error::Refused("MOVED".to_owned())),
        Mode::Unheard,
        Mode::Hanging,
        Mode::Late(Duration::from_secs(2)),
        Mode::Panicking,
    ] {
        let store = Scripted::of(4);
        let process = Process::settled(&store).await;
        store.set(mode.clone());
        let began = Instant::now();
        let first = process.take(40).await;
        assert!(began.elapsed() <= Duration::from_millis(51), "{mode:?}: {:?}", began.elapsed());
        drop(first);
        a_while().await;
        let mut all = process.take_all(40).await;
        assert_eq!(all.len(), 10, "{mode:?}: a quarter");
        assert!(process.asks("share") >= 10, "{mode:?}");
        all.pop();
        assert!(process.take(40).await.is_some(), "{mode:?}: and no less");
        assert_eq!(process.metrics.on_share.get(), 1);
        store.set(Mode::Sound);
        sleep(Duration::from_secs(12)).await;
        all.extend(process.take_all(40).await);
        assert_eq!(all.len(), 10, "{mode:?}: the others may not have said what they have");
        sleep(Duration::from_secs(10)).await;
        all.extend(process.take_all(40).await);
        assert_eq!(all.len(), 40, "{mode:?}: all of it, with those that were begun in the outage");
        drop(all);
        a_while().await;
        assert_eq!(process.take_all(40).await.len(), 40, "{mode:?}: nothing is left behind");
    }
}

/// What was begun in an outage is said when it is over, before others take it.
#[tokio::test(start_paused = true)]
async fn a24_what_was_begun_in_an_outage_counts_when_it_is_over() {
    let store = Scripted::of(2);
    let (one, other) = (Process::settled(&store).await, Process::settled(&store).await);
    store.set(Mode::Failing(Error::NotConnected("refused".to_owned())));
    sleep(Duration::from_mins(1)).await;
    let begun = one.take_all(8).await;
    assert_eq!(begun.len(), 4);
    store.set(Mode::Sound);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(other.take_all(8).await.len(), 4);
    assert_eq!(one.metrics.leases_lost.get(), 0, "it was known that the store cannot know them");
}

/// A store that forgot what is in use is told so, and not believed for a while.
#[tokio::test(start_paused = true)]
async fn a24_a_store_that_forgets_is_told_and_doubted() {
    let store = Scripted::of(2);
    let (one, other) = (Process::settled(&store).await, Process::settled(&store).await);
    let held = one.take_all(8).await;
    assert_eq!(held.len(), 8);
    let tokens = held.iter().map(Lease::token).collect();
    let wipe = Exchange {
        limit: 8,
        share: 4,
        term: Duration::from_secs(15),
        queue_for: Duration::from_secs(1),
        process: 0,
        held: 0,
        give: tokens,
        renew: Vec::new(),
        take: Vec::new(),
    };
    store.leases.exchange(&endpoint(), &wipe).await.expect("local");
    sleep(Duration::from_secs(6)).await;
    assert_eq!(one.metrics.leases_lost.get(), 8);
    assert_eq!(one.metrics.on_share.get(), 1);
    assert!(other.take(8).await.is_none(), "said again");
}

/// One endpoint's key is not ours: the others are shared as ever.
#[tokio::test(start_paused = true)]
async fn a24_a_key_that_holds_something_else_concerns_one_endpoint() {
    let store = Scripted::of(4);
    let process = Process::settled(&store).await;
    store.set(Mode::Failing(Error::Refused("WRONGTYPE".to_owned())));
    let held = process.take_all(40).await;
    assert_eq!(held.len(), 10);
    store.set(Mode::Sound);
    let other = Recipient { endpoint: "other".parse().expect("id"), ..endpoint() };
    let mut others = Vec::new();
    while let Ok(lease) = process.leases.take(&other, 40).await {
        others.push(lease);
    }
    assert_eq!(others.len(), 40);
}

/// A process that never saw the store has one lease of each endpoint, and says it when it sees it.
#[tokio::test(start_paused = true)]
async fn a24_a_process_that_never_saw_the_store_has_one() {
    let store = Scripted::of(4);
    store.set(Mode::Failing(Error::NotConnected("refused".to_owned())));
    let process = Process::new(&store);
    a_while().await;
    assert_eq!(process.take_all(40).await.len(), 1);
}

/// A51: while the store is away an endpoint that is new costs nobody any time.
#[tokio::test(start_paused = true)]
async fn a24_nobody_waits_for_a_store_that_is_known_to_be_away() {
    let store = Scripted::of(1);
    let process = Process::settled(&store).await;
    store.set(Mode::Hanging);
    sleep(Duration::from_secs(10)).await;
    let began = Instant::now();
    for number in 0..100 {
        let recipient = Recipient { endpoint: format!("e-{number}").parse().expect("id"), ..endpoint() };
        assert!(process.leases.take(&recipient, 1).await.is_ok());
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A51: a rate that cannot be asked for is divided; one that can be is not.
#[tokio::test(start_paused = true)]
async fn a37_whatever_fails_a_process_has_its_share_of_a_rate() {
    for mode in [
        Mode::Failing(Error::Refused("READONLY".to_owned())),
        Mode::Hanging,
        Mode::Late(Duration::from_secs(2)),
        Mode::Panicking,
    ] {
        let store = Scripted::of(4);
        let process = Process::settled(&store).await;
        assert_eq!(process.leases.admit(&endpoint(), 40).await, Admission::Go);
        assert_eq!(process.leases.admit(&endpoint(), 1).await, Admission::Wait(Duration::from_secs(1)));
        store.set(mode.clone());
        let began = Instant::now();
        let mut first = process.leases.admit(&endpoint(), 40).await;
        while let Admission::Wait(wait) = first {
            assert!(wait <= Duration::from_millis(50), "{mode:?}: {wait:?}");
            sleep(wait).await;
            first = process.leases.admit(&endpoint(), 40).await;
        }
        assert_eq!(first, Admission::Share(10), "{mode:?}");
        assert!(began.elapsed() <= Duration::from_millis(600), "{mode:?}: {:?}", began.elapsed());
        let began = Instant::now();
        assert_eq!(process.leases.admit(&endpoint(), 3).await, Admission::Share(1), "{mode:?}: at least one");
        assert_eq!(began.elapsed(), Duration::ZERO, "{mode:?}: nobody waits for what is known to be away");
        // Others may be away still, and count for themselves.
        store.set(Mode::Sound);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(process.leases.admit(&endpoint(), 40).await, Admission::Share(10), "{mode:?}");
        assert_eq!(process.leases.admit(&endpoint(), 1).await, Admission::Wait(Duration::from_secs(1)));
        sleep(Duration::from_secs(20)).await;
        assert_eq!(process.leases.admit(&endpoint(), 40).await, Admission::Go, "{mode:?}");
    }
}

/// Slow is not away: nobody goes uncounted, and what was counted is not lost.
#[tokio::test(start_paused = true)]
async fn a37_a_slow_store_lets_nobody_go_that_it_did_not_count() {
    let store = Scripted::of(4);
    let process = Process::settled(&store).await;
    store.set(Mode::Late(Duration::from_millis(120)));
    let (mut gone, began) = (0, Instant::now());
    for _ in 0..20 {
        let mut admission = process.leases.admit(&endpoint(), 40).await;
        while let Admission::Wait(wait) = admission {
            sleep(wait).await;
            admission = process.leases.admit(&endpoint(), 40).await;
        }
        assert_eq!(admission, Admission::Go);
        gone += 1;
        let counted = store.rates.load(Ordering::Relaxed);
        assert!(gone <= counted, "{gone} went, {counted} were counted");
    }
    assert!(began.elapsed() <= Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(process.metrics.on_share.get(), 0);
}

/// So many answers are late that one more cannot be waited for: whoever asked counts for itself, and does not ask for ever.
#[tokio::test(start_paused = true)]
async fn a37_an_answer_that_cannot_be_waited_for_is_a_share() {
    let store = Scripted::of(4);
    let process = Process::settled(&store).await;
    for number in 0..RECIPIENTS_MAX {
        let other = Recipient { endpoint: format!("e-{number}").parse().expect("id"), ..endpoint() };
        assert!(process.leases.lates().expect(&other));
    }
    store.set(Mode::Late(Duration::from_millis(120)));
    assert_eq!(process.leases.admit(&endpoint(), 40).await, Admission::Share(10));
    store.set(Mode::Sound);
    assert_eq!(process.leases.admit(&endpoint(), 40).await, Admission::Go);
}
