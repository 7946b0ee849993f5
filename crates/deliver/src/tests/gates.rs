//! What an endpoint can take: attempts at a time, attempts a second, and none while it is down.

use std::time::Duration;

use super::rig::Rig;

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

/// Over the rate nothing is lost, nothing is an attempt, and no herd comes back.
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

/// An endpoint that is down is asked by one at a time, and all go on when it is up.
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
