//! Explanations over the API: a filter on an event that is written down, and who gets an accepted event.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, StatusCode};
use mailrail_log::{NewRecord, TopicSpec};
use mailrail_types::{Attribute, AttributeValue, Event, Forwarded, PERMISSION_ATTRIBUTE, Provider};
use serde_json::{Value, json};

use super::{Answer, Setting, log_lines, sample_delivery, setting_with};

mod looks;

const EVENTS: &str = "events.default";

async fn test(it: &Setting, body: &str) -> Answer {
    it.call(Method::POST, "/v1/filters/test", body.to_owned()).await
}

/// N11, A05: the literal example in three languages, as docs/filters.md has it.
#[tokio::test]
async fn a05_n11_a_filter_is_tried_on_an_event() {
    let it = setting_with(|_| {}).await;
    let sql = "data.project.key = 'FOO' AND data.priority = 'Critical'";
    for filter in [
        json!({"pattern": {"project": {"key": ["FOO"]}, "priority": ["Critical"]}}),
        json!({ "cesql": sql }),
        json!({"cloudevents": [{ "sql": sql }]}),
    ] {
        for (priority, expected) in [("Critical", true), ("Minor", false)] {
            let event =
                json!({ "type": "issue", "data": { "project": { "key": "FOO" }, "priority": priority } });
            let answer = test(&it, &json!({ "filter": filter, "event": event }).to_string()).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
            assert_eq!(answer.json()["matched"], expected, "{}", answer.text);
            assert!(filter.get(answer.json()["language"].as_str().expect("a language")).is_some());
            assert!(answer.text.contains(&format!("{:?}", format!("{priority:?}"))), "{}", answer.text);
        }
    }
}

/// The event is kept as it is written: a number is not rounded on the way, and `data` of every kind is what the front door
/// takes it for.
#[tokio::test]
async fn the_event_is_read_as_the_front_door_reads_it() {
    let it = setting_with(|_| {}).await;
    let exact =
        r#"{"filter": {"pattern": {"n": [9007199254740993]}}, "event": {"data": {"n": 9007199254740993.0}}}"#;
    assert_eq!(test(&it, exact).await.json()["matched"], true);
    let rounded = exact.replace("993.0", "992");
    assert_eq!(test(&it, &rounded).await.json()["matched"], false);
    for (event, expected) in [
        (json!({ "data_base64": "eyJuIjogMX0=" }), true),
        (json!({ "datacontenttype": "text/plain", "data": "{\"n\": 1}" }), true),
        (json!({ "datacontenttype": "application/x+json", "data": { "n": 1 } }), true),
        (json!({ "data": "{\"n\": 1}" }), false),
        (json!({ "n": 1 }), false),
        (json!({ "data": null, "data_base64": null, "subject": null }), false),
    ] {
        let body = json!({ "filter": { "pattern": { "n": [1] } }, "event": event }).to_string();
        let answer = test(&it, &body).await;
        let expected = if event["data"].is_null() && event.get("data_base64") == Some(&Value::Null) {
            // An explicit null is data of its own.
            json!({ "state": "json" })
        } else {
            assert_eq!(answer.json()["matched"], expected, "{event}: {}", answer.text);
            continue;
        };
        assert_eq!(answer.json()["body"], expected, "{}", answer.text);
    }
    let typed = json!({ "filter": { "cesql": "urgent AND level = 5 AND subject = 's'" },
        "event": { "urgent": true, "level": 5, "subject": "s", "specversion": "1.0" } });
    assert_eq!(test(&it, &typed.to_string()).await.json()["matched"], true);
}

