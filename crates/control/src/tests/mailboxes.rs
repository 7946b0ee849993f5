//! What waits in mailboxes: looked at in a real local log, over the API and as metrics.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Body;
use http::{Method, StatusCode};
use mailrail_limits::Counter;
use mailrail_log::{Committed, GroupEvent, NewRecord, TopicSpec};
use mailrail_mailbox::{Checkpoint, DoneMap};
use mailrail_types::{IntegrationId, Mailbox, SourceMailbox};
use serde_json::{Value, json};

use super::{Setting, document, setting, setting_with};
use crate::gauge::Gauges;
use crate::mailboxes::{Queue, look_at, now};

const DELIVERIES: &str = "deliveries.default";
const EVENTS: &str = "events.default";

/// `acme` with endpoint `main`, which `pushes` and integration `gh` go to, and `other`, which only `open` goes to.
async fn planted(setting: &Setting) {
    let mut document = document();
    document["tenants"][0]["integrations"] = json!([
        { "id": "gh", "provider": "github", "secret": "inbound-canary-one", "cells": ["main"] },
        { "id": "open", "provider": "generic", "cells": ["other"] },
    ]);
    let applied = setting.apply(&json!({ "setup": document })).await;
    assert_eq!(applied.status, StatusCode::OK, "{}", applied.text);
    let spec = |name: &str| TopicSpec { name: name.to_owned(), partitions: 3, retention: None };
    setting.log.ensure_topics(&[EVENTS, DELIVERIES, "journal.default"].map(spec)).await.expect("topics");
}

/// Appends a record for each key. No body can be decoded: looking never does.
async fn append(setting: &Setting, topic: &str, partition: u32, keys: &[&str]) -> u64 {
    let record =
        |key: &&str| NewRecord { key: (*key).to_owned().into(), value: "\u{0}".into(), headers: vec![] };
    let offsets = setting.log.append(topic, partition, keys.iter().map(record).collect()).await;
    offsets.expect("appended")[0]
}

/// Commits everything below `offset`, and the offsets after it that are `done`.
async fn commit(setting: &Setting, group: &str, topic: &str, partition: u32, offset: u64, done: &[u64]) {
    let member = setting.log.join(group, topic).await.expect("join");
    assert!(matches!(member.next().await, Some(GroupEvent::Assigned { .. })));
    let mut map = DoneMap::new(offset);
    done.iter().for_each(|at| map.mark(*at));
    let metadata = Checkpoint { done: map, ..Checkpoint::at(offset) }.metadata();
    member.commit(vec![(partition, Committed { offset, metadata })]).await.expect("commit");
}

fn depths(list: &Value) -> Vec<(&str, u64)> {
    let items = list["items"].as_array().expect("items");
    let one = |item: &'_ Value| item["depth"].as_u64().expect("a depth");
    items.iter().map(|item| (item["mailbox"].as_str().expect("a key"), one(item))).collect()
}

#[tokio::test]
async fn what_is_done_does_not_wait_wherever_it_is() {
    let setting = setting().await;
    planted(&setting).await;
    let [a, b, c] = ["default::acme:main::0", "default::acme:main::1", "default::acme:other::0"];
    let first = append(&setting, DELIVERIES, 0, &[a, b, a, b, b, a]).await;
    append(&setting, DELIVERIES, 2, &[c, c]).await;
    append(&setting, EVENTS, 0, &["default::acme:::0"]).await;
    let list = setting.get("/v1/mailboxes").await.json();
    assert_eq!(depths(&list), [(a, 3), (b, 3), (c, 2)], "nothing is committed: {list}");

    // The head is an `a`; of what comes after it one `a` and two `b` are done already.
    commit(&setting, "deliver.default", DELIVERIES, 0, first + 2, &[first + 3, first + 4, first + 5]).await;
    let list = setting.get("/v1/mailboxes?queue=recipient").await.json();
    assert_eq!(depths(&list), [(c, 2), (a, 1)], "{list}");
    assert_eq!((&list["mailboxes"], &list["records"]), (&json!(2), &json!(3)));
    assert_eq!((&list["truncated"], &list["next"]), (&json!(false), &Value::Null));
    assert_eq!(list["queue"], "recipient");
    let source = setting.get("/v1/mailboxes?queue=source").await.json();
    assert_eq!(depths(&source), [("default::acme:::0", 1)]);
}

