//! Stage two on the embedded log and store, against a real receiver over HTTP.

mod cutting;
mod gates;
mod holding;
mod isolation;
mod pipelines;
mod pressure;
mod remade;
mod rig;
mod routes;
mod threads;

use std::time::Duration;

use mailrail_demo::receiver::Behaviour;
use mailrail_types::{
    Attribute, AttributeValue, CancelReason, DeadReason, History, Outcome, PERMISSION_ATTRIBUTE, RetryReason,
    SubscriptionId, Timestamp,
};

pub(crate) use holding::{loses, panic_on_poison};
pub(crate) use isolation::die_of_killer;
use rig::{Rig, quick};

fn script(text: &str) -> Behaviour {
    text.parse().expect("a script")
}

/// S01, N05: in order, one at a time, signed, the bytes untouched.
#[tokio::test(flavor = "multi_thread")]
async fn s01_a_mailbox_is_delivered_in_order_and_verified() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..60).await;
    let odd: &[u8] = b"{ \"n\" : 123456789012345678901234567890, \"n\":\"\xff\" }\r\n";
    rig.append(rig.delivery_with_body("odd", odd)).await;
    let run = rig.run();
    let report = rig.receiver.reached(|r| r.total.received >= 61).await;
    assert_eq!((report.total.verified, report.total.bad_signature), (61, 0));
    assert_eq!((report.total.duplicates, report.total.order_violations), (0, 0));
    let receipts = rig.receiver.receipts();
    let last = receipts.last().expect("received");
    assert_eq!(last.body.as_deref(), Some(odd));
    assert_eq!(last.attempt, Some(1));
    rig.wait_done(61).await;
    run.stop().await;
    assert_eq!(rig.attempts().await.len(), 61, "each has a record");
}

/// S01, A42: what is behind a failing head waits for it; the id stays, the attempt number grows.
#[tokio::test(flavor = "multi_thread")]
async fn s01_a_retry_holds_its_mailbox_and_keeps_its_id() {
    let rig = Rig::start("first=2:503").await;
    rig.append_numbered(0..5).await;
    let run = rig.run();
    let report = rig.receiver.reached(|r| r.total.received >= 7).await;
    assert_eq!(report.total.order_violations, 0);
    let receipts = rig.receiver.receipts();
    assert_eq!(receipts[..3].iter().map(|r| r.attempt).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
    assert!(receipts[..3].iter().all(|r| r.webhook_id == receipts[0].webhook_id));
    rig.wait_done(5).await;
    run.stop().await;
    let outcomes: Vec<_> = rig.attempts().await.into_iter().map(|a| a.outcome).collect();
    let retries =
        outcomes.iter().filter(|o| matches!(o, Outcome::Retry { reason: RetryReason::ServerError, .. }));
    assert_eq!(retries.count(), 2);
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::Delivered).count(), 5);
}

/// S29, S15: a class that tolerates reordering lets the rest of the mailbox go on without a failed delivery.
#[tokio::test(flavor = "multi_thread")]
async fn s29_a_tolerant_mailbox_sets_the_failed_one_aside() {
    let rig = Rig::start("first=1:503").await.tolerant().await;
    let rig = rig.with_waits(vec![Duration::from_millis(400)]);
    rig.append_numbered(0..5).await;
    let run = rig.run();
    rig.wait_done(5).await;
    run.stop().await;
    let receipts = rig.receiver.receipts();
    let seen = |attempt| -> Vec<_> {
        let of = receipts.iter().filter(|r| r.attempt == Some(attempt));
        of.filter_map(|r| r.order.as_ref().map(|o| o.sequence)).collect()
    };
    let mut first = seen(1);
    first.sort_unstable();
    assert_eq!((first, seen(2).len()), (vec![0, 1, 2, 3, 4], 1));
    assert_eq!(receipts.last().and_then(|r| r.attempt), Some(2), "the rest did not wait for it");
}