#[tokio::test]
async fn n11_what_cannot_be_tried_is_refused_with_code_and_place() {
    let it = setting_with(|_| {}).await;
    let refused = async |body: &str| {
        let answer = test(&it, body).await;
        let field = answer.json()["field"].as_str().unwrap_or_default().to_owned();
        (answer.status.as_u16(), answer.code(), field)
    };
    let with_event = |event: &str| format!(r#"{{"filter": {{"cesql": "TRUE"}}, "event": {event}}}"#);
    let with_filter = |filter: &str| format!(r#"{{"filter": {filter}, "event": {{}}}}"#);
    for (body, expected) in [
        (
            with_filter(r#"{"pattern": {"a": [{"prefx": "x"}]}}"#),
            (422, "filter_unknown_operator", "filter.pattern"),
        ),
        (with_filter(r#"{"eventbridge": {"a": 1}}"#), (422, "filter_not_eventbridge", "filter.eventbridge")),
        (with_filter(r#"{"cesql": "data.a ="}"#), (422, "filter_syntax", "filter.cesql")),
        (
            with_filter(r#"{"cloudevents": [{"exact": {"type": ""}}]}"#),
            (422, "filter_invalid_operand", "filter.cloudevents"),
        ),
        (with_filter(r#"{"regex": "x"}"#), (422, "wrong_type", "filter")),
        (with_filter(r#"{"cesql": "TRUE", "cesql": "FALSE"}"#), (422, "syntax", "filter")),
        (with_event("[]"), (422, "invalid_event", "event")),
        (with_event(r#"{"id": "a", "id": "b"}"#), (422, "invalid_event", "event")),
        (with_event(r#"{"id": 5}"#), (422, "invalid_event", "event.id")),
        (with_event(r#"{"Id": "a"}"#), (422, "invalid_event", "event.Id")),
        (with_event(r#"{"level": 1.5}"#), (422, "invalid_event", "event.level")),
        (with_event(r#"{"specversion": "0.3"}"#), (422, "invalid_event", "event.specversion")),
        (with_event(r#"{"data": 1, "data_base64": "MQ=="}"#), (422, "invalid_event", "event.data_base64")),
        (with_event(r#"{"data_base64": "?"}"#), (422, "invalid_event", "event.data_base64")),
        (
            with_event(r#"{"datacontenttype": "text/plain", "data": {}}"#),
            (422, "invalid_event", "event.data"),
        ),
        ("[]".to_owned(), (400, "invalid_request", "")),
        (r#"{"filter": {}}"#.to_owned(), (400, "invalid_request", "")),
        (r#"{"filter": {}, "event": {}, "more": 1}"#.to_owned(), (400, "invalid_request", "")),
    ] {
        let (status, code, field) = refused(&body).await;
        assert_eq!((status, code.as_str(), field.as_str()), expected, "{body}");
    }
    let many: Vec<String> = (0..101).map(|i| format!("\"a{i}\": 1")).collect();
    assert_eq!(refused(&with_event(&format!("{{{}}}", many.join(",")))).await.1, "invalid_event");
    let unknown = http::Request::builder().method(Method::POST).uri("/v1/filters/test");
    let answer = it.send(unknown.body(Body::empty()).expect("a request")).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::UNAUTHORIZED, "unauthorized"));
}

/// An event of type `t` with the body `{"n": 1}`.
fn event() -> Event {
    let mut event = sample_delivery().event;
    event.body = Bytes::from_static(br#"{"n": 1}"#);
    event
}

fn set_up() -> Value {
    let subscription = |id: &str, more: Value| {
        let mut all = json!({ "id": id, "endpoint": "main", "event_types": ["t"] });
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    let costly = "data.n - data.n = 0 AND data.l - data.l = 1";
    json!({ "version": 1, "tenants": [{
        "id": "acme",
        "apps": [
            { "id": "shop", "endpoints": [{ "id": "main", "url": "https://shop.example/" }], "subscriptions": [
                subscription("all", json!({})),
                subscription("costly", json!({ "filter": { "cesql": costly }, "on_filter_error": "deliver" })),
                subscription("one", json!({ "filter": { "pattern": { "n": [1] } } })),
                subscription("other", json!({ "event_types": ["u"] })),
                subscription("two", json!({ "filter": { "pattern": { "n": [2] } } })),
            ] },
            { "id": "pay", "permissions": ["payroll"], "endpoints": [{ "id": "pay", "url": "https://pay.example/" }],
              "subscriptions": [{ "id": "paid", "endpoint": "pay", "event_types": ["t"] }] },
        ],
        "integrations": [{ "id": "hub", "provider": "github", "cells": ["main", "pay"] }],
    }]})
}

/// With a set-up and the topic of events.
async fn accepting(records_max: u64) -> Setting {
    let it = setting_with(|config| config.why_records_max = records_max).await;
    let applied = it.apply(&json!({ "setup": set_up() })).await;
    assert_eq!(applied.status, StatusCode::OK, "{}", applied.text);
    let spec = TopicSpec { name: EVENTS.to_owned(), partitions: 3, retention: None };
    it.log.ensure_topics(&[spec]).await.expect("a topic");
    it
}

async fn accept(it: &Setting, partition: u32, event: &Event) {
    let value = mailrail_wire::encode_event(event);
    let record = NewRecord { key: Bytes::from_static(b"k"), value, headers: vec![] };
    it.log.append(EVENTS, partition, vec![record]).await.expect("appended");
}

async fn explain(it: &Setting, of: &Event, query: &str) -> Value {
    let answer = it.get(&format!("/v1/events/{}/explain{query}", of.id)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

/// Id, whether it gets the event, and what decides.
fn told(answer: &Value) -> Vec<(String, bool, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let recipients = answer["recipients"].as_array().expect("a list");
    recipients.iter().map(|one| (text(&one["id"]), one["gets"] == true, text(&one["reason"]))).collect()
}

fn expected(list: &[(&str, bool, &str)]) -> Vec<(String, bool, String)> {
    list.iter().map(|(id, gets, reason)| ((*id).to_owned(), *gets, (*reason).to_owned())).collect()
}

/// N11: every subscription that was considered for an accepted event, with the clauses that decided.
#[tokio::test]
async fn n11_every_subscription_of_an_accepted_event_is_explained() {
    let it = accepting(1_000).await;
    let of = event();
    accept(&it, 2, &of).await;
    let answer = explain(&it, &of, "").await;
    let judged = [
        ("all", true, "wants"),
        // Of an absent list nothing can be said: that is no error.
        ("costly", false, "filter"),
        ("one", true, "wants"),
        ("paid", true, "wants"),
        ("two", false, "filter"),
        ("other", false, "other_event_type"),
    ];
    assert_eq!(told(&answer), expected(&judged), "{answer:#}");
    assert_eq!((&answer["recipients_total"], &answer["recipients_of_type"]), (&json!(6), &json!(5)));
    assert_eq!((&answer["event"]["position"], &answer["event"]["tenant"]), (&json!("2:0"), &json!("acme")));
    assert!(answer["setup"]["note"].as_str().is_some_and(|note| note.contains("as it is now")), "{answer}");
    let recipient = |id: &str| {
        let recipients = answer["recipients"].as_array().expect("a list");
        recipients.iter().find(|one| one["id"] == id).expect(id).clone()
    };
    // The delivery that match makes of it.
    assert_eq!(recipient("one")["delivery"].as_str().map(|id| &id[..4]), Some("dlv_"));
    let clause = &recipient("two")["filter"]["root"]["all"][0]["clause"];
    assert_eq!(clause["seen"][0], json!({ "path": "$.n", "values": ["1"] }));
    assert!(log_lines().contains("explain_event"), "what is shown leaves a line");
}

/// N11: permissions, errors and endpoints decide as they do in match.
#[tokio::test]
async fn n11_permissions_errors_and_endpoints_decide_as_in_match() {
    let it = accepting(1_000).await;
    let mut of = event();
    let list = vec!["7"; 3_000].join(",");
    of.body = Bytes::from(format!("{{\"n\":1,\"l\":[{list}]}}"));
    let mark = AttributeValue::String("payroll".to_owned());
    of.attributes.extensions.push(Attribute { name: PERMISSION_ATTRIBUTE.to_owned(), value: mark });
    accept(&it, 0, &of).await;
    let answer = explain(&it, &of, "").await;
    let lacks = "permission_missing";
    let judged = [
        ("all", false, lacks),
        ("costly", false, lacks),
        ("one", false, lacks),
        ("paid", true, "wants"),
        ("two", false, lacks),
        ("other", false, "other_event_type"),
    ];
    assert_eq!(told(&answer), expected(&judged), "{answer:#}");
    assert_eq!(answer["event"]["permission"], "payroll");

    let mut without = of.clone();
    without.attributes.extensions.clear();
    without.id = mailrail_types::EventId::derive(&of.tenant, "/s", "without");
    accept(&it, 0, &without).await;
    let paused = it.call(Method::POST, "/v1/tenants/acme/endpoints/main/pause", Body::empty()).await;
    assert_eq!(paused.status, StatusCode::OK, "{}", paused.text);
    let answer = explain(&it, &without, "?subscription=costly").await;
    assert_eq!(told(&answer), expected(&[("costly", true, "filter_error")]), "the policy is deliver");
    let costly = &answer["recipients"][0];
    assert_eq!(
        (&costly["filter"]["error"], &costly["on_filter_error"]),
        (&json!("too_many_steps"), &json!("deliver"))
    );
    assert_eq!(costly["endpoint"], json!({ "id": "main", "exists": true, "paused": true }));
}

#[tokio::test]
async fn the_cells_of_a_forwarded_webhook_are_explained() {
    let it = accepting(1_000).await;
    let mut of = event();
    of.forwarded = Some(Box::new(Forwarded {
        provider: Provider::GitHub,
        integration: "hub".parse().expect("valid"),
        method: "POST".to_owned(),
        path: String::new(),
        headers: Vec::new(),
    }));
    accept(&it, 1, &of).await;
    let answer = explain(&it, &of, "").await;
    assert_eq!(told(&answer), expected(&[("main", true, "wants"), ("pay", true, "wants")]));
    assert_eq!(
        (&answer["event"]["integration"], &answer["recipients"][0]["kind"]),
        (&json!("hub"), &json!("cell"))
    );
    assert_eq!(told(&explain(&it, &of, "?subscription=pay").await), expected(&[("pay", true, "wants")]));
    // It is there, but is not asked about webhooks.
    assert_eq!(told(&explain(&it, &of, "?subscription=one").await), expected(&[]));
}

#[tokio::test]
async fn recipients_come_in_pages_and_by_endpoint() {
    let it = accepting(1_000).await;
    let of = event();
    accept(&it, 1, &of).await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    for _ in 0..6 {
        let answer = explain(&it, &of, &format!("?limit=1{after}")).await;
        seen.extend(told(&answer).into_iter().map(|(id, ..)| id));
        let Some(next) = answer["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, ["all", "costly", "one", "paid", "two", "other"]);
    let answer = explain(&it, &of, "?endpoint=pay").await;
    assert_eq!((told(&answer).len(), &answer["next"]), (1, &Value::Null));
    let answer = explain(&it, &of, "?subscription=paid&endpoint=pay").await;
    assert_eq!(told(&answer).len(), 1);
    // Both are there, and have nothing to do with each other.
    let answer = explain(&it, &of, "?subscription=one&endpoint=pay").await;
    assert_eq!((told(&answer).len(), &answer["recipients_total"]), (0, &json!(6)));
    for (query, missing) in [
        ("?subscription=nobody", "subscription 'nobody'"),
        ("?endpoint=nowhere", "endpoint 'nowhere'"),
        ("?subscription=one&endpoint=nowhere", "endpoint 'nowhere'"),
        ("?subscription=nobody&endpoint=pay", "subscription 'nobody'"),
    ] {
        let answer = it.get(&format!("/v1/events/{}/explain{query}", of.id)).await;
        assert_eq!((answer.status.as_u16(), answer.text.contains(missing)), (404, true), "{}", answer.text);
    }
    for (query, status) in [
        ("?limit=0", 400),
        ("?limit=101", 400),
        ("?after=x", 400),
        ("?colour=red", 400),
        ("?pipeline=nowhere", 404),
    ] {
        let answer = it.get(&format!("/v1/events/{}/explain{query}", of.id)).await;
        assert_eq!(answer.status.as_u16(), status, "{query}: {}", answer.text);
    }
}

#[tokio::test]
async fn n11_an_event_that_is_not_there_or_not_found_is_said() {
    // Two records of each partition.
    let it = accepting(6).await;
    let of = event();
    let path = format!("/v1/events/{}/explain", of.id);
    let absent = it.get(&path).await;
    assert_eq!((absent.status, absent.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    assert!(absent.text.contains("retention is over"), "{}", absent.text);
    assert_eq!(it.get("/v1/events/evt_x/explain").await.status, StatusCode::NOT_FOUND);

    accept(&it, 0, &of).await;
    let other = |n: u32| {
        let mut other = event();
        other.id = mailrail_types::EventId::derive(&of.tenant, "/other", &n.to_string());
        other
    };
    accept(&it, 0, &other(1)).await;
    assert_eq!(explain(&it, &of, "").await["looked"], 2);
    accept(&it, 0, &other(2)).await;
    let buried = it.get(&path).await;
    assert_eq!((buried.status, buried.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));

    it.log.trim(EVENTS, 0, 3).await.expect("trimmed");
    assert!(it.get(&path).await.text.contains("retention is over"));

    let _running = it.service.shared.explaining.lock().await;
    let busy = it.get(&path).await;
    assert_eq!((busy.status, busy.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "look_running"));
}

#[tokio::test]
async fn a_log_without_the_topic_is_said() {
    let it = setting_with(|_| {}).await;
    let answer = it.get(&format!("/v1/events/{}/explain", event().id)).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "log_unavailable"));
    assert!(!answer.text.contains("replays"), "{}", answer.text);
}

/// The tenant of an event may be gone.
#[tokio::test]
async fn an_event_of_nobody_has_no_recipients() {
    let it = accepting(1_000).await;
    let mut of = event();
    of.tenant = "globex".parse().expect("valid");
    accept(&it, 0, &of).await;
    let answer = it.get(&format!("/v1/events/{}/explain", of.id)).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    assert!(answer.text.contains("globex"), "{}", answer.text);
}
