//! What waits: parked in the journal, in order, and in nobody's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use mailrail_mailbox::Kind;
use mailrail_types::{CancelReason, DeadReason, Outcome};

use super::rig::Rig;

const HOUR: Duration = Duration::from_secs(3600);

/// A body that makes its attempt panic.
const POISON: &[u8] = b"poison";

/// Stands for a mistake in the code that only some delivery runs into.
pub(crate) fn panic_on_poison(body: &[u8]) {
    assert!(body != POISON, "this delivery breaks its attempt");
}

/// A body whose delivery gets lost in memory, once.
const LOST: &[u8] = b"lost";

static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Stands for a mistake by which a delivery that is owed is not at hand. One test of this process counts here.
pub(crate) fn loses(body: &[u8]) -> bool {
    body == LOST && !IS_LOST.swap(true, Ordering::SeqCst)
}

/// L8: its mailbox must not wait for it for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_not_at_hand_when_it_starts_makes_its_partition_start_again() {
    let rig = Rig::start("ok").await;
    rig.append(rig.delivery_with_body("lost", LOST)).await;
    rig.append_numbered(0..3).await;
    let run = rig.run();
    rig.wait_done(4).await;
    run.stop().await;
    assert_eq!(rig.receiver.snapshot().total.received, 4);
    let claims = rig.journal().await.iter().filter(|kind| matches!(kind, Kind::Claim(_))).count();
    assert_eq!(claims, 2 + 1, "of both partitions, and once more of the one that failed");
}

fn sequences(rig: &Rig) -> Vec<u64> {
    rig.receiver.receipts().iter().filter_map(|r| r.order.as_ref().map(|o| o.sequence)).collect()
}

/// What a healthy run leaves in the journal: who owned the partition, and how it ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_delivery_writes_nothing_to_the_journal() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..50).await;
    let run = rig.run();
    rig.wait_done(50).await;
    run.stop().await;
    let journal = rig.journal().await;
    let expected = |kind: &Kind| matches!(kind, Kind::Claim(_) | Kind::Snapshot(_) | Kind::HandOff(_));
    assert!(journal.iter().all(expected), "{journal:?}");
    assert!(
        matches!(journal.last(), Some(Kind::HandOff(unfinished)) if unfinished.is_empty()),
        "{journal:?}"
    );
}

/// A dead recipient holds its own mailbox: neither the others of its partition nor the commit.
#[tokio::test(flavor = "multi_thread")]
async fn i8_a_dead_recipient_holds_neither_its_partition_nor_the_commit() {
    let rig = Rig::start("status=503").await.with_waits(vec![HOUR]);
    for n in 0..100 {
        rig.append_numbered(n * 3..n * 3 + 3).await;
        rig.append(rig.other(n)).await;
    }
    let run = rig.run();
    let others = |r: &mailrail_demo::receiver::ReceiverReport| r.endpoints.get("other").map(|e| e.received);
    rig.receiver.reached(|r| others(r) == Some(100)).await;
    rig.wait_passed(400).await;
    rig.wait_held(300).await;
    assert_eq!(rig.receiver.snapshot().endpoints["main"].received, 1, "one attempt, of the head");
    run.stop().await;
    assert_eq!(rig.metrics.deliver.held.get(), 0, "given back");
}

/// I10: what the lease keeps from being written was never tried.
#[tokio::test(flavor = "multi_thread")]
async fn i10_a_request_that_is_withheld_is_no_attempt() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..3).await;
    let egress = Rig::egress();
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    // The first of the service counts; it asks its lease, which never ends here.
    egress.ask_before_sending(move || count.fetch_add(1, Ordering::SeqCst) >= 5);
    let run = rig.run_through(egress);
    rig.wait_done(3).await;
    run.stop().await;
    assert_eq!(asked.load(Ordering::SeqCst), 5 + 3, "five were withheld");
    assert_eq!(sequences(&rig), [0, 1, 2]);
    assert!(rig.receiver.receipts().iter().all(|receipt| receipt.attempt == Some(1)));
}

