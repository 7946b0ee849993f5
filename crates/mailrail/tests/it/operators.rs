//! What an operator does to a backlog: pause and resume, delete, a new URL, SIGTERM.

use http::Method;

use crate::fleet::{Fleet, Plan, until};
use crate::history::{Budget, End};

/// N07: what comes for a paused endpoint waits, no attempt is made, and all of it goes in order when it is resumed.
#[tokio::test(flavor = "multi_thread")]
async fn n07_a_paused_endpoint_keeps_its_mail_and_gets_it_in_order() {
    let recipients = [("shop", "ok", "strict"), ("other", "ok", "strict")];
    let plan = Plan { delivers: 2, ..Plan::new(&recipients) };
    let Some(fleet) = Fleet::start(plan).await else { return };
    let mut feeder = fleet.feeder();
    feeder.feed("shop", 0..10, 1).await;
    fleet.wait_received(10).await;
    fleet.operate(&["endpoints", "pause", "acme", "shop"]).await;
    // A process that has not heard of it yet may still send; from the first one that is held on, none does.
    until("it is held", async || {
        feeder.feed("shop", 0..10, 1).await;
        fleet.metric("mailrail_deliver_held").await >= 10
    })
    .await;
    let before = fleet.receiver.snapshot().endpoints["shop"].received;
    feeder.feed("shop", 0..10, 200).await;
    feeder.feed("other", 0..10, 20).await;
    let other = fleet.receiver.reached(|report| report.endpoints["other"].delivered == 200);
    tokio::time::timeout(crate::fleet::PATIENCE, other).await.expect("the other endpoint is not paused");
    until("the commits go on", async || {
        fleet.progress().await.iter().all(|(committed, high)| committed == high)
    })
    .await;
    assert_eq!(fleet.receiver.snapshot().endpoints["shop"].received, before, "sent while paused");
    fleet.operate(&["endpoints", "resume", "acme", "shop"]).await;
    fleet.close(vec![feeder], &Budget::none()).await;
}

/// A subscription that is deleted with a backlog: every delivery of it is cancelled, with a record.
#[tokio::test(flavor = "multi_thread")]
async fn n07_a_deleted_subscription_cancels_its_backlog_with_a_record_each() {
    let recipients = [("gone", "status=503", "strict"), ("stays", "ok", "strict")];
    let plan = Plan { retry_delays: r#"["1s", "2s", "1h"]"#, ..Plan::new(&recipients) };
    let Some(fleet) = Fleet::start(plan).await else { return };
    let mut feeder = fleet.feeder();
    feeder.feed("gone", 0..10, 100).await;
    feeder.feed("stays", 0..10, 10).await;
    let mut ends = fleet.ends();
    fleet.wait_ended(&mut ends, 100).await;
    fleet.wait_received(110).await;
    fleet.control(Method::DELETE, "/v1/tenants/acme/subscriptions/to-gone").await;
    fleet.wait_ended(&mut ends, 1_100).await;
    let cancelled = feeder.owed.iter().filter(|owed| owed.endpoint == "gone");
    assert!(cancelled.clone().all(|owed| ends.of[&owed.id].iter().eq([&End::Cancelled])));
    assert_eq!(cancelled.count(), 1_000);
    fleet.close(vec![feeder], &Budget::none()).await;
}

/// A URL that changes while a backlog waits: the next attempt goes to the new one.
#[tokio::test(flavor = "multi_thread")]
async fn n07_a_backlog_follows_the_url_of_its_endpoint() {
    let recipients = [("old", "status=503", "strict"), ("new", "ok", "strict")];
    let delays = r#"["1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s"]"#;
    let Some(fleet) = Fleet::start(Plan { retry_delays: delays, ..Plan::new(&recipients) }).await else {
        return;
    };
    let mut feeder = fleet.feeder();
    feeder.feed("old", 0..10, 50).await;
    fleet.wait_received(10).await;
    let new = fleet.receiver.url("new");
    fleet.apply(&[(recipients[0], new), (recipients[1], fleet.receiver.url("new"))]).await;
    let mut ends = fleet.ends();
    fleet.wait_ended(&mut ends, 500).await;
    let report = fleet.receiver.snapshot();
    assert_eq!((report.endpoints["old"].delivered, report.endpoints["new"].delivered), (0, 500));
    fleet.close(vec![feeder], &Budget::none()).await;
}

/// N22: SIGTERM under load, with requests that no drain can wait for: exit 0, nothing lost, and sent again is what was cut.
#[tokio::test(flavor = "multi_thread")]
async fn n22_sigterm_under_load_loses_nothing_and_repeats_what_it_cut() {
    let recipients = [("quick", "ok", "strict"), ("slow", "delay=4000,ok", "strict")];
    let plan = Plan { deliver: "drain = \"3s\"", attempt_seconds: 6, delivers: 2, ..Plan::new(&recipients) };
    let Some(mut fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    let mut feeder = fleet.feeder();
    let rounds = 4;
    for _ in 0..rounds {
        let slow = fleet.receiver.snapshot().endpoints["slow"].received;
        feeder.feed("quick", 0..10, 100).await;
        feeder.feed("slow", 0..10, 2).await;
        let running = fleet.receiver.reached(|report| report.endpoints["slow"].received > slow);
        tokio::time::timeout(crate::fleet::PATIENCE, running).await.expect("slow requests run");
        // Waits for the end, which must come within the deadline and with 0.
        fleet.stop(1).await;
        fleet.add();
        fleet.wait_owned().await;
    }
    // The ten mailboxes of the slow one have one request each under way.
    fleet.close(vec![feeder], &Budget::none().and("a cut drain", rounds, 10)).await;
}
