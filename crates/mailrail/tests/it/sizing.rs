//! Mailboxes sized by a rolling rate, through real processes (acceptance S13, S19, S21).

use crate::rig::{PATIENCE, Place, Rig};

/// Nobody listens on it.
const NO_REDIS: &str = "redis://127.0.0.1:1/";

async fn deliver_keyed(rig: &mut Rig, keys: u64, events_per_key: u64) {
    let producers: Vec<_> =
        (0..keys).map(|key| rig.produce_key(format!("key-{key}"), events_per_key)).collect();
    for producer in producers {
        producer.await.expect("every event was accepted");
    }
    let all = keys * events_per_key;
    let arrived = rig.receiver.reached(|r| r.endpoints.get("acme-wide").is_some_and(|e| e.delivered >= all));
    tokio::time::timeout(PATIENCE, arrived)
        .await
        .unwrap_or_else(|_| panic!("not all arrived: {}", rig.logs()));
}

/// S21, S19: a busy recipient gains mailboxes, and the metric says why.
#[tokio::test(flavor = "multi_thread")]
async fn s21_a_busy_tolerant_recipient_is_split() {
    let mut rig = Rig::start(Place::Embedded).await;
    deliver_keyed(&mut rig, 20, 10).await;
    let metrics = rig.metrics().await;
    let routed = |labels: &str| metrics.contains(&format!("mailrail_mailbox_routing_total{{{labels}}}"));
    let product = "surface=\"product_event\"";
    assert!(
        routed(&format!("{product},bucketed=\"false\",reason=\"under_rate\",buckets=\"1\"")),
        "{metrics}"
    );
    assert!(routed(&format!("{product},bucketed=\"true\",reason=\"bucketed\",buckets=\"8\"")), "{metrics}");
    assert!(routed(&format!("{product},bucketed=\"true\",reason=\"fixed\",buckets=\"10\"")), "{metrics}");
    rig.stop_all().await;
}

/// S13: without its Redis the door answers 202, the split is the widest, and the metric says so.
#[tokio::test(flavor = "multi_thread")]
async fn s13_without_redis_nothing_fails_and_the_split_is_widest() {
    let mut rig = Rig::start_with_redis(Place::Embedded, Some(NO_REDIS.to_owned())).await;
    deliver_keyed(&mut rig, 5, 4).await;
    let metrics = rig.metrics().await;
    let labels = "surface=\"product_event\",bucketed=\"true\",reason=\"sizing_unavailable\",buckets=\"64\"";
    assert!(metrics.contains(&format!("mailrail_mailbox_routing_total{{{labels}}}")), "{metrics}");
    rig.stop_all().await;
}