/// I13: the count of attempts survives the owner, and a head that was tried goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn i13_attempts_are_counted_over_owners() {
    let rig = Rig::start("status=503").await.with_waits(vec![Duration::from_millis(30); 5]);
    rig.append_numbered(0..1).await;
    while rig.attempts().await.last().map(|a| a.outcome) != Some(Outcome::Dead(DeadReason::Exhausted)) {
        let seen = rig.receiver.snapshot().total.received;
        let run = rig.run();
        rig.receiver.reached(|r| r.total.received > seen).await;
        run.stop().await;
    }
    let numbers: Vec<u32> = rig.attempts().await.iter().map(|a| a.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert_eq!(rig.dead_letters().await[0].delivery.history.attempts, 6);
}

/// N07: a paused endpoint keeps its mail, over a restart too, and gets it in order; pausing costs no attempt.
#[tokio::test(flavor = "multi_thread")]
async fn n07_a_paused_endpoint_keeps_its_mail_and_resumes_in_order() {
    let rig = Rig::start("ok").await;
    rig.pause().await;
    rig.append_numbered(0..300).await;
    let run = rig.run();
    rig.wait_held(300).await;
    rig.wait_passed(300).await;
    run.stop().await;
    let run = rig.run();
    rig.append_numbered(300..320).await;
    rig.wait_held(320).await;
    assert_eq!(rig.receiver.snapshot().total.received, 0);
    rig.resume().await;
    rig.wait_done(320).await;
    run.stop().await;
    assert_eq!(sequences(&rig), (0..320).collect::<Vec<_>>());
    // How late they are is the pause's doing, also of what stood behind it and of what an owner before parked.
    let page = rig.metrics.render();
    for (held, count) in [(false, 0.0), (true, 320.0)] {
        let series = format!("mailrail_deliver_first_attempt_delay_seconds_count{{held=\"{held}\"");
        assert_eq!(crate::settle::tests::sum(&page, &series), count, "{series} in {page}");
    }
    assert!(rig.receiver.receipts().iter().all(|r| r.attempt == Some(1)), "no attempt was burned");
}

/// A pause that ends while nobody owns the partition is noticed by the next owner.
#[tokio::test(flavor = "multi_thread")]
async fn n07_a_pause_that_ended_without_an_owner_is_over() {
    let rig = Rig::start("ok").await;
    rig.pause().await;
    rig.append_numbered(0..5).await;
    let run = rig.run();
    rig.wait_held(5).await;
    run.stop().await;
    rig.resume().await;
    let run = rig.run();
    rig.wait_done(5).await;
    run.stop().await;
    assert_eq!(sequences(&rig), [0, 1, 2, 3, 4]);
}

/// What is held past its deadline is dead-lettered with a reason, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn n07_what_is_paused_past_its_deadline_is_a_dead_letter() {
    let rig = Rig::start("ok").await;
    rig.pause().await;
    for n in 0..5 {
        let mut delivery = rig.numbered(n);
        delivery.deadline = delivery.matched_at.plus(Duration::from_millis(700));
        rig.append(delivery).await;
    }
    let run = rig.run();
    rig.wait_done(5).await;
    run.stop().await;
    let reasons: Vec<_> = rig.dead_letters().await.iter().map(|l| l.reason).collect();
    assert_eq!(reasons, [DeadReason::Expired; 5]);
    assert_eq!(rig.receiver.snapshot().total.received, 0);
}

/// X06: what is parked for a subscription that is deleted is cancelled, with a record each.
#[tokio::test(flavor = "multi_thread")]
async fn x06_a_parked_backlog_is_cancelled_with_its_subscription() {
    let rig = Rig::start("ok").await;
    rig.pause().await;
    rig.append_numbered(0..150).await;
    let run = rig.run();
    rig.wait_held(150).await;
    rig.unsubscribe().await;
    rig.resume().await;
    rig.wait_done(150).await;
    run.stop().await;
    let attempts = rig.attempts().await;
    assert_eq!(attempts.len(), 150);
    let cancelled = Outcome::Cancelled(CancelReason::SubscriptionDeleted);
    assert!(attempts.iter().all(|a| a.outcome == cancelled), "{:?}", attempts[0]);
    assert_eq!(rig.receiver.snapshot().total.received, 0);
}

