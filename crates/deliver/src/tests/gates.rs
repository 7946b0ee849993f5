//! What an endpoint can take: attempts at a time, attempts a second, and none while it is down.

use std::sync::Arc;
use std::time::Duration;

use mailrail_limits::{Leases, LocalLeases, Terms};
use mailrail_mailbox::Hold;
use mailrail_policy::BreakerOptions;
use mailrail_telemetry::Metrics;
use mailrail_types::{
    Attempt, AttemptResult, DeliveryId, Endpoint, EventId, HoldReason, Mailbox, MailboxKey, Outcome,
    RetryReason, TenantId, Timestamp,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::rig::Rig;
use crate::gate::{Gates, Pass, Waker};

async fn append_mailboxes(rig: &Rig, mailboxes: u32, each: u64) {
    for n in 0..each {
        for mailbox in 0..mailboxes {
            let body = format!(r#"{{"key":"{mailbox}","seq":{n}}}"#);
            let mut delivery = rig.delivery_with_body(&format!("{mailbox}-{n}"), body.as_bytes());
            delivery.mailbox.bucket = mailbox;
            rig.append(delivery).await;
        }
    }
}

/// No more than so many at a time, whoever waits is woken by a free place, and nothing of it is an attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a37_attempts_at_a_time_are_bounded_and_the_rest_waits_its_turn() {
    let rig = Rig::start("delay=5,ok").await.with_limits(Some(2), None).await;
    append_mailboxes(&rig, 12, 10).await;
    let run = rig.run();
    rig.wait_done(120).await;
    run.stop().await;
    let report = rig.receiver.snapshot();
    assert_eq!((report.total.received, report.total.order_violations), (120, 0));
    assert_eq!(rig.receiver.in_flight_max(), 2);
    assert!(rig.receiver.receipts().iter().all(|r| r.attempt == Some(1)));
}

/// A37: over the rate nothing is lost, nothing is an attempt, and no herd comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a37_over_the_rate_deliveries_wait_and_none_is_lost() {
    let rig = Rig::start("ok").await.with_limits(None, Some(60)).await;
    append_mailboxes(&rig, 20, 8).await;
    let run = rig.run();
    rig.wait_done(160).await;
    run.stop().await;
    let report = rig.receiver.snapshot();
    assert_eq!((report.total.received, report.total.order_violations), (160, 0));
    let receipts = rig.receiver.receipts();
    assert!(receipts.iter().all(|r| r.attempt == Some(1)));
    let took = receipts.last().map_or(0, |r| r.arrived_at_ms) - receipts[0].arrived_at_ms;
    assert!(took >= 1_500, "60 at once and 100 more at 60 a second take 1.7 s, not {took} ms");
}

/// N08: an endpoint that is down is asked by one at a time, and all go on when it is up.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_endpoint_is_probed_and_keeps_its_mail() {
    let rig = Rig::start("status=503").await.with_waits(vec![Duration::from_millis(20); 100]).with_breaker(5);
    append_mailboxes(&rig, 30, 2).await;
    let run = rig.run();
    rig.wait_held(60).await;
    rig.receiver.reached(|r| r.total.received >= 40).await;
    let probes = rig.receiver.receipts();
    let between = |pair: &[mailrail_demo::receiver::Receipt]| pair[1].arrived_at_ms - pair[0].arrived_at_ms;
    let apart = probes[probes.len() - 5..].windows(2).map(between).min();
    assert!(apart.is_some_and(|ms| ms >= 100), "one probe in 200 ms and a fifth: {apart:?}");
    rig.receiver.set_behaviour("main", "ok".parse().expect("a script")).expect("known endpoint");
    rig.wait_done(60).await;
    run.stop().await;
    let report = rig.receiver.snapshot();
    assert_eq!((report.total.delivered, report.total.order_violations), (60, 0));
}

const NOW: Timestamp = Timestamp::from_secs(1_000);

/// The gates of one process, and a mailbox that asks at them.
struct Process {
    gates: Arc<Gates>,
    waker: Waker,
    woken: mpsc::Receiver<MailboxKey>,
}

impl Process {
    /// One of those that share a store.
    fn over(store: &Arc<LocalLeases>) -> Self {
        Self::with_breaker(store, BreakerOptions::default())
    }

    fn with_breaker(store: &Arc<LocalLeases>, breaker: BreakerOptions) -> Self {
        let leases = Leases::new(store.clone(), Terms::default(), Metrics::new().limits);
        let (kept, never) = (leases.clone(), CancellationToken::new());
        tokio::spawn(async move { kept.run(never).await });
        let (waker, woken) = mpsc::channel(100);
        Self { gates: Gates::new(breaker, leases), waker: Waker(waker), woken }
    }