#[tokio::test]
async fn a_mailbox_has_its_parts_and_its_width_with_the_reason() {
    let setting = setting().await;
    planted(&setting).await;
    let push = "default:eu:acme:main:com.github.push:3";
    append(&setting, DELIVERIES, 0, &[push]).await;
    let mailbox = Mailbox::from_key(push).expect("a mailbox");
    for _ in 0..40 {
        setting.sizer.count(&Counter::of_recipient(&mailbox));
    }
    let list = setting.get("/v1/mailboxes").await.json();
    let item = &list["items"][0];
    assert!(item["oldest_seconds"].as_u64().is_some_and(|age| age < 600), "{item}");
    for (part, value) in [
        ("pipeline", json!("default")),
        ("region", json!("eu")),
        ("tenant", json!("acme")),
        ("endpoint", json!("main")),
        ("event_type", json!("com.github.push")),
        ("bucket", json!(3)),
    ] {
        assert_eq!(item[part], value, "{part}");
    }
    let sizing = json!({ "surface": "product_event", "class": "tolerant", "width": 2, "why": "bucketed", "payloads": 40, "unit": 16, "cap": 64 });
    assert_eq!(item["sizings"], json!([sizing]));

    // Another class, whose options change while it is used.
    let class = async |id: &str, options: Value| {
        let path = format!("/v1/mailbox-classes/{id}");
        let put = setting.call(Method::PUT, &path, options.to_string()).await;
        assert_eq!(put.status, StatusCode::OK, "{}", put.text);
    };
    let moved_to = async |class: &str| {
        let mut document = document();
        document["tenants"][0]["apps"][0]["endpoints"][0]["class"] = json!(class);
        let applied = setting.apply(&json!({ "setup": document })).await;
        assert_eq!(applied.status, StatusCode::OK, "{}", applied.text);
    };
    let sizings = async || setting.get("/v1/mailboxes").await.json()["items"][0]["sizings"].clone();
    class("bulk", json!({ "tolerates_reordering": true })).await;
    moved_to("bulk").await;
    class("bulk", json!({ "threads": 1, "buckets_max": 7 })).await;
    let sizing = json!({ "surface": "product_event", "class": "bulk", "width": 4, "why": "bucketed", "payloads": 40, "unit": 4, "cap": 4 });
    assert_eq!(sizings().await, json!([sizing]));
    class("firm", json!({ "tolerates_reordering": false, "fixed_buckets": 7 })).await;
    moved_to("firm").await;
    let sizing = json!({ "surface": "product_event", "class": "firm", "width": 7, "why": "fixed", "payloads": null, "unit": null, "cap": null });
    assert_eq!(sizings().await, json!([sizing]));
}

