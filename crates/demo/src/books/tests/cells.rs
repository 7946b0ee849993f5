//! Copies of cells, widths, and whose order counts.

use std::collections::HashMap;

use mailrail_types::{Attempt, Delivery, Forwarded, IntegrationId, Provider, SubscriptionId};

use super::*;

const BODY: &str = "sha of the body";

/// One delivery of event `n` in a mailbox.
#[derive(Clone)]
struct Copy {
    n: u64,
    endpoint: &'static str,
    event_type: Option<&'static str>,
    bucket: u32,
    forwarded: bool,
}

const fn copy(n: u64, endpoint: &'static str) -> Copy {
    Copy { n, endpoint, event_type: None, bucket: 0, forwarded: false }
}

impl Copy {
    fn subscription(&self) -> SubscriptionId {
        SubscriptionId::new(self.endpoint).expect("name")
    }

    fn id(&self) -> DeliveryId {
        DeliveryId::derive(&event(self.n).id, &tenant(), &self.subscription())
    }

    fn delivery(&self) -> Delivery {
        let mut delivery = delivery(self.n);
        delivery.id = self.id();
        delivery.subscription = self.subscription();
        delivery.endpoint = EndpointId::new(self.endpoint).expect("name");
        delivery.mailbox.endpoint = delivery.endpoint.clone();
        delivery.mailbox.event_type = self.event_type.map(Into::into);
        delivery.mailbox.bucket = self.bucket;
        delivery.event.forwarded = self.forwarded.then(|| {
            Box::new(Forwarded {
                provider: Provider::GitHub,
                integration: IntegrationId::new("code").expect("name"),
                method: "POST".into(),
                path: String::new(),
                headers: Vec::new(),
            })
        });
        delivery
    }

    fn receipt(&self) -> Receipt {
        Receipt { webhook_id: self.id().to_string(), body_sha256: BODY.into(), ..receipt(self.n, 200) }
    }
}

/// What it comes to when all of `copies` are matched and delivered, in that order, with `key` as the key of an event.
async fn statement(copies: &[Copy], strict: &[&str], key: impl Fn(u64) -> Option<String>) -> Statement {
    let receipts: Vec<Receipt> = copies.iter().map(Copy::receipt).collect();
    statement_of(copies, &receipts, strict, key).await
}

async fn statement_of(
    copies: &[Copy],
    receipts: &[Receipt],
    strict: &[&str],
    key: impl Fn(u64) -> Option<String>,
) -> Statement {
    let folder = tempfile::tempdir().expect("folder");
    let log = open(folder.path()).await;
    let events: std::collections::BTreeSet<u64> = copies.iter().map(|c| c.n).collect();
    for n in &events {
        append(log.as_ref(), "events", *n, mailrail_wire::encode_event(&event(*n))).await;
    }
    for copy in copies {
        append(log.as_ref(), "deliveries", copy.n, mailrail_wire::encode_delivery(&copy.delivery())).await;
        let delivered = Attempt { delivery: copy.id(), ..attempt(copy.n, Outcome::Delivered) };
        append(log.as_ref(), "attempts", copy.n, mailrail_wire::encode_attempt(&delivered)).await;
    }
    commit_matched(log.as_ref()).await;
    let books = Books::read(Arc::clone(&log), pipeline()).await.expect("books");
    let accepted: Vec<Accepted> = events
        .iter()
        .map(|n| Accepted { event: event(*n).id, tenant: tenant(), sequence: *n, ordering_key: key(*n) })
        .collect();
    let strict = strict.iter().map(|id| (tenant(), EndpointId::new(id).expect("name"))).collect();
    let bodies: HashMap<EventId, String> = events.iter().map(|n| (event(*n).id, BODY.to_owned())).collect();
    let statement = books.reconcile(&Claims {
        accepted: Some(&accepted),
        strict: Some(&strict),
        bodies: Some(&bodies),
        receipts: Some(receipts),
        ..Claims::default()
    });
    log.close(Duration::from_secs(5)).await;
    statement
}

#[tokio::test]
async fn only_the_order_of_a_key_at_a_strict_endpoint_counts() {
    let parity = |n: u64| Some((n % 2).to_string());
    let late = [copy(3, "audit"), copy(1, "audit")];
    let of =
        async |copies: &[Copy], strict: &[&str]| statement(copies, strict, parity).await.order_violations;
    assert_eq!(of(&late, &["audit"]).await, 1);
    assert_eq!(of(&late, &["shop"]).await, 0, "it tolerates reordering");
    assert_eq!(of(&[copy(2, "audit"), copy(1, "audit")], &["audit"]).await, 0, "two keys");
    assert_eq!(of(&[copy(3, "audit"), copy(1, "shop")], &["audit", "shop"]).await, 0, "two endpoints");
    // One key in two mailboxes of one endpoint: their order is the key's order all the same.
    let split = [Copy { bucket: 1, ..copy(3, "audit") }, copy(1, "audit")];
    assert_eq!(of(&split, &["audit"]).await, 1);
    // Without a key: in order among themselves.
    let without = statement(&[copy(2, "audit"), copy(1, "audit")], &["audit"], |_| None).await;
    assert_eq!(without.order_violations, 1);
}

#[tokio::test]
async fn widths_are_those_of_mailboxes_that_are_sized_by_rate() {
    let push = |n, endpoint, bucket| Copy { event_type: Some("push"), bucket, ..copy(n, endpoint) };
    let copies = [push(1, "feed", 0), push(2, "feed", 4), push(3, "feed", 4), push(4, "audit", 9)];
    let statement = statement(&copies, &["audit"], |_| None).await;
    assert_eq!(statement.faults, []);
    assert_eq!((statement.mailboxes, statement.widest), (3, 8), "bucket 4 is one of 8");

    let unsplit = [push(1, "feed", 0), push(2, "audit", 9), copy(3, "feed")];
    let statement = self::statement(&unsplit, &["audit"], |_| None).await;
    assert_eq!((statement.mailboxes, statement.widest), (3, 1));
    assert_eq!(self::statement(&unsplit[1..2], &["audit"], |_| None).await.widest, 0);
}

#[tokio::test]
async fn copies_of_cells_are_counted_when_they_are_delivered() {
    let to = |n, endpoint| Copy { forwarded: true, ..copy(n, endpoint) };
    let copies = [to(1, "cell-eu"), to(1, "cell-us"), to(2, "cell-eu"), copy(3, "shop")];
    let statement = statement(&copies, &[], |_| None).await;
    assert_eq!(statement.faults, []);
    assert_eq!((statement.delivered, statement.forwarded), (4, 3));
}

#[tokio::test]
async fn n05_other_bytes_are_found() {
    let copies = [copy(1, "shop"), copy(2, "shop")];
    let mut receipts: Vec<Receipt> = copies.iter().map(Copy::receipt).collect();
    receipts[1].body_sha256 = "sha of another body".into();
    receipts.push(receipts[1].clone());
    let statement = statement_of(&copies, &receipts, &[], |_| None).await;
    assert_eq!(statement.faults, [Fault::BodyChanged(copies[1].id())], "once");
}
