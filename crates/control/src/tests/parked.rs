//! What is parked in the journal counts as waiting: in the list of mailboxes and in the gauges.

use mailrail_types::HoldReason;
use serde_json::{Value, json};

use super::journaled::{
    JOURNAL, Journaled, PARTITION, aside, delivery, drained, hold, hour_ahead, key, park, snapshot, tried,
};
use crate::gauge::Gauges;
use crate::mailboxes::{Queue, look_at, now};

async fn list(it: &Journaled) -> Value {
    it.setting.get("/v1/mailboxes").await.json()
}

fn item(list: &Value, endpoint: &str) -> Value {
    let items = list["items"].as_array().expect("items");
    let key = key(endpoint);
    items.iter().find(|item| item["mailbox"] == key.as_str()).cloned().unwrap_or(Value::Null)
}

/// S30: a mailbox whose mail is all parked has nothing in the deliveries, and is shown with its depth and what holds it.
#[tokio::test]
async fn s30_a_parked_mailbox_has_its_depth_and_what_holds_it() {
    let it = Journaled::start().await;
    for n in 0..4 {
        it.deliver(&delivery("main", n)).await;
    }
    let until = hour_ahead();
    it.write(park("main", 0, None, hold(HoldReason::Slow, 0)), Some(&delivery("main", 0))).await;
    it.write(tried("main", 0, 2, until), None).await;
    it.write(park("main", 1, Some(0), hold(HoldReason::BehindHead, 0)), Some(&delivery("main", 1))).await;
    it.write(park("main", 2, Some(1), hold(HoldReason::BehindHead, 0)), Some(&delivery("main", 2))).await;
    // Record 2 is parked and not committed yet: it is one, not two. Record 3 is not parked.
    it.commit(2, &[], None).await;
    let all = list(&it).await;
    let main = item(&all, "main");
    assert_eq!((&main["depth"], &main["parked"]), (&json!(4), &json!(3)), "{all}");
    assert_eq!(main["held"], json!({ "reason": "backoff", "until_ms": until }));
    assert_eq!((&all["truncated"], &all["records"]), (&json!(false), &json!(4)));
    assert!(main["oldest_seconds"].as_u64().is_some_and(|age| age < 600), "{main}");

    it.write(drained("main", 1, 2, 4), None).await;
    let main = item(&list(&it).await, "main");
    assert_eq!((&main["depth"], &main["held"]), (&json!(2), &Value::Null), "the rest has its turn: {main}");
}

/// What was parked before the snapshot is counted from it, and dated by its own place.
#[tokio::test]
async fn what_the_snapshot_says_is_counted_and_dated() {
    let mut it = Journaled::start().await;
    let place =
        it.write(park("main", 5, None, hold(HoldReason::Paused, 5_000)), Some(&delivery("main", 5))).await;
    let set_aside = it.write(aside("main", 9, 7_000), Some(&delivery("main", 9))).await;
    it.claim().await;
    let pointer = it.write(snapshot(5, 8, place, 4, &[(9, set_aside)]), None).await;
    it.write(aside("other", 11, 9_000), Some(&delivery("other", 11))).await;
    it.commit(0, &[], Some(pointer)).await;
    let all = list(&it).await;
    let main = item(&all, "main");
    assert_eq!((&main["depth"], &main["parked"]), (&json!(5), &json!(5)), "{all}");
    assert_eq!(main["held"], json!({ "reason": "paused", "until_ms": 5_000 }));
    let other = item(&all, "other");
    assert_eq!((&other["depth"], &other["held"]["reason"]), (&json!(1), &json!("backoff")));

    let mut gauges = Gauges::new(it.setting.metrics.mailbox.clone());
    let shared = &it.setting.service.shared;
    let found = look_at(shared, Queue::Recipient).await;
    gauges.show(Queue::Recipient, &found, &shared.directory, now()).await;
    let text = it.setting.metrics.render();
    for line in [
        "mailrail_mailbox_waiting{queue=\"recipient\"} 2\n",
        "mailrail_mailbox_depth{queue=\"recipient\",class=\"tolerant\",quantile=\"1\"} 5\n",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }

    it.setting.log.trim(JOURNAL, PARTITION, place).await.expect("trim");
    assert_eq!(item(&list(&it).await, "main")["depth"], 5, "from the snapshot on nothing is missed");
}

