//! Several attempts of one mailbox at a time, where its class lets them overtake each other.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rig::Rig;

/// How long the receiver takes to answer.
const SLOW: Duration = Duration::from_millis(60);

fn slow() -> String {
    format!("delay={},ok", SLOW.as_millis())
}

/// As many as the class says run at a time, and no more; a receiver that is slow shows it.
#[tokio::test(flavor = "multi_thread")]
async fn s29_a_tolerant_mailbox_has_its_threads_in_flight_and_no_more() {
    let rig = Rig::start(&slow()).await.tolerant().await;
    rig.append_numbered(0..40).await;
    let run = rig.run();
    rig.wait_done(40).await;
    run.stop().await;
    let most = rig.receiver.in_flight_max();
    assert!((2..=4).contains(&most), "{most} at a time");
    assert_eq!(rig.receiver.snapshot().total.duplicates, 0);
}

/// Of one ordering key there is one at a time, in order: the next one arrives after the answer of the one before.
#[tokio::test(flavor = "multi_thread")]
async fn i12b_deliveries_of_one_ordering_key_go_one_at_a_time_and_in_order() {
    let rig = Rig::start(&slow()).await.tolerant().await;
    for n in 0..36 {
        let mut delivery = rig.numbered(n);
        delivery.event.ordering_key = Some(format!("order-{}", n % 3));
        rig.append(delivery).await;
    }
    let run = rig.run();
    rig.wait_done(36).await;
    run.stop().await;
    let most = rig.receiver.in_flight_max();
    assert!((2..=3).contains(&most), "{most} at a time of three keys");
    let mut of_key: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for receipt in rig.receiver.receipts() {
        let n = receipt.order.as_ref().expect("numbered").sequence;
        of_key.entry(n % 3).or_default().push((n, receipt.arrived_at_ms));
    }
    assert_eq!(of_key.values().map(Vec::len).sum::<usize>(), 36);
    // The receiver's clock shows whole milliseconds.
    let least = u64::try_from(SLOW.as_millis()).expect("small") - 1;
    for arrivals in of_key.values() {
        for pair in arrivals.windows(2) {
            assert!(pair[0].0 < pair[1].0, "in order: {arrivals:?}");
            assert!(pair[1].1 - pair[0].1 >= least, "one at a time: {arrivals:?}");
        }
    }
}

/// I12: what its class does not allow never happens.
#[tokio::test(flavor = "multi_thread")]
async fn s30_a_strict_mailbox_has_one_in_flight() {
    let rig = Rig::start("delay=15,ok").await;
    rig.append_numbered(0..30).await;
    let run = rig.run();
    rig.wait_done(30).await;
    run.stop().await;
    assert_eq!(rig.receiver.in_flight_max(), 1);
    assert_eq!(rig.receiver.snapshot().total.order_violations, 0);
}