/// A webhook is counted by its integration, once, however many cells it goes to.
#[tokio::test]
async fn forwarded_mailboxes_are_sized_as_match_sizes_them() {
    let setting = setting().await;
    planted(&setting).await;
    let forwarded = "default::acme:main:inbound.github.push:0";
    let both = "default::acme:main::0";
    let keys = [forwarded, both, "default::acme:other::0", "default::gone:main::0", "not a key"];
    append(&setting, DELIVERIES, 1, &keys).await;
    append(&setting, EVENTS, 1, &["default::acme:gh:inbound.github.push:0", "default::acme:::9"]).await;
    let source = SourceMailbox::from_key("default::acme:gh:inbound.github.push:0").expect("a mailbox");
    assert_eq!(source.integration, Some(IntegrationId::of("gh")));
    for _ in 0..70 {
        setting.sizer.count(&Counter::of_source(&source));
    }
    let sizings = |list: Value| -> HashMap<String, Vec<String>> {
        let items = list["items"].as_array().expect("items");
        let shown = |it: &Value| {
            let text = |name: &str| it[name].as_str().unwrap_or("-").to_owned();
            let [surface, from, class, why] = ["surface", "integration", "class", "why"].map(text);
            format!("{surface} {from} {class} {} {why}", it["width"])
        };
        let all = |item: &Value| item["sizings"].as_array().expect("sizings").iter().map(shown).collect();
        items.iter().map(|it| (it["mailbox"].as_str().expect("a key").to_owned(), all(it))).collect()
    };
    let found = sizings(setting.get("/v1/mailboxes").await.json());
    assert_eq!(found[forwarded], ["forward gh tolerant 4 bucketed"]);
    assert_eq!(
        found[both],
        ["product_event - tolerant 1 under_rate", "forward gh tolerant 1 under_rate"],
        "either may have brought it"
    );
    assert_eq!(found["default::acme:other::0"], ["forward open strict 10 fixed"]);
    assert!(found["default::gone:main::0"].is_empty() && found["not a key"].is_empty());
    let found = sizings(setting.get("/v1/mailboxes?queue=source").await.json());
    assert_eq!(found["default::acme:gh:inbound.github.push:0"], ["source gh tolerant 4 bucketed"]);
    assert_eq!(found["default::acme:::9"], ["source - strict 10 fixed"]);
}

#[tokio::test]
async fn lists_are_by_tenant_and_by_page() {
    let setting = setting().await;
    planted(&setting).await;
    let key = |tenant: &str, bucket: u32| format!("default::{tenant}:main:a%2Fb:{bucket}");
    for bucket in 0..5 {
        let (acme, globex) = (key("acme", bucket), key("globex", bucket));
        append(&setting, DELIVERIES, bucket % 3, &[&acme, &globex, &globex]).await;
    }
    let list = setting.get("/v1/mailboxes?tenant=acme").await.json();
    assert_eq!((&list["mailboxes"], &list["records"]), (&json!(5), &json!(5)));
    assert!(depths(&list).iter().all(|(key, _)| key.starts_with("default::acme:")), "{list}");
    assert_eq!(depths(&setting.get("/v1/mailboxes?tenant=nobody").await.json()), []);

    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = setting.get(&format!("/v1/mailboxes?limit=3{after}")).await.json();
        assert_eq!(page["mailboxes"], 10);
        seen.extend(depths(&page).iter().map(|(key, depth)| ((*key).to_owned(), *depth)));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={}", next.replace('%', "%25"));
        assert!(seen.len() < 20, "{page}");
    }
    let all: Vec<_> =
        (0..5).map(|b| (key("globex", b), 2)).chain((0..5).map(|b| (key("acme", b), 1))).collect();
    assert_eq!(seen, all, "the deepest first, each once");

    for bad in ["queue=both", "tenant=Acme", "limit=x", "after=1", "after=x:y", "depth=1"] {
        let refused = setting.get(&format!("/v1/mailboxes?{bad}")).await;
        assert_eq!((refused.status, refused.code().as_str()), (StatusCode::BAD_REQUEST, "invalid_request"));
    }
    let posted = setting.call(Method::POST, "/v1/mailboxes", Body::empty()).await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_look_is_bounded_and_says_when_it_was_cut() {
    let setting = setting_with(|config| config.scan_records_max = 10).await;
    planted(&setting).await;
    let [long, short] = ["default::acme:main::0", "default::acme:other::0"];
    append(&setting, DELIVERIES, 0, &[long; 50]).await;
    append(&setting, DELIVERIES, 1, &[short; 2]).await;
    let list = setting.get("/v1/mailboxes").await.json();
    assert_eq!(depths(&list), [(long, 8), (short, 2)], "short partitions whole: {list}");
    assert_eq!((&list["truncated"], list.get("error")), (&json!(true), None));
    append(&setting, EVENTS, 0, &["default::acme:::0"; 10]).await;
    let list = setting.get("/v1/mailboxes?queue=source").await.json();
    assert_eq!((&list["records"], &list["truncated"]), (&json!(10), &json!(false)), "just all of it");

    let setting = setting_with(|config| config.scan_timeout = Duration::ZERO).await;
    planted(&setting).await;
    append(&setting, DELIVERIES, 0, &[long]).await;
    let list = setting.get("/v1/mailboxes").await.json();
    assert_eq!((depths(&list), &list["truncated"]), (vec![], &json!(true)));
}