    async fn enter(&self, mailbox: u32, in_flight: Option<u32>) -> Result<Pass, Hold> {
        self.enter_at(mailbox, in_flight, NOW).await
    }

    async fn enter_at(&self, mailbox: u32, in_flight: Option<u32>, now: Timestamp) -> Result<Pass, Hold> {
        self.enter_within(mailbox, (in_flight, None), now).await
    }

    /// `limits`: attempts at a time, attempts a second.
    async fn enter_within(
        &self,
        mailbox: u32,
        limits: (Option<u32>, Option<u32>),
        now: Timestamp,
    ) -> Result<Pass, Hold> {
        let tenant: TenantId = "acme".parse().expect("id");
        let endpoint = Endpoint {
            id: "main".parse().expect("id"),
            app: "app".parse().expect("id"),
            url: "https://example.com/".to_owned(),
            secrets: Vec::new(),
            headers: Vec::new(),
            class: "strict".parse().expect("id"),
            timeout: None,
            head_max_age: None,
            max_in_flight: limits.0,
            rate_per_second: limits.1,
            paused: false,
        };
        let mailbox = key(mailbox);
        self.gates.enter(&tenant, &endpoint, &mailbox, &self.waker, now).await
    }
}

fn key(bucket: u32) -> MailboxKey {
    let (tenant, endpoint) = ("acme".parse().expect("id"), "main".parse().expect("id"));
    let (pipeline, region) = ("default".into(), "".into());
    Mailbox { pipeline, region, tenant, endpoint, event_type: None, bucket }.key()
}

/// A24: the limit is one for all processes. Who is held waits a named time at most, and is called when there is a place: by the
/// own process at once, by the store when another one gave it back.
#[tokio::test(start_paused = true)]
async fn a24_processes_share_the_limit_of_an_endpoint_and_wake_who_waits() {
    let store = Arc::new(LocalLeases::new());
    let (mut one, mut other) = (Process::over(&store), Process::over(&store));
    let first = one.enter(0, Some(2)).await.expect("free");
    let second = one.enter(1, Some(2)).await.expect("free");
    let hold = other.enter(2, Some(2)).await.err().expect("held");
    let until = NOW.plus(Terms::default().ask_again);
    assert_eq!(hold, Hold { reason: HoldReason::Concurrency, until });
    assert!(one.enter(3, Some(2)).await.is_err());
    drop(first);
    assert_eq!(one.woken.recv().await, Some(key(3)), "at once");
    let third = one.enter(3, Some(2)).await.expect("the free one");
    assert!(other.enter(2, Some(2)).await.is_err());
    drop((second, third));
    assert_eq!(other.woken.recv().await, Some(key(2)), "once it was given back");
    assert!(other.enter(2, Some(2)).await.is_ok());
}

/// A24: who asks again and goes through is not called any more: the call is for another one that waits.
#[tokio::test(start_paused = true)]
async fn a24_who_went_through_is_not_called_in_place_of_another() {
    let mut process = Process::over(&Arc::new(LocalLeases::new()));
    let first = process.enter(0, Some(1)).await.expect("free");
    for waits in [1, 2] {
        assert!(process.enter(waits, Some(1)).await.is_err());
    }
    let second = process.enter(1, Some(2)).await.expect("its limit was raised before it was called");
    drop(first);
    assert_eq!(process.woken.recv().await, Some(key(2)));
    assert!(process.enter(2, Some(2)).await.is_ok());
    drop(second);
    assert!(process.woken.try_recv().is_err(), "nobody waits");
}

