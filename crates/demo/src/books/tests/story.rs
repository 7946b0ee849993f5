//! A small history that can be told otherwise, and the log that it is written to.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::{Committed, GroupEvent, LocalLog, Log, NewRecord, TopicSpec};
use mailrail_types::{
    AppId, Attempt, AttemptResult, Attributes, DeadLetter, DeadReason, Delivery, DeliveryId, EndpointId,
    Event, EventId, History, Mailbox, Outcome, RetryReason, SubscriptionId, TenantId, Timestamp,
};

use super::super::{Accepted, Books, Claims, Fault, Pipeline, Statement};
use crate::receiver::Receipt;

pub(super) const PARTITIONS: u32 = 2;

pub(super) fn pipeline() -> Pipeline {
    let spec = |name: &str| TopicSpec { name: name.to_owned(), partitions: PARTITIONS, retention: None };
    Pipeline {
        events: spec("events"),
        deliveries: spec("deliveries"),
        attempts: spec("attempts"),
        dead_letters: spec("dead-letters"),
        match_group: "match".to_owned(),
    }
}

pub(super) fn tenant() -> TenantId {
    TenantId::new("acme").expect("name")
}

pub(super) fn event(n: u64) -> Event {
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

pub(super) fn subscription() -> SubscriptionId {
    SubscriptionId::new("all").expect("name")
}

pub(super) fn id(n: u64) -> DeliveryId {
    DeliveryId::derive(&event(n).id, &tenant(), &subscription())
}

pub(super) fn delivery(n: u64) -> Delivery {
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

pub(super) fn attempt(n: u64, outcome: Outcome) -> Attempt {
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

pub(super) fn receipt(n: u64, status: u16) -> Receipt {
    Receipt::bare("shop", &id(n).to_string(), Some(status))
}

/// What happened, in the order it is told.
#[derive(Clone)]
pub(super) struct Story {
    pub(super) events: Vec<u64>,
    pub(super) deliveries: Vec<u64>,
    pub(super) attempts: Vec<(u64, Outcome)>,
    pub(super) dead_letters: Vec<(u64, DeadReason)>,
    pub(super) receipts: Vec<Receipt>,
    pub(super) accepted: Vec<u64>,
    pub(super) expected: Vec<u64>,
    pub(super) matched: bool,
}

/// Events 1 to 4: 1 and 2 delivered, 2 at its second attempt; 3 rejected; 4 wanted by nobody.
pub(super) fn truth() -> Story {
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

pub(super) async fn open(folder: &Path) -> Arc<dyn Log> {
    let log = LocalLog::open(&folder.join("log.db")).expect("log");
    let p = pipeline();
    log.ensure_topics(&[p.events, p.deliveries, p.attempts, p.dead_letters]).await.expect("topics");
    Arc::new(log)
}

pub(super) async fn append(log: &dyn Log, topic: &str, partition: u64, value: Bytes) {
    let partition = u32::try_from(partition % u64::from(PARTITIONS)).expect("small");
    log.append(topic, partition, vec![NewRecord { value, ..NewRecord::default() }]).await.expect("append");
}

/// Commits all events, as match does.
pub(super) async fn commit_matched(log: &dyn Log) {
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
    pub(super) async fn write(&self, log: &dyn Log) {
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

    pub(super) fn reconcile(&self, books: &Books) -> Statement {
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

    pub(super) async fn statement(&self) -> Statement {
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
pub(super) async fn faults(change: impl FnOnce(&mut Story)) -> Vec<Fault> {
    let mut history = truth();
    change(&mut history);
    let statement = history.statement().await;
    assert_eq!(statement.balanced, statement.faults.is_empty());
    statement.faults
}
