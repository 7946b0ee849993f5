//! What is accepted, and what is in the log then.

use mailrail_types::{AttributeValue, EventId, TenantId};

use super::*;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// N01, A11: an event in binary mode is in the log when it is answered.
#[tokio::test]
async fn n01_a11_binary_event_is_in_the_log_when_it_is_answered() {
    let house = house().await;
    let request = post(
        &[
            ("ce-specversion", "1.0"),
            ("ce-id", "42"),
            ("ce-source", "/github/mailrail"),
            ("ce-type", "pushed"),
            ("ce-time", "2030-01-31T12:00:00Z"),
            ("ce-tenant", "other"),
            ("content-type", "application/json; charset=utf-8"),
            ("traceparent", TRACE),
            ("tracestate", "v=1"),
        ],
        r#"{ "repository": {"id": 123456789012345678901234567890} }"#,
    );
    let answer = send(&house.router, request).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let acme = TenantId::new("acme").expect("an id");
    let id = EventId::derive(&acme, "/github/mailrail", "42");
    assert_eq!(answer.json, serde_json::json!({ "id": id.to_string() }));
    let found = events(house.log.as_ref(), "acme").await;
    let [event] = &found[..] else { panic!("one event, not {found:?}") };
    assert_eq!((event.id, &event.tenant, event.accepted_at), (id, &acme, NOW));
    assert_eq!(event.ordering_key.as_deref(), Some("123456789012345678901234567890"));
    assert_eq!(event.attributes.content_type.as_deref(), Some("application/json; charset=utf-8"));
    assert_eq!(event.attributes.extension("tenant"), Some(&AttributeValue::String("other".into())));
    let trace = event.trace.as_ref().expect("a trace");
    assert_eq!((trace.traceparent.as_str(), trace.tracestate.as_str()), (TRACE, "v=1"));
    assert!(event.setup_seq > 0, "the set-up it was accepted with is known");
    assert!(events(house.log.as_ref(), "other").await.is_empty());
}

#[tokio::test]
async fn the_tenant_is_the_one_of_the_key() {
    let house = house().await;
    let mut request = structured(event_json("1"));
    request.headers_mut().insert(AUTHORIZATION, format!("bearer {OTHER}").parse().expect("a value"));
    assert_eq!(send(&house.router, request).await.status, 202);
    assert_eq!(events(house.log.as_ref(), "acme").await.len(), 0);
    let [event] = &events(house.log.as_ref(), "other").await[..] else { panic!("one event") };
    assert_eq!(event.id, EventId::derive(&TenantId::new("other").expect("an id"), "/s", "1"));
}

/// N01: plain JSON with headers, through the door.
#[tokio::test]
async fn n01_plain_json_with_headers_and_the_partition_key() {
    let house = house().await;
    let headers = [
        ("ce-id", "1"),
        ("ce-source", "/s"),
        ("ce-type", "pushed"),
        ("ce-partitionkey", "p%201"),
        ("content-type", "application/json"),
        ("ce-traceparent", TRACE),
        ("content-encoding", "identity"),
    ];
    let answer = send(&house.router, post(&headers, r#"{"repository":{"id":7}}"#)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let [event] = &events(house.log.as_ref(), "acme").await[..] else { panic!("one event") };
    assert_eq!(event.ordering_key.as_deref(), Some("p 1"), "the extension goes before the body");
    assert_eq!(event.trace.as_ref().map(|t| t.traceparent.as_str()), Some(TRACE), "the event's own trace");
}

#[tokio::test]
async fn an_event_without_a_readable_key_is_accepted_without_one() {
    let house = house().await;
    for (id, data) in [("1", r#"{"repository":{"id":null}}"#), ("2", r#"{"repository":[]}"#), ("3", "7")] {
        let json =
            format!(r#"{{"specversion":"1.0","id":"{id}","source":"/s","type":"pushed","data":{data}}}"#);
        assert_eq!(send(&house.router, structured(json)).await.status, 202);
    }
    assert!(events(house.log.as_ref(), "acme").await.iter().all(|e| e.ordering_key.is_none()));
}

/// N01: a batch keeps its order, and each item has its answer.
#[tokio::test]
async fn n01_a_batch_keeps_its_order_and_answers_per_item() {
    let house = house().await;
    let all = format!("[{},{},{}]", event_json("3"), event_json("1"), event_json("2"));
    let answer = send(&house.router, batch(all)).await;
    assert_eq!(answer.status, 202);
    let ids: Vec<_> =
        answer.json["items"].as_array().expect("items").iter().map(|i| i["id"].clone()).collect();
    let stored = events(house.log.as_ref(), "acme").await;
    assert_eq!(stored.iter().map(|e| e.attributes.id.as_str()).collect::<Vec<_>>(), ["3", "1", "2"]);
    assert_eq!(ids, stored.iter().map(|e| Value::from(e.id.to_string())).collect::<Vec<_>>());

    let some = format!(r#"[{},{{"specversion":"1.0"}},5,{}]"#, event_json("4"), event_json("5"));
    let answer = send(&house.router, batch(some)).await;
    assert_eq!(answer.status, 207);
    let items = answer.json["items"].as_array().expect("items");
    assert_eq!(
        items.iter().map(|i| i["status"].as_u64()).collect::<Vec<_>>(),
        [Some(202), Some(400), Some(400), Some(202)]
    );
    assert_eq!((&items[1]["code"], &items[1]["field"]), (&"missing_attribute".into(), &"id".into()));
    assert_eq!(items[2]["code"], "malformed_json");
    let stored = events(house.log.as_ref(), "acme").await;
    assert_eq!(
        stored.iter().map(|e| e.attributes.id.as_str()).collect::<Vec<_>>(),
        ["3", "1", "2", "4", "5"]
    );

    let text = house.metrics.render();
    for line in [
        "mailrail_ingest_events_accepted_total 5",
        "mailrail_ingest_events_refused_total{reason=\"missing_attribute\"} 1",
        "mailrail_ingest_events_refused_total{reason=\"malformed_json\"} 1",
        "mailrail_ingest_requests_total{status=\"202\"} 1",
        "mailrail_ingest_requests_total{status=\"207\"} 1",
        "mailrail_ingest_append_seconds_count 2",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}
