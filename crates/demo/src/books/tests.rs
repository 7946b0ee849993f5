//! The checker is checked: a small true history balances, and each planted fault is found, as what it is.

mod cells;
mod opened_later;
mod story;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use indicatif::ProgressBar;
use mailrail_types::{CancelReason, DeadReason, DeliveryId, Outcome};

use super::*;
use crate::receiver::Receipt;
use story::*;

#[tokio::test]
async fn a_true_history_balances() {
    let statement = truth().statement().await;
    assert_eq!(statement.faults, []);
    assert_eq!(
        statement.json_line(),
        r#"{"accepted":4,"matched":3,"delivered":2,"verified":2,"dead_lettered":1,"forwarded":0,"mailboxes":1,"widest":0,"order_violations":0,"sequence_gaps":0,"balanced":true}"#
    );
    assert_eq!((statement.in_progress, statement.expired, statement.cancelled), (0, 0, 0));
}

#[tokio::test]
async fn n06_a_number_that_never_came_is_counted_and_is_no_fault() {
    let numbered = |n: u64, number: u64| Receipt {
        sequence: Some(format!(r#"{number};key="00000000000000ff";epoch="0.7.0";offset={n}"#)),
        ..receipt(n, 200)
    };
    let mut history = truth();
    history.receipts = vec![numbered(1, 1), numbered(2, 4)];
    let statement = history.statement().await;
    assert_eq!((statement.faults.as_slice(), statement.sequence_gaps), ([].as_slice(), 2));
    history.receipts.push(numbered(1, 1));
    assert_eq!(history.statement().await.sequence_gaps, 2);
}

#[tokio::test]
async fn a_crash_that_repeats_work_still_balances() {
    let repeated = |h: &mut Story| {
        h.events.push(2);
        h.deliveries.extend([1, 2]);
        h.attempts.push((1, Outcome::Delivered));
        h.receipts.extend([receipt(1, 200), receipt(2, 200)]);
        h.dead_letters.push((3, DeadReason::Rejected));
    };
    assert_eq!(faults(repeated).await, []);
    let mut history = truth();
    repeated(&mut history);
    let statement = history.statement().await;
    assert_eq!((statement.matched, statement.delivered, statement.duplicates), (3, 2, 2));
}

#[tokio::test]
async fn every_way_to_end_is_an_end() {
    let mut history = truth();
    history.dead_letters = vec![(3, DeadReason::Expired)];
    history.attempts[3] = (3, Outcome::Dead(DeadReason::Expired));
    history.attempts[0] = (1, Outcome::Cancelled(CancelReason::EndpointDeleted));
    let statement = history.statement().await;
    assert_eq!(statement.faults, []);
    assert_eq!((statement.expired, statement.cancelled, statement.dead_lettered), (1, 1, 0));
}

#[tokio::test]
async fn a10_a_lost_event_is_found() {
    assert_eq!(faults(|h| h.accepted.push(5)).await, [Fault::EventLost(event(5).id)]);
}

#[tokio::test]
async fn a10_a_lost_delivery_is_found() {
    assert_eq!(faults(|h| h.expected.push(4)).await, [Fault::DeliveryLost(id(4))]);
    // Recorded as delivered, and nobody got it.
    let never_sent = faults(|h| drop(h.receipts.remove(0))).await;
    assert_eq!(never_sent, [Fault::NotReceived(id(1))]);
    // The receiver answered 500, and it was recorded as delivered.
    assert_eq!(faults(|h| h.receipts[0].status = Some(500)).await, [Fault::NotReceived(id(1))]);
}

#[tokio::test]
async fn a10_an_unsettled_delivery_is_found() {
    assert_eq!(faults(|h| h.attempts.retain(|(n, _)| *n != 1)).await, [Fault::Unsettled(id(1))]);
    // An attempt that says it is dead, and no dead letter: the payload is lost.
    assert_eq!(faults(|h| h.dead_letters.clear()).await, [Fault::Unsettled(id(3))]);
    assert_eq!(faults(|h| h.matched = false).await, [Fault::Unmatched(4)]);
}

#[tokio::test]
async fn a10_a_double_end_is_found() {
    let found = faults(|h| h.dead_letters.push((1, DeadReason::Exhausted))).await;
    assert_eq!(found, [Fault::TwoEnds { delivery: id(1), ends: "delivered, dead-lettered".into() }]);
}

#[tokio::test]
async fn what_came_from_nowhere_is_found() {
    assert_eq!(faults(|h| h.expected.retain(|n| *n != 2)).await, [Fault::DeliveryUnwanted(id(2))]);
    let no_event = faults(|h| {
        h.events.retain(|n| *n != 1);
        h.accepted.retain(|n| *n != 1);
    });
    assert_eq!(no_event.await, [Fault::EventUnknown { delivery: id(1), event: event(1).id }]);
    let no_delivery = faults(|h| {
        h.deliveries.retain(|n| *n != 1);
        h.expected.retain(|n| *n != 1);
    });
    assert_eq!(no_delivery.await, [Fault::EndUnknown(id(1)), Fault::ReceivedUnknown(id(1).to_string())]);
    assert_eq!(faults(|h| h.receipts[3].verified = false).await, [Fault::BadSignatures(1)]);
}

#[tokio::test]
async fn an_order_violation_is_found() {
    let mailbox = delivery(1).mailbox.key();
    let late = |n| Fault::OutOfOrder { mailbox: mailbox.clone(), delivery: id(n) };
    assert_eq!(faults(|h| h.receipts.swap(0, 2)).await, [late(1)]);
    // Asked for in order, but 3 was let past while 2 waited for its retry.
    assert_eq!(
        faults(|h| {
            h.receipts[3].status = Some(200);
            h.receipts.swap(2, 3);
        })
        .await,
        [late(2)]
    );
    let mut history = truth();
    history.receipts.swap(0, 2);
    assert_eq!(history.statement().await.order_violations, 1);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_found_and_stops_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let log = open(folder.path()).await;
    append(log.as_ref(), "attempts", 0, Bytes::from_static(b"\xff\xff")).await;
    let history = truth();
    history.write(log.as_ref()).await;
    let statement = history.reconcile(&Books::read(Arc::clone(&log), pipeline()).await.expect("books"));
    assert!(
        matches!(statement.faults.as_slice(), [Fault::Unreadable { offset: 0, .. }]),
        "{:?}",
        statement.faults
    );
    log.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_log_without_its_beginning_shows_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let log = open(folder.path()).await;
    let history = truth();
    history.write(log.as_ref()).await;
    log.trim("attempts", 1, 1).await.expect("trim");
    let statement = history.reconcile(&Books::read(Arc::clone(&log), pipeline()).await.expect("books"));
    let trimmed = Fault::Trimmed { topic: "attempts".into(), partition: 1, records: 1 };
    assert!(statement.faults.contains(&trimmed), "{:?}", statement.faults);
    log.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn books_wait_until_all_is_settled() {
    let folder = tempfile::tempdir().expect("folder");
    let log = open(folder.path()).await;
    let mut begun = truth();
    let rest: Vec<(u64, Outcome)> = begun.attempts.drain(2..).collect();
    begun.write(log.as_ref()).await;
    let expected: HashSet<DeliveryId> = begun.expected.iter().map(|n| id(*n)).collect();
    let mut books = Books::read(Arc::clone(&log), pipeline()).await.expect("books");
    let bar = ProgressBar::hidden();

    let settled = settle(&mut books, Some(&expected), Duration::ZERO, &bar).await.expect("readable");
    assert!(!settled);
    assert_eq!(books.unsettled(), Unsettled { unmatched: 0, in_progress: 1, deliveries: 3 });

    for (n, outcome) in rest {
        append(log.as_ref(), "attempts", n, mailrail_wire::encode_attempt(&attempt(n, outcome))).await;
    }
    assert!(settle(&mut books, Some(&expected), Duration::from_secs(60), &bar).await.expect("readable"));
    assert_eq!(bar.position(), 3);
    assert_eq!(truth().reconcile(&books).faults, []);
    log.close(Duration::from_secs(5)).await;
}
