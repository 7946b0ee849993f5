//! The checker is checked: a small true history balances, and each planted fault is found, as what it is.

mod cells;
mod opened_later;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use indicatif::ProgressBar;
use mailrail_log::{Committed, GroupEvent, LocalLog, Log, NewRecord, TopicSpec};
use mailrail_types::{
    AppId, Attempt, AttemptResult, Attributes, CancelReason, DeadLetter, DeadReason, Delivery, DeliveryId,
    EndpointId, Event, EventId, History, Mailbox, Outcome, RetryReason, SubscriptionId, TenantId, Timestamp,
};

use super::*;
use crate::receiver::Receipt;

const PARTITIONS: u32 = 2;

fn pipeline() -> Pipeline {
    let spec = |name: &str| TopicSpec { name: name.to_owned(), partitions: PARTITIONS, retention: None };
    Pipeline {
        events: spec("events"),
        deliveries: spec("deliveries"),
        attempts: spec("attempts"),
        dead_letters: spec("dead-letters"),
        match_group: "match".to_owned(),
    }
}

fn tenant() -> TenantId {
    TenantId::new("acme").expect("name")
}

fn event(n: u64) -> Event {
    Event {
        id: EventId::derive(&tenant(), "/test", &n.to_string()),
        tenant: tenant(),
        attributes: Attributes {
            id: n.to_string(),
            source: "/test".into(),
            event_type: "t".into(),
            ..Default::default()
        },
        ordering_key: Some("k".into()),
        body: Bytes::from(n.to_string()),
        trace: None,
        forwarded: None,
        accepted_at: Timestamp(1),
        setup_seq: 1,
        unknown: Bytes::new(),
    }
}

fn subscription() -> SubscriptionId {
    SubscriptionId::new("all").expect("name")
}

fn id(n: u64) -> DeliveryId {
    DeliveryId::derive(&event(n).id, &tenant(), &subscription())
}

fn delivery(n: u64) -> Delivery {
    let endpoint = EndpointId::new("shop").expect("name");
    Delivery {
        id: id(n),
        event: event(n),
        app: AppId::new("shop").expect("name"),
        subscription: subscription(),
        endpoint: endpoint.clone(),
        mailbox: Mailbox {
            pipeline: "default".into(),
            region: "".into(),
            tenant: tenant(),
            endpoint,
            event_type: None,
            bucket: 0,
        },
        setup_seq: 1,
        matched_at: Timestamp(2),
        deadline: Timestamp(1_000_000),
        history: History::default(),
        unknown: Bytes::new(),
    }
}

fn attempt(n: u64, outcome: Outcome) -> Attempt {
    Attempt {
        delivery: id(n),
        event: event(n).id,
        tenant: tenant(),
        endpoint: EndpointId::new("shop").expect("name"),
        subscription: subscription(),
        number: 1,
        started_at: Timestamp(3),
        duration_ms: 1,
        result: AttemptResult::default(),
        outcome,
        unknown: Bytes::new(),
    }
}

fn receipt(n: u64, status: u16) -> Receipt {
    Receipt {
        position: 0,
        arrived_at_ms: 0,
        endpoint: "shop".into(),
        webhook_id: id(n).to_string(),
        event_id: None,
        redrive: None,
        attempt: None,
        sequence: None,
        content_type: None,
        body_bytes: 0,
        body_sha256: String::new(),
        verified: true,
        status: Some(status),
        order: None,
        body: None,
    }
}

/// What happened, in the order it is told.
#[derive(Clone)]
struct Story {
    events: Vec<u64>,
    deliveries: Vec<u64>,
    attempts: Vec<(u64, Outcome)>,
    dead_letters: Vec<(u64, DeadReason)>,
    receipts: Vec<Receipt>,
    accepted: Vec<u64>,
    expected: Vec<u64>,
    matched: bool,
}

