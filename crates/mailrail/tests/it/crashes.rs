//! A delivery that kills whoever attempts it, on real Kafka: it ends in quarantine, and everything else arrives (I16). What
//! kills is the test, as soon as the attempt has reached the receiver.

use crate::fleet::{Fleet, PATIENCE, Plan, until};

/// As often as it may kill before it is found: three deaths without progress, three under trial, and as many again for attempts
/// that others let make progress.
const KILLS_MAX: u64 = 12;

async fn quarantined(fleet: &Fleet) -> Vec<String> {
    let mut reasons = Vec::new();
    let take = |_, record: &mailrail_log::StoredRecord| {
        let text = |value: &bytes::Bytes| String::from_utf8_lossy(value).into_owned();
        reasons.extend(record.headers.iter().map(|(_, value)| text(value)));
    };
    fleet.tail("quarantine").catch_up(take).await;
    reasons
}

#[tokio::test(flavor = "multi_thread")]
async fn i16_a_delivery_that_kills_its_process_ends_in_quarantine_and_nothing_else_does() {
    let recipients = [("killer", "hang", "strict"), ("well", "ok", "strict")];
    let plan = Plan { partitions: 2, ..Plan::new(&recipients) };
    let Some(mut fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    fleet.feeder().feed("killer", 0..1, 1).await;
    fleet.feeder().feed("well", 0..10, 20).await;
    let mut kills = 0;
    loop {
        let attempted = fleet.receiver.reached(|r| r.endpoints["killer"].received > kills);
        let found = until("it is in quarantine", async || !quarantined(&fleet).await.is_empty());
        tokio::select! {
            attempted = tokio::time::timeout(PATIENCE, attempted) => {
                assert!(attempted.is_ok(), "it is neither tried nor set aside: {}", fleet.logs());
            }
            () = found => break,
        }
        kills = fleet.receiver.snapshot().endpoints["killer"].received;
        assert!(kills <= KILLS_MAX, "it is never found: {}", fleet.logs());
        fleet.members[0].process.kill_and_restart();
    }
    until("everything else arrived", async || {
        let well = fleet.receiver.snapshot().endpoints["well"];
        well.received - well.duplicates == 200
    })
    .await;
    let reasons = quarantined(&fleet).await;
    let blamed = reasons.iter().filter(|reason| reason.starts_with("crashes_the_process")).count();
    assert_eq!(blamed, 1, "{reasons:?}");
    assert_eq!(fleet.receiver.snapshot().total.order_violations, 0);
    fleet.stop(fleet.members.len()).await;
}