/// I8: an attempt that takes long leaves the window, goes on, and is not made again.
#[tokio::test(flavor = "multi_thread")]
async fn i8_a_slow_attempt_does_not_hold_the_commit() {
    let rig = Rig::start("delay=3500,ok").await;
    rig.append_numbered(0..2).await;
    rig.append(rig.other(0)).await;
    let run = rig.run();
    rig.wait_passed(3).await;
    assert!(rig.attempts().await.len() < 3, "committed before the answer");
    rig.wait_done(3).await;
    run.stop().await;
    assert_eq!(sequences(&rig), [0, 1]);
    assert_eq!(rig.receiver.snapshot().total.duplicates, 0);
}

/// A strict mailbox whose head was tried for too long gives it up and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn s30_a_head_that_is_tried_too_long_is_given_up() {
    let rig = Rig::start("field=/kind=stuck:503").await.with_waits(vec![Duration::from_millis(50); 100]);
    let rig = rig.with_head_max_age(Duration::from_millis(120)).await;
    rig.append(rig.delivery_with_body("stuck", br#"{"kind":"stuck"}"#)).await;
    rig.append_numbered(0..3).await;
    let run = rig.run();
    rig.wait_done(4).await;
    run.stop().await;
    let letters = rig.dead_letters().await;
    assert_eq!(letters.iter().map(|l| l.reason).collect::<Vec<_>>(), [DeadReason::HeadMaxAge]);
    assert_eq!(sequences(&rig), [0, 1, 2]);
}

/// S29: of a tolerant mailbox all but the failing ones are through at once; those are tried on their own time, also by the
/// next owner.
#[tokio::test(flavor = "multi_thread")]
async fn s29_what_is_set_aside_survives_its_owner() {
    let rig = Rig::start("every=10:503").await.tolerant().await;
    let rig = rig.with_waits(vec![Duration::from_millis(1500)]);
    rig.append_numbered(0..100).await;
    let run = rig.run();
    rig.receiver.reached(|r| r.total.delivered >= 90).await;
    rig.wait_held(10).await;
    run.stop().await;
    let run = rig.run();
    rig.wait_done(100).await;
    run.stop().await;
    let report = rig.receiver.snapshot();
    assert_eq!((report.total.delivered, report.total.duplicates), (100, 0));
    let again = rig.receiver.receipts().iter().filter(|r| r.attempt == Some(2)).count();
    assert_eq!(again, 10);
}

/// A delivery whose attempt panics ends in quarantine; the mailbox goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_panics_ends_in_quarantine() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..2).await;
    rig.append(rig.delivery_with_body("poison", POISON)).await;
    rig.append_numbered(2..4).await;
    let run = rig.run();
    rig.wait_done(5).await;
    run.stop().await;
    assert_eq!(sequences(&rig), [0, 1, 2, 3]);
    let quarantined = rig.read("quarantine").await;
    assert_eq!(quarantined.len(), 1);
    let delivery = mailrail_wire::decode_delivery(&quarantined[0].value).expect("whole");
    assert_eq!(&delivery.event.body[..], POISON);
}

/// Backlogs of many mailboxes that are larger than what is kept at hand are drained in order by one pass after another.
#[tokio::test(flavor = "multi_thread")]
async fn i6_large_backlogs_of_many_mailboxes_are_drained_in_order() {
    let rig = Rig::start("ok").await;
    rig.pause().await;
    let padding = "x".repeat(4_000);
    for n in 0..100_u64 {
        for mailbox in 0..6_u32 {
            let body = format!(r#"{{"key":"{mailbox}","seq":{n},"pad":"{padding}"}}"#);
            let mut delivery = rig.delivery_with_body(&format!("{mailbox}-{n}"), body.as_bytes());
            delivery.mailbox.bucket = mailbox;
            rig.append(delivery).await;
        }
    }
    let run = rig.run();
    rig.wait_held(600).await;
    rig.resume().await;
    rig.wait_done(600).await;
    run.stop().await;
    let report = rig.receiver.snapshot();
    assert_eq!((report.total.received, report.total.order_violations), (600, 0));
}
