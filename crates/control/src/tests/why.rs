//! What a delivery waits for, or how it ended: each state, found in a real local log.

use axum::body::Body;
use http::{Method, StatusCode};
use mailrail_types::{
    CancelReason, DeadReason, Delivery, ErrorCode, HoldReason, Outcome, RetryReason, TenantId, Timestamp,
};
use serde_json::{Value, json};

use super::journaled::{
    DELIVERIES, JOURNAL, Journaled, aside, attempt, delivery, drained, hold, hour_ahead, key, park, snapshot,
    tried,
};

async fn why(it: &Journaled, of: &Delivery) -> Value {
    let answer = it.setting.get(&format!("/v1/tenants/acme/deliveries/{}/why", of.id)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert!(!answer.text.contains("canary"), "no body is shown");
    answer.json()
}

fn has(why: &Value, values: &[(&str, Value)]) {
    for (field, value) in values {
        assert_eq!(&why[field], value, "{field} in {why}");
    }
}

fn behind(n: u64) -> HoldReason {
    if n == 0 { HoldReason::Slow } else { HoldReason::BehindHead }
}

/// Parks `n` deliveries of `main`, whose head was tried twice.
async fn parked(it: &Journaled, n: u64, until: i64) {
    for source in 0..n {
        let one = delivery("main", source);
        it.deliver(&one).await;
        it.write(park("main", source, source.checked_sub(1), hold(behind(source), 0)), Some(&one)).await;
    }
    it.write(tried("main", 0, 2, until), None).await;
    it.commit(n, &[], None).await;
}

/// N11, S30, N22: a parked delivery says what it waits for, until when, and what goes before it.
#[tokio::test]
async fn s30_a_parked_delivery_says_what_it_waits_for() {
    let (it, until) = (Journaled::start().await, hour_ahead());
    parked(&it, 5, until).await;
    let head = why(&it, &delivery("main", 0)).await;
    has(
        &head,
        &[
            ("state", json!("waiting")),
            ("reason", json!("backoff")),
            ("until_ms", json!(until)),
            ("attempts", json!(2)),
            ("last_status", json!(503)),
            ("before", json!(0)),
            ("head", Value::Null),
            ("mailbox", json!("default::acme:main::0")),
            ("endpoint", json!("main")),
            ("event", json!(delivery("main", 0).event.id.to_string())),
        ],
    );
    assert_eq!((&head["looked"]["complete"], head["looked"].get("error")), (&json!(true), None));

    let last = why(&it, &delivery("main", 4)).await;
    let of_head =
        json!({ "delivery": delivery("main", 0).id.to_string(), "reason": "backoff", "until_ms": until });
    let waits = [
        ("state", json!("waiting")),
        ("reason", json!("behind_head")),
        ("before", json!(4)),
        ("head", of_head),
    ];
    has(&last, &waits);
    has(&last, &[("until_ms", json!(until)), ("attempts", json!(0))]);

    it.write(drained("main", 1, 2, 3), None).await;
    let next = why(&it, &delivery("main", 2)).await;
    has(&next, &[("state", json!("running")), ("before", json!(0))]);
    has(&why(&it, &delivery("main", 4)).await, &[("reason", json!("behind_head")), ("before", json!(2))]);
}

/// What was parked before the snapshot is found further back; a delivery set aside waits for itself.
#[tokio::test]
async fn what_was_parked_before_the_snapshot_is_found() {
    let mut it = Journaled::start().await;
    let one = |n| delivery("main", n);
    let place = it.write(park("main", 5, None, hold(HoldReason::Paused, 5_000)), Some(&one(5))).await;
    it.write(park("main", 6, Some(5), hold(HoldReason::BehindHead, 0)), Some(&one(6))).await;
    let set_aside = it.write(aside("main", 9, 5_000), Some(&one(9))).await;
    it.claim().await;
    let pointer = it.write(snapshot(5, 6, place, 2, &[(9, set_aside)]), None).await;
    it.commit(0, &[], Some(pointer)).await;
    has(
        &why(&it, &one(5)).await,
        &[("reason", json!("paused")), ("until_ms", json!(5_000)), ("before", json!(0))],
    );
    has(&why(&it, &one(6)).await, &[("reason", json!("behind_head")), ("before", json!(1))]);
    has(
        &why(&it, &one(9)).await,
        &[("state", json!("waiting")), ("before", json!(0)), ("head", Value::Null)],
    );
}

/// On its way: behind others of its mailbox, or with its turn; what is done, or parked, is not before it.
#[tokio::test]
async fn a_delivery_on_its_way_is_queued_or_running() {
    let it = Journaled::start().await;
    for n in 0..4 {
        it.deliver(&delivery("main", n)).await;
        it.deliver(&delivery("other", n)).await;
    }
    it.commit(2, &[4], None).await;
    has(&why(&it, &delivery("main", 1)).await, &[("state", json!("running")), ("before", json!(0))]);
    has(&why(&it, &delivery("main", 3)).await, &[("state", json!("queued")), ("before", json!(1))]);
    has(&why(&it, &delivery("main", 2)).await, &[("state", json!("unknown"))]);
    has(&why(&it, &delivery("main", 0)).await, &[("state", json!("unknown"))]);

    it.write(park("other", 1, None, hold(HoldReason::Paused, 5_000)), Some(&delivery("other", 0))).await;
    let behind = why(&it, &delivery("other", 1)).await;
    has(&behind, &[("state", json!("waiting")), ("reason", json!("behind_head")), ("before", json!(1))]);
    has(&behind["head"], &[("reason", json!("paused")), ("until_ms", json!(5_000))]);
}

/// The last attempt says how it ended, wherever its record still is; put in again after that, it waits again.
#[tokio::test]
async fn an_end_is_told_from_the_attempts() {
    let it = Journaled::start().await;
    let dead = |reason| Outcome::Dead(reason);
    let ends = [
        (Outcome::Delivered, "delivered", Value::Null),
        (dead(DeadReason::Exhausted), "dead_lettered", json!("exhausted")),
        (dead(DeadReason::Expired), "expired", json!("expired")),
        (Outcome::Cancelled(CancelReason::EndpointDeleted), "cancelled", json!("endpoint_deleted")),
    ];
    for (n, (outcome, ..)) in (0..).zip(&ends) {
        let of = delivery("main", n);
        it.deliver(&of).await;
        let again = Outcome::Retry { due: Timestamp(5), reason: RetryReason::ServerError };
        it.try_it(&attempt(&of, 1, again, Some(503))).await;
        it.try_it(&attempt(&of, 2, *outcome, Some(200))).await;
    }
    for (n, (_, state, reason)) in (0..).zip(&ends) {
        let values = [
            ("state", json!(state)),
            ("reason", reason.clone()),
            ("ended_at_ms", json!(1_250)),
            ("attempts", json!(2)),
        ];
        has(&why(&it, &delivery("main", n)).await, &values);
    }
    it.commit(4, &[], None).await;
    has(&why(&it, &delivery("main", 0)).await, &[("state", json!("delivered")), ("last_status", json!(200))]);

    // A redrive stands behind its end. Log times are milliseconds: it must be later than that.
    let ended = crate::mailboxes::now();
    while crate::mailboxes::now() <= ended {
        tokio::task::yield_now().await;
    }
    it.deliver(&delivery("main", 1)).await;
    has(&why(&it, &delivery("main", 1)).await, &[("state", json!("running")), ("ended_at_ms", Value::Null)]);
}

/// N11: an attempt without an answer says why there was none, and one that was cut says what cut it.
#[tokio::test]
async fn n11_the_last_attempts_error_is_told() {
    let it = Journaled::start().await;
    for (n, error, status) in [
        (0, Some(ErrorCode::ConnectFailed), None),
        (1, Some(ErrorCode::Timeout), Some(200)),
        (2, None, Some(503)),
    ] {
        let of = delivery("main", n);
        let again = Outcome::Retry { due: Timestamp(7_000), reason: RetryReason::ServerError };
        let mut tried = attempt(&of, 1, again, status);
        tried.result.error = error;
        it.try_it(&tried).await;
        let error = error.map_or(Value::Null, |error| json!(error.code()));
        has(&why(&it, &of).await, &[("last_status", json!(status)), ("last_error", error)]);
    }

    // The journal knows of one more attempt than the records that were found: that one's error is not known.
    let of = delivery("other", 0);
    it.deliver(&of).await;
    it.write(park("other", 0, None, hold(HoldReason::Slow, 0)), Some(&of)).await;
    let again = Outcome::Retry { due: Timestamp(7_000), reason: RetryReason::NoAnswer };
    let mut tried_once = attempt(&of, 1, again, None);
    tried_once.result.error = Some(ErrorCode::TlsError);
    it.try_it(&tried_once).await;
    it.write(tried("other", 0, 2, hour_ahead()), None).await;
    has(
        &why(&it, &of).await,
        &[("attempts", json!(2)), ("last_status", json!(503)), ("last_error", Value::Null)],
    );
}

/// Between its attempt and its entry in the journal only the attempt tells.
#[tokio::test]
async fn a_retry_that_is_not_parked_yet_waits_for_its_time() {
    let it = Journaled::start().await;
    let of = delivery("main", 0);
    let again = Outcome::Retry { due: Timestamp(7_000), reason: RetryReason::Throttled };
    it.try_it(&attempt(&of, 1, again, Some(429))).await;
    let values = [
        ("state", json!("waiting")),
        ("reason", json!("backoff")),
        ("until_ms", json!(7_000)),
        ("attempts", json!(1)),
    ];
    has(&why(&it, &of).await, &values);
}

#[tokio::test]
async fn another_tenants_delivery_is_not_found_and_nobodys_is_unknown() {
    let it = Journaled::start().await;
    let mut others = delivery("main", 0);
    others.event.tenant = TenantId::new("globex").expect("valid");
    it.write(park("main", 0, None, hold(HoldReason::Backoff, 1)), Some(&others)).await;
    let mut tried = delivery("main", 1);
    tried.event.tenant = others.event.tenant.clone();
    it.try_it(&attempt(&tried, 1, Outcome::Delivered, Some(200))).await;
    let ask = async |path: String| {
        let answer = it.setting.get(&path).await;
        (answer.status, answer.code())
    };
    let not_found = (StatusCode::NOT_FOUND, "not_found".to_owned());
    for path in [
        format!("/v1/tenants/acme/deliveries/{}/why", others.id),
        format!("/v1/tenants/acme/deliveries/{}/why", tried.id),
        format!("/v1/tenants/nobody/deliveries/{}/why", others.id),
        "/v1/tenants/acme/deliveries/dlv_x/why".to_owned(),
        format!("/v1/tenants/acme/deliveries/{}/why?mailbox=default::globex:main::0", others.id),
        format!("/v1/tenants/acme/deliveries/{}/why?mailbox=elsewhere::acme:main::0", others.id),
    ] {
        assert_eq!(ask(path.clone()).await, not_found, "{path}");
    }
    for query in ["mailbox=not-a-key", "mailbox", "colour=red"] {
        let path = format!("/v1/tenants/acme/deliveries/{}/why?{query}", others.id);
        assert_eq!(ask(path).await, (StatusCode::BAD_REQUEST, "invalid_request".to_owned()), "{query}");
    }
    let nobodys = why(&it, &delivery("main", 77)).await;
    has(&nobodys, &[("state", json!("unknown")), ("mailbox", Value::Null)]);
    assert_eq!(nobodys["looked"]["complete"], true);
    let path = format!("/v1/tenants/acme/deliveries/{}/why", others.id);
    let posted = it.setting.call(Method::POST, &path, Body::empty()).await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
}

/// A named mailbox is looked for in its own partition.
#[tokio::test]
async fn a_named_mailbox_is_looked_for_where_it_is() {
    let it = Journaled::start().await;
    let count = mailrail_types::PartitionCount(std::num::NonZeroU32::new(3).expect("not zero"));
    let of = delivery("main", 0);
    let value = mailrail_wire::encode_delivery(&of);
    let record =
        mailrail_log::NewRecord { key: key("main").as_str().to_owned().into(), value, headers: vec![] };
    let partition = key("main").partition(count);
    it.setting.log.append(DELIVERIES, partition, vec![record]).await.expect("appended");
    let path = format!("/v1/tenants/acme/deliveries/{}/why?mailbox=default::acme:main::0", of.id);
    has(&it.setting.get(&path).await.json(), &[("state", json!("running"))]);
    let other = delivery("other", 0);
    it.deliver(&other).await;
    let looked = it
        .setting
        .get(&format!("/v1/tenants/acme/deliveries/{}/why?mailbox=default::acme:main::0", other.id))
        .await;
    let elsewhere = key("main").partition(count) != super::journaled::PARTITION;
    assert_eq!(looked.json()["state"] == "unknown", elsewhere, "{}", looked.text);
}

#[tokio::test]
async fn a_look_is_bounded_says_how_far_it_went_and_runs_alone() {
    // 3 records of each topic of a partition.
    let it = Journaled::with(|config| config.why_records_max = 3 * 3 * 3).await;
    let of = delivery("main", 0);
    it.try_it(&attempt(&of, 1, Outcome::Delivered, Some(200))).await;
    for n in 1..9 {
        it.try_it(&attempt(&delivery("main", n), 1, Outcome::Delivered, Some(200))).await;
    }
    let cut = why(&it, &of).await;
    has(&cut, &[("state", json!("unknown"))]);
    assert_eq!(cut["looked"]["complete"], false, "{cut}");
    assert!(cut["looked"]["attempts_since_ms"].is_i64(), "{cut}");
    has(&why(&it, &delivery("main", 8)).await, &[("state", json!("delivered"))]);

    let _running = it.setting.service.shared.explaining.lock().await;
    let busy = it.setting.get(&format!("/v1/tenants/acme/deliveries/{}/why", of.id)).await;
    assert_eq!((busy.status, busy.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "look_running"));
    assert_eq!(busy.headers["retry-after"], "5");
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_said() {
    let it = Journaled::start().await;
    it.append(JOURNAL, &key("main"), "\u{7f}nothing".into()).await;
    let answer = why(&it, &delivery("main", 0)).await;
    has(&answer, &[("state", json!("unknown"))]);
    assert!(
        answer["looked"]["error"].as_str().is_some_and(|error| error.contains("cannot be read")),
        "{answer}"
    );

    let setting = super::setting().await;
    let applied = setting.apply(&json!({ "setup": super::document() })).await;
    assert_eq!(applied.status, StatusCode::OK);
    let answer =
        setting.get(&format!("/v1/tenants/acme/deliveries/{}/why", delivery("main", 0).id)).await.json();
    assert_eq!(answer["looked"]["complete"], false, "there are no topics: {answer}");
}