/// A24: a place comes back from an attempt that panics and from one that is cut.
#[tokio::test(start_paused = true)]
async fn a24_a_place_comes_back_on_panic_and_cancellation() {
    let process = Arc::new(Process::over(&Arc::new(LocalLeases::new())));
    let asked = process.clone();
    let panicked = tokio::spawn(async move {
        let _pass = asked.enter(0, Some(1)).await.expect("free");
        panic!("in the middle of an attempt");
    });
    assert!(panicked.await.is_err());
    let asked = process.clone();
    let cut = tokio::spawn(async move {
        let _pass = asked.enter(0, Some(1)).await.expect("free");
        std::future::pending::<()>().await;
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(process.enter(1, Some(1)).await.is_err());
    cut.abort();
    assert!(cut.await.is_err());
    assert!(process.enter(1, Some(1)).await.is_ok());
}

/// How many of 100 that ask at the same moment go through, and what holds the last of the others. Each attempt comes to `outcome`
/// before the next one asks; without one it lasts on.
async fn gone_of_100(
    limits: (Option<u32>, Option<u32>),
    outcome: Option<Outcome>,
    breaker: BreakerOptions,
) -> (usize, Option<HoldReason>) {
    let process = Process::with_breaker(&Arc::new(LocalLeases::new()), breaker);
    let (mut open, mut gone, mut held) = (Vec::new(), 0, None);
    for mailbox in 0..100 {
        match (process.enter_within(mailbox, limits, NOW).await, outcome) {
            (Ok(pass), Some(outcome)) => pass.report(&attempt(outcome), NOW, 0.5),
            (Ok(pass), None) => open.push(pass),
            (Err(hold), _) => {
                held = Some(hold.reason);
                continue;
            }
        }
        gone += 1;
    }
    (gone, held)
}

/// A41, A62: of the three layers before an endpoint each stops a pressure that the others let through, and each can be switched
/// off. One that answers at once is seen by its rate alone, one that does not answer by its attempts at a time alone, one that
/// fails by its circuit alone.
#[tokio::test(start_paused = true)]
async fn a41_each_layer_before_an_endpoint_stops_what_the_others_let_through() {
    let (circuit, off) =
        (BreakerOptions::default(), BreakerOptions { failures: 0, ..BreakerOptions::default() });
    let (at_a_time, rate) = (Some(2), Some(10));
    let wide = Some(10_000);
    let quick = Some(Outcome::Delivered);
    assert_eq!(gone_of_100((at_a_time, wide), quick, circuit).await, (100, None));
    assert_eq!(gone_of_100((at_a_time, rate), quick, circuit).await, (10, Some(HoldReason::Rate)));
    let slow = None;
    assert_eq!(gone_of_100((None, wide), slow, circuit).await, (100, None));
    assert_eq!(gone_of_100((at_a_time, wide), slow, circuit).await, (2, Some(HoldReason::Concurrency)));
    let failing = Some(Outcome::Retry { due: NOW, reason: RetryReason::ServerError });
    assert_eq!(gone_of_100((at_a_time, wide), failing, off).await, (100, None));
    assert_eq!(gone_of_100((at_a_time, wide), failing, circuit).await, (10, Some(HoldReason::Circuit)));
    assert_eq!(gone_of_100((None, None), slow, off).await, (100, None), "all of them off");
}

/// An endpoint without a limit asks nobody.
#[tokio::test(start_paused = true)]
async fn a24_an_endpoint_without_a_limit_takes_no_lease() {
    let metrics = Metrics::new().limits;
    let leases = Leases::new(Arc::new(LocalLeases::new()), Terms::default(), metrics.clone());
    let (waker, woken) = mpsc::channel(1);
    let gates = Gates::new(BreakerOptions::default(), leases);
    let process = Process { gates, waker: Waker(waker), woken };
    let mut passes = Vec::new();
    for mailbox in 0..100 {
        passes.push(process.enter(mailbox, None).await.expect("no limit"));
    }
    assert_eq!(metrics.exchanges.get(), 0);
}

/// What an attempt came to, of whatever delivery.
fn attempt(outcome: Outcome) -> Attempt {
    let tenant: TenantId = "acme".parse().expect("id");
    let event = EventId::derive(&tenant, "/s", "1");
    let subscription = "s".parse().expect("id");
    Attempt {
        delivery: DeliveryId::derive(&event, &tenant, &subscription),
        event,
        tenant,
        endpoint: "main".parse().expect("id"),
        subscription,
        number: 1,
        started_at: NOW,
        duration_ms: 0,
        result: AttemptResult::default(),
        outcome,
        unknown: bytes::Bytes::new(),
    }
}

/// One delivery of a mailbox waits until its endpoint is up, and another one of it is the probe: the first is called after that.
#[tokio::test(start_paused = true)]
async fn who_found_the_endpoint_down_is_called_although_another_of_its_mailbox_went() {
    let mut process = Process::over(&Arc::new(LocalLeases::new()));
    let failed = attempt(Outcome::Retry { due: NOW, reason: RetryReason::ServerError });
    for _ in 0..BreakerOptions::default().failures {
        process.enter(1, None).await.expect("up").report(&failed, NOW, 0.5);
    }
    let hold = process.enter(1, None).await.err().expect("it is down");
    assert_eq!(hold.reason, HoldReason::Circuit);
    let probe = process.enter_at(1, None, hold.until).await.expect("the probe");
    probe.report(&attempt(Outcome::Delivered), hold.until, 0.5);
    assert_eq!(process.woken.try_recv(), Ok(key(1)), "the first one may go");
}