#[tokio::test]
async fn what_is_not_known_is_said() {
    let setting = setting().await;
    let list = setting.get("/v1/mailboxes").await.json();
    assert_eq!(list["truncated"], true, "there are no topics: {list}");
    assert!(list["error"].as_str().is_some_and(|error| !error.is_empty()));

    planted(&setting).await;
    let first = append(&setting, DELIVERIES, 0, &["default::acme:main::0"; 4]).await;
    append(&setting, DELIVERIES, 1, &["default::acme:other::0"]).await;
    commit(&setting, "deliver.default", DELIVERIES, 0, first + 1, &[]).await;
    setting.log.trim(DELIVERIES, 0, first + 2).await.expect("trim");
    let list = setting.get("/v1/mailboxes").await.json();
    assert_eq!(depths(&list), [("default::acme:other::0", 1)], "the other partitions are looked at");
    let error = list["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("deliveries.default, partition 0 is stopped"), "{list}");
    assert_eq!(list["truncated"], true);
}

/// S35: depth quantiles per class, the oldest age, and never a zero for what is not known.
#[tokio::test]
async fn s35_what_waits_is_shown_as_metrics() {
    let setting = setting().await;
    let mut gauges = Gauges::new(setting.metrics.mailbox.clone());
    let shared = &setting.service.shared;
    let mut show = async || {
        let found = look_at(shared, Queue::Recipient).await;
        gauges.show(Queue::Recipient, &found, &shared.directory, now()).await;
        setting.metrics.render()
    };
    let text = show().await;
    assert!(text.contains("mailrail_mailbox_scan_complete{queue=\"recipient\"} 0"), "{text}");
    for name in
        ["mailrail_mailbox_depth{", "mailrail_mailbox_waiting{", "mailrail_mailbox_oldest_age_seconds{"]
    {
        assert!(!text.contains(name), "{name}: nothing is known\n{text}");
    }

    planted(&setting).await;
    let [a, b, c] = [
        "default::acme:main:com.github.push:0",
        "default::acme:main:com.github.push:1",
        "default::acme:other::4",
    ];
    let first = append(&setting, DELIVERIES, 0, &[a, b, b, b, c, c, "none of ours"]).await;
    let text = show().await;
    let depth = |class: &str, quantile: &str, depth: u64| {
        format!(
            "mailrail_mailbox_depth{{queue=\"recipient\",class=\"{class}\",quantile=\"{quantile}\"}} {depth}\n"
        )
    };
    for line in [
        "mailrail_mailbox_scan_complete{queue=\"recipient\"} 1\n".to_owned(),
        "mailrail_mailbox_waiting{queue=\"recipient\"} 4\n".to_owned(),
        "mailrail_mailbox_oldest_age_seconds{queue=\"recipient\"} ".to_owned(),
        depth("tolerant", "0.5", 1),
        depth("tolerant", "1", 3),
        depth("strict", "0.99", 2),
        depth("unknown", "0.9", 1),
    ] {
        assert!(text.contains(&line), "{line} is missing in\n{text}");
    }

    commit(&setting, "deliver.default", DELIVERIES, 0, first + 7, &[]).await;
    let text = show().await;
    for line in [
        "mailrail_mailbox_waiting{queue=\"recipient\"} 0\n".to_owned(),
        "mailrail_mailbox_oldest_age_seconds{queue=\"recipient\"} 0\n".to_owned(),
        depth("tolerant", "1", 0),
        depth("strict", "1", 0),
    ] {
        assert!(text.contains(&line), "{line} is missing in\n{text}");
    }
}
