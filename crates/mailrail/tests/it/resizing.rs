//! A resize with thousands of deliveries queued: nothing is lost, and order is kept wherever it is promised (acceptance S20).

use std::collections::{BTreeMap, BTreeSet};

use mailrail_demo::books::Fault;

use crate::rig::{Place, Rig, TOLERANT};
use crate::services;

const KEYS: u64 = 40;
/// With four endpoints: 10,000 deliveries queued.
const EVENTS_PER_KEY: u64 = 63;

/// Buckets that a key was in, by endpoint and key.
type Buckets = BTreeMap<(String, String), BTreeSet<u32>>;

/// S20, S17: options change with 10,000 deliveries queued: the new ones size the second half, and all are delivered.
/// A14, A61: all events are matched while no process delivers.
#[tokio::test(flavor = "multi_thread")]
async fn s20_a_resize_with_thousands_queued_loses_and_reorders_nothing() {
    let (Some(kafka), Some(postgres)) =
        (services::address("MAILRAIL_TEST_KAFKA"), services::address("MAILRAIL_TEST_POSTGRES"))
    else {
        return;
    };
    let mut rig = Rig::start(Place::Services { kafka, postgres }).await;
    let delivers = rig.stop_role("deliver").await;
    let mut accepted = Vec::new();
    for half in 0..2 {
        let producers: Vec<_> = (half * KEYS / 2..(half + 1) * KEYS / 2)
            .map(|key| rig.produce_key(format!("key-{key}"), EVENTS_PER_KEY))
            .collect();
        for producer in producers {
            accepted.extend(producer.await.expect("produced"));
        }
        // S17: options change while everything runs, and the second half is sized by them.
        rig.operate(&[
            "classes",
            "set",
            "tolerant",
            "--threads",
            "1",
            "--payloads-per-thread",
            "2",
            "--buckets-max",
            "8",
        ]);
    }
    rig.wait_matched(KEYS * EVENTS_PER_KEY * 4).await;
    rig.start_again(delivers);
    let statement = rig.close_books(&accepted).await;
    // The books take a mailbox for one sequence; here each key has its own, and is checked below.
    let faults: Vec<_> = statement.faults.iter().filter(|f| !matches!(f, Fault::OutOfOrder { .. })).collect();
    assert!(faults.is_empty(), "{faults:?} {}", rig.logs());
    assert_eq!((statement.matched, statement.in_progress), (KEYS * EVENTS_PER_KEY * 4, 0));

    let mut buckets = Buckets::new();
    for delivery in rig.deliveries().await {
        let key = delivery.event.ordering_key.expect("keyed");
        buckets.entry((delivery.endpoint.to_string(), key)).or_default().insert(delivery.mailbox.bucket);
    }
    check_widths(&buckets);
    check_order(&rig, &buckets);
    rig.stop_all().await;
}

fn check_widths(buckets: &Buckets) {
    let used = |strict: bool| {
        let of = buckets.iter().filter(|((endpoint, _), _)| (endpoint == TOLERANT) != strict);
        of.flat_map(|(_, buckets)| buckets).copied().collect::<BTreeSet<_>>()
    };
    assert!(used(false).len() >= 4, "the tolerant recipient was split: {:?}", used(false));
    assert!(used(true).iter().all(|bucket| *bucket < 10), "a strict one has ten buckets: {:?}", used(true));
    let strict_moved = buckets.iter().find(|((endpoint, _), of)| endpoint != TOLERANT && of.len() > 1);
    assert_eq!(strict_moved, None, "a key of a strict class never moves");
}

/// First arrivals of a key come in its order: always at a strict endpoint, and at the tolerant one if its bucket never
/// changed.
fn check_order(rig: &Rig, buckets: &Buckets) {
    let mut seen: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for receipt in rig.receiver.receipts() {
        let order = receipt.order.expect("an order");
        let endpoint = receipt.endpoint.split_once('-').expect("tenant and name").1.to_owned();
        let of = seen.entry((endpoint, order.group)).or_default();
        if !of.contains(&order.sequence) {
            of.push(order.sequence);
        }
    }
    let mut unmoved = 0;
    for (mailbox, sequences) in seen {
        if mailbox.0 != TOLERANT || buckets[&mailbox].len() == 1 {
            unmoved += u32::from(mailbox.0 == TOLERANT);
            assert!(sequences.is_sorted(), "{mailbox:?} came in the order {sequences:?}");
        }
    }
    assert!(unmoved > 0, "some keys of the tolerant endpoint stayed where they were");
}
