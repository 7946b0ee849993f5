//! Two pipelines: what is of one is not felt in the other.

use std::time::Duration;

use mailrail_log::{Log, NewRecord, TopicSpec};
use mailrail_policy::RetrySchedule;
use mailrail_types::{DeadReason, Delivery};

use super::pressure::{PATIENCE, append_one_each, received_by, until};
use super::rig::{PARTITIONS, Rig};
use crate::Config;

/// The pipeline `b` beside that of the rig: topics and a group of its own, an attempt of 2 s, and one retry.
fn brief(rig: &Rig) -> Config {
    Config {
        deliveries_topic: "deliveries.b".into(),
        attempts_topic: "attempts.b".into(),
        dead_letters_topic: "dead-letters.b".into(),
        quarantine_topic: "quarantine.b".into(),
        journal_topic: "journal.b".into(),
        group: "deliver.b".into(),
        attempt_timeout: Duration::from_secs(2),
        retry: RetrySchedule::list(vec![Duration::from_millis(20)]).expect("a schedule"),
        ..rig.config()
    }
}

async fn append_to_brief(rig: &Rig, delivery: &Delivery) {
    let value = mailrail_wire::encode_delivery(delivery);
    let record = NewRecord { value, ..NewRecord::default() };
    rig.log.append("deliveries.b", 0, vec![record]).await.expect("appended");
}

fn delivered_to_other(rig: &Rig) -> u64 {
    rig.receiver.snapshot().endpoints.get("other").map_or(0, |of| of.delivered)
}

/// A33, A34, A45: one pipeline has more than it has room for, and nobody answers it; the other delivers all the same, also while
/// the first is killed and started again. The same endpoint gets one open attempt by the patience of the first, and by that of the
/// second two short ones and a dead letter, which is in the second one's dead letters and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn a33_a_flooded_pipeline_is_not_felt_in_another_with_its_own_patience() {
    let rig = Rig::start("hang").await.with_room_for_patient(8);
    let of_brief = ["deliveries.b", "journal.b", "attempts.b", "dead-letters.b", "quarantine.b"];
    let topics = of_brief.map(|t| TopicSpec { name: t.to_owned(), partitions: PARTITIONS, retention: None });
    rig.log.ensure_topics(&topics).await.expect("topics");
    append_one_each(&rig, 100).await;
    let flooded = rig.run();
    until("the first one to give it no more", || received_by(&rig, "main") == 6).await;

    let hopeless = rig.delivery_with_body("hopeless", b"{}");
    append_to_brief(&rig, &hopeless).await;
    for n in 0..100 {
        append_to_brief(&rig, &rig.other(n)).await;
    }
    let brief = rig.run_with(brief(&rig), Rig::egress());
    until("all of the second", || delivered_to_other(&rig) >= 100).await;
    flooded.cut().await;
    let flooded = rig.run();
    for n in 100..150 {
        append_to_brief(&rig, &rig.other(n)).await;
    }
    until("all of the second, again", || delivered_to_other(&rig) >= 150).await;
    until("two short attempts", || of(&rig, &hopeless) == 2).await;
    let letters = async {
        loop {
            let letters = rig.read("dead-letters.b").await;
            if !letters.is_empty() {
                return letters;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let letters = tokio::time::timeout(PATIENCE, letters).await.expect("a dead letter");
    brief.stop().await;
    assert_eq!(letters.len(), 1);
    let letter = mailrail_wire::decode_dead_letter(&letters[0].value).expect("a letter");
    assert_eq!((letter.delivery.id, letter.reason), (hopeless.id, DeadReason::Exhausted));
    assert_eq!((rig.dead_letters().await.len(), rig.attempts().await.len()), (0, 0), "the first still waits");
    flooded.cut().await;
}

/// How often a delivery was received.
fn of(rig: &Rig, delivery: &Delivery) -> usize {
    let id = delivery.id.to_string();
    rig.receiver.receipts().iter().filter(|receipt| receipt.webhook_id == id).count()
}