/// A45: a refusal for good, and a schedule that is used up, end in the dead letters with reason and history.
#[tokio::test(flavor = "multi_thread")]
async fn a45_what_is_given_up_is_a_dead_letter_and_the_mailbox_goes_on() {
    let rig = Rig::start("status=400").await;
    rig.append_numbered(0..2).await;
    let run = rig.run();
    rig.wait_done(2).await;
    rig.receiver.set_behaviour("main", script("status=500")).expect("known endpoint");
    rig.append_numbered(2..3).await;
    rig.wait_done(3).await;
    run.stop().await;
    let letters = rig.dead_letters().await;
    let reasons: Vec<_> = letters.iter().map(|l| l.reason).collect();
    assert_eq!(reasons, [DeadReason::Rejected, DeadReason::Rejected, DeadReason::Exhausted]);
    let exhausted = &letters[2];
    assert_eq!(exhausted.attempts.len(), 4, "the schedule has three waits");
    assert_eq!(exhausted.delivery.history.attempts, 4);
    assert_eq!(exhausted.delivery.history.last_status, Some(500));
    assert_eq!(exhausted.delivery.event.body, rig.numbered(2).event.body, "with its payload");
}

/// A10: a process that is cut at any moment loses nothing and disorders nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a10_cut_and_started_again_it_delivers_everything_in_order() {
    let rig = Rig::start("delay=3,ok").await;
    rig.append_numbered(0..120).await;
    for round in 1..6 {
        let run = rig.run();
        rig.receiver.reached(|r| r.total.received >= round * 12).await;
        run.cut().await;
    }
    let run = rig.run();
    rig.wait_done(120).await;
    run.stop().await;
    let report = rig.receiver.snapshot();
    assert_eq!(report.total.order_violations, 0);
    assert_eq!(report.total.received - report.total.duplicates, 120, "every one arrived");
    assert!(report.total.duplicates <= 5 * 120, "bounded by what was not committed");
}

/// A stop lets the running attempt finish, commits it, and the next owner sends nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn n22_a_drain_finishes_what_runs_and_repeats_nothing() {
    let rig = Rig::start("delay=150,ok").await;
    rig.append_numbered(0..3).await;
    let run = rig.run();
    rig.receiver.reached(|r| r.total.received >= 1).await;
    run.stop().await;
    let sent = rig.receiver.snapshot().total.received;
    let run = rig.run();
    rig.receiver.reached(|r| r.total.received >= 3).await;
    rig.wait_done(3).await;
    run.stop().await;
    let report = rig.receiver.snapshot();
    assert!((1..3).contains(&sent), "stopped half-way, after {sent}");
    assert_eq!((report.total.received, report.total.duplicates), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_record_goes_to_quarantine_and_stops_nothing() {
    let rig = Rig::start("ok").await;
    rig.append_raw(b"\xff\xff not a delivery").await;
    rig.append_numbered(0..1).await;
    let run = rig.run();
    rig.wait_done(2).await;
    run.stop().await;
    let quarantined = rig.read("quarantine").await;
    assert_eq!(quarantined.len(), 1);
    assert_eq!(&quarantined[0].value[..], b"\xff\xff not a delivery");
    let origin = quarantined[0].headers.iter().find(|(name, _)| name == mailrail_log::ORIGIN_HEADER);
    assert_eq!(origin.map(|(_, value)| &value[..]), Some(&b"deliveries/0/0"[..]));
    assert_eq!(rig.receiver.snapshot().total.received, 1);
}

/// A19: what a restarted match appends again is sent once; a redrive of the same delivery is not a duplicate.
#[tokio::test(flavor = "multi_thread")]
async fn a19_a_known_delivery_is_not_sent_again() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..3).await;
    rig.append_numbered(0..3).await;
    let mut redriven = rig.numbered(1);
    redriven.history = History { redrives: 1, ..History::default() };
    rig.append(redriven).await;
    let run = rig.run();
    rig.wait_done(7).await;
    run.stop().await;
    assert_eq!(rig.receiver.snapshot().total.received, 4);
}