/// What is parked is in the status, beside what is not read yet, with what it waits for.
#[tokio::test]
async fn a_status_says_what_is_parked_and_never_zero_for_unknown() {
    let parked =
        async |it: &Journaled| it.setting.get("/v1/status").await.json()["pipelines"][0]["parked"].take();
    let it = Journaled::start().await;
    for n in 0..3 {
        let after = u64::checked_sub(n, 1);
        it.deliver(&delivery("main", n)).await;
        it.write(park("main", n, after, hold(HoldReason::BehindHead, 0)), Some(&delivery("main", n))).await;
    }
    it.write(tried("main", 0, 2, hour_ahead()), None).await;
    it.write(park("other", 7, None, hold(HoldReason::Paused, 1)), Some(&delivery("other", 7))).await;
    it.commit(3, &[], None).await;
    it.deliver(&delivery("other", 8)).await;
    let status = parked(&it).await;
    assert_eq!((&status["records"], &status["mailboxes"]), (&json!(4), &json!(2)), "{status}");
    assert_eq!(status["held"], json!({ "backoff": 1, "paused": 1 }), "{status}");
    assert_eq!((&status["truncated"], &status["topic"]), (&json!(false), &json!(JOURNAL)), "{status}");
    assert!(status["oldest_seconds"].as_u64().is_some_and(|age| age < 600), "{status}");
    let whole = it.setting.get("/v1/status").await.json();
    assert_eq!(whole["pipelines"][0]["deliveries"]["waiting"], 1, "{whole}");

    let it = Journaled::with(|config| config.scan_records_max = 1).await;
    it.write(park("main", 0, None, hold(HoldReason::Backoff, 1)), Some(&delivery("main", 0))).await;
    let status = parked(&it).await;
    assert_eq!(
        (&status["truncated"], &status["records"]),
        (&json!(true), &json!(0)),
        "a lower bound: {status}"
    );

    let it = Journaled::start().await;
    it.write(park("main", 0, None, hold(HoldReason::Backoff, 1)), Some(&delivery("main", 0))).await;
    it.append(JOURNAL, &key("main"), "\u{7f}nothing".into()).await;
    let status = parked(&it).await;
    assert_eq!((&status["records"], &status["oldest_seconds"]), (&Value::Null, &Value::Null), "{status}");
    assert!(status["error"].as_str().is_some_and(|error| error.contains("cannot be read")), "{status}");
}

/// Entries of an owner that lost the partition say nothing.
#[tokio::test]
async fn what_a_former_owner_writes_is_not_counted() {
    let mut it = Journaled::start().await;
    let former = it.claim().await;
    let newer = it.claim().await;
    assert!(former < newer);
    let late =
        mailrail_mailbox::Entry { epoch: former, kind: park("main", 3, None, hold(HoldReason::Backoff, 1)) };
    let content = mailrail_wire::encode_delivery(&delivery("main", 3));
    it.append(JOURNAL, &key("main"), mailrail_wire::encode_entry(&late, Some(&content))).await;
    it.commit(0, &[], None).await;
    assert_eq!(list(&it).await["mailboxes"], 0);
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_said() {
    let it = Journaled::start().await;
    it.write(park("main", 0, None, hold(HoldReason::Backoff, 1)), Some(&delivery("main", 0))).await;
    it.append(JOURNAL, &key("main"), "\u{7f}nothing".into()).await;
    let all = list(&it).await;
    assert_eq!(all["truncated"], true);
    assert!(
        all["error"].as_str().is_some_and(|error| error.contains("of journal.default cannot be read")),
        "{all}"
    );

    let it = Journaled::start().await;
    let place =
        it.write(park("main", 0, None, hold(HoldReason::Backoff, 1)), Some(&delivery("main", 0))).await;
    it.write(tried("main", 0, 2, 5), None).await;
    it.setting.log.trim(JOURNAL, PARTITION, place).await.expect("trim");
    let all = list(&it).await;
    assert!(all["error"].as_str().is_some_and(|error| error.contains("without a snapshot")), "{all}");

    let it = Journaled::with(|config| config.scan_records_max = 1).await;
    it.write(park("main", 0, None, hold(HoldReason::Backoff, 1)), Some(&delivery("main", 0))).await;
    it.deliver(&delivery("other", 0)).await;
    assert_eq!(list(&it).await["truncated"], true, "one record, and two entries");
}