/// Events 1 to 4: 1 and 2 delivered, 2 at its second attempt; 3 rejected; 4 wanted by nobody.
fn truth() -> Story {
    let retry = Outcome::Retry { due: Timestamp(9), reason: RetryReason::ServerError };
    Story {
        events: vec![1, 2, 3, 4],
        deliveries: vec![1, 2, 3],
        attempts: vec![
            (1, Outcome::Delivered),
            (2, retry),
            (2, Outcome::Delivered),
            (3, Outcome::Dead(DeadReason::Rejected)),
        ],
        dead_letters: vec![(3, DeadReason::Rejected)],
        receipts: vec![receipt(1, 200), receipt(2, 503), receipt(2, 200), receipt(3, 400)],
        accepted: vec![1, 2, 3, 4],
        expected: vec![1, 2, 3],
        matched: true,
    }
}

async fn open(folder: &Path) -> Arc<dyn Log> {
    let log = LocalLog::open(&folder.join("log.db")).expect("log");
    let p = pipeline();
    log.ensure_topics(&[p.events, p.deliveries, p.attempts, p.dead_letters]).await.expect("topics");
    Arc::new(log)
}

async fn append(log: &dyn Log, topic: &str, partition: u64, value: Bytes) {
    let partition = u32::try_from(partition % u64::from(PARTITIONS)).expect("small");
    log.append(topic, partition, vec![NewRecord { value, ..NewRecord::default() }]).await.expect("append");
}

/// Commits all events, as match does.
async fn commit_matched(log: &dyn Log) {
    let member = log.join("match", "events").await.expect("member");
    let Some(GroupEvent::Assigned { .. }) = member.next().await else { panic!("no assignment") };
    for partition in 0..PARTITIONS {
        let offset = log.bounds("events", partition).await.expect("bounds").high;
        member
            .commit(vec![(partition, Committed { offset, metadata: String::new() })])
            .await
            .expect("commit");
    }
}

impl Story {
    async fn write(&self, log: &dyn Log) {
        for n in &self.events {
            append(log, "events", *n, mailrail_wire::encode_event(&event(*n))).await;
        }
        for n in &self.deliveries {
            append(log, "deliveries", *n, mailrail_wire::encode_delivery(&delivery(*n))).await;
        }
        for (n, outcome) in &self.attempts {
            append(log, "attempts", *n, mailrail_wire::encode_attempt(&attempt(*n, *outcome))).await;
        }
        for (n, reason) in &self.dead_letters {
            let letter = DeadLetter {
                delivery: delivery(*n),
                reason: *reason,
                died_at: Timestamp(5),
                attempts: Vec::new(),
                unknown: Bytes::new(),
            };
            append(log, "dead-letters", *n, mailrail_wire::encode_dead_letter(&letter)).await;
        }
        if self.matched {
            commit_matched(log).await;
        }
    }

    fn reconcile(&self, books: &Books) -> Statement {
        let accepted: Vec<Accepted> = self
            .accepted
            .iter()
            .map(|n| Accepted { event: event(*n).id, tenant: tenant(), sequence: *n, ordering_key: None })
            .collect();
        let expected: HashSet<DeliveryId> = self.expected.iter().map(|n| id(*n)).collect();
        books.reconcile(&Claims {
            accepted: Some(&accepted),
            expected: Some(&expected),
            receipts: Some(&self.receipts),
            ..Claims::default()
        })
    }

    async fn statement(&self) -> Statement {
        let folder = tempfile::tempdir().expect("folder");
        let log = open(folder.path()).await;
        self.write(log.as_ref()).await;
        let books = Books::read(Arc::clone(&log), pipeline()).await.expect("books");
        let statement = self.reconcile(&books);
        log.close(Duration::from_secs(5)).await;
        statement
    }
}

/// Changes the truth and gives the faults that are found.
async fn faults(change: impl FnOnce(&mut Story)) -> Vec<Fault> {
    let mut history = truth();
    change(&mut history);
    let statement = history.statement().await;
    assert_eq!(statement.balanced, statement.faults.is_empty());
    statement.faults
}

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