/// X06: what is no longer owed ends as cancelled, with a record and without a request.
#[tokio::test(flavor = "multi_thread")]
async fn x06_a_deleted_subscription_cancels_what_waits() {
    let rig = Rig::start("ok").await;
    let mut orphan = rig.numbered(0);
    orphan.subscription = SubscriptionId::new("gone").expect("valid");
    rig.append(orphan).await;
    let run = rig.run();
    rig.wait_done(1).await;
    run.stop().await;
    let attempts = rig.attempts().await;
    assert_eq!(attempts[0].outcome, Outcome::Cancelled(CancelReason::SubscriptionDeleted));
    assert_eq!(attempts[0].number, 0);
    assert_eq!(rig.receiver.snapshot().total.received, 0);
}

/// A17: a permission that was taken away holds for what is queued, too.
#[tokio::test(flavor = "multi_thread")]
async fn a17_a_sensitive_event_goes_to_no_app_that_lost_the_permission() {
    let rig = Rig::start("ok").await;
    let mut sensitive = rig.numbered(0);
    sensitive.event.attributes.extensions.push(Attribute {
        name: PERMISSION_ATTRIBUTE.into(),
        value: AttributeValue::String("payroll".into()),
    });
    rig.append(sensitive).await;
    rig.append_numbered(1..2).await;
    let run = rig.run();
    rig.wait_done(2).await;
    run.stop().await;
    let outcomes: Vec<Outcome> = rig.attempts().await.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Outcome::Cancelled(CancelReason::PermissionMissing), Outcome::Delivered]);
    assert_eq!(rig.receiver.snapshot().total.received, 1);
}

/// What came back from the dead letters says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_was_put_back_carries_how_often() {
    let rig = Rig::start("ok").await;
    let mut again = rig.numbered(0);
    again.history.redrives = 2;
    rig.append(again).await;
    rig.append_numbered(1..2).await;
    let run = rig.run();
    rig.wait_done(2).await;
    run.stop().await;
    let redrives: Vec<Option<u32>> = rig.receiver.receipts().iter().map(|receipt| receipt.redrive).collect();
    assert_eq!(redrives, [Some(2), None]);
}

/// A50: nothing is called deleted on a set-up older than the one that match decided with; what waits for it is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_that_is_not_seen_yet_is_waited_for() {
    let rig = Rig::start("ok").await;
    let mut early = rig.numbered(0);
    early.subscription = SubscriptionId::new("later").expect("valid");
    early.setup_seq = rig.directory.seq() + 1;
    rig.append(early).await;
    let run = rig.run();
    let arrived = tokio::time::timeout(quick(), rig.receiver.reached(|r| r.total.received > 0)).await;
    assert!(arrived.is_err(), "not sent");
    assert_eq!(rig.attempts().await.len(), 0, "nor cancelled");
    rig.add_subscription("later").await;
    rig.wait_done(1).await;
    run.stop().await;
    assert_eq!(rig.receiver.snapshot().total.received, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_delivery_is_dead_lettered_unsent() {
    let rig = Rig::start("ok").await;
    let mut late = rig.numbered(0);
    late.deadline = Timestamp(1);
    rig.append(late).await;
    let run = rig.run();
    rig.wait_done(1).await;
    run.stop().await;
    assert_eq!(rig.dead_letters().await[0].reason, DeadReason::Expired);
    assert_eq!(rig.receiver.snapshot().total.received, 0);
}

/// A dead recipient holds its own mailbox and, at most, its partition; what is held stays bounded.
#[tokio::test(flavor = "multi_thread")]
async fn i14_a_dead_recipient_fills_a_bounded_window_and_others_go_on() {
    let rig = Rig::start("status=503").await.with_waits(vec![Duration::from_secs(3600)]);
    rig.append_numbered(0..500).await;
    rig.append_to_other_partition(0..20).await;
    let run = rig.run();
    rig.receiver.reached(|r| r.endpoints.get("other").is_some_and(|e| e.received >= 20)).await;
    assert!(rig.metrics.deliver.window_records.get() <= 64 + 64, "window of 64 records for each partition");
    run.stop().await;
    assert_eq!(rig.metrics.deliver.in_flight.get(), 0, "permits come back");
    assert_eq!(rig.metrics.deliver.window_records.get(), 0, "given back");
}
