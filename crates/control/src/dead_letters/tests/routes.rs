//! The routes: who may, what is answered, what is refused with which code.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::*;
use crate::tests::{document, log_lines, setting};

/// A46, A47: dead letters are listed, counted, shown and put back over the API.
#[tokio::test]
async fn dead_letters_are_listed_counted_shown_and_put_back_over_the_api() {
    let setting = setting().await;
    let applied = setting.apply(&json!({ "setup": document() })).await;
    assert_eq!(applied.status, StatusCode::OK, "{}", applied.text);
    make_topics(&*setting.log).await;
    let dead = letter("main", 3, 0, DeadReason::Exhausted);
    let record = NewRecord { value: encode_dead_letter(&dead), ..NewRecord::default() };
    setting.log.append("dead-letters.default", 1, vec![record]).await.expect("appended");
    let list =
        setting.get("/v1/dead-letters?tenant=acme&endpoint=main&reason=exhausted,gone&since_ms=5").await;
    assert_eq!(list.status, StatusCode::OK, "{}", list.text);
    let item = &list.json()["items"][0];
    assert_eq!(
        (&item["position"], &item["redriven"], &item["last_status"]),
        (&json!("1:0"), &json!(false), &json!(503))
    );
    assert_eq!(setting.get("/v1/dead-letters/count").await.json()["letters"], 1);
    assert_eq!(setting.get("/v1/dead-letters?tenant=nobody").await.json()["items"], json!([]));
    let shown = setting.get(&format!("/v1/dead-letters/{}", dead.delivery.id)).await;
    assert!(shown.status == StatusCode::OK && !shown.text.contains("canary"), "{}", shown.text);
    let shown = setting.get("/v1/dead-letters/1:0?payload=true").await;
    assert!(shown.json()["payload"]["text"].as_str().is_some_and(|text| text.contains("body-canary")));
    assert_eq!(setting.get("/v1/quarantine").await.json()["items"], json!([]));

    let order = json!({ "filter": { "tenant": "acme" }, "rate": 100 });
    let ordered = setting.call(Method::POST, "/v1/dead-letters/replays", order.to_string()).await;
    assert_eq!(ordered.status, StatusCode::ACCEPTED, "{}", ordered.text);
    let id = ordered.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(ordered.json()["by"], "alice");
    let status = run_until_over(&setting.service.shared.dead_letters[0], &id).await;
    assert_eq!((status.redriven, status.rate), (1, 100));
    let replays = setting.get("/v1/dead-letters/replays").await.json();
    assert_eq!((&replays["items"][0]["id"], &replays["items"][0]["state"]), (&json!(id), &json!("done")));
    assert_eq!(setting.get(&format!("/v1/dead-letters/replays/{id}")).await.json()["redriven"], 1);
    let cancel = format!("/v1/dead-letters/replays/{id}/cancel");
    assert_eq!(setting.call(Method::POST, &cancel, "{}").await.json()["state"], "done", "it is over already");
    let lines = log_lines();
    for said in ["action=\"order_replay\"", "action=\"show_payload\"", "action=\"replay\""] {
        assert!(lines.contains(said), "{said} is in the audit log");
    }
    assert!(!lines.contains("body-canary"));
}

#[tokio::test]
async fn bad_input_is_refused_with_a_code_and_says_where() {
    let setting = setting().await;
    let applied = setting.apply(&json!({ "setup": document() })).await;
    assert_eq!(applied.status, StatusCode::OK, "{}", applied.text);
    make_topics(&*setting.log).await;
    for (path, status, code, field) in [
        ("/v1/dead-letters?tenent=acme", 400, "invalid_request", None),
        ("/v1/dead-letters?limit=many", 400, "invalid_request", None),
        ("/v1/dead-letters?after=x", 400, "invalid_request", None),
        ("/v1/dead-letters?pipeline=other", 400, "invalid_request", None),
        ("/v1/dead-letters?endpoint=main", 422, "invalid_filter", Some("tenant")),
        ("/v1/dead-letters?tenant=A", 422, "invalid_filter", Some("tenant")),
        ("/v1/dead-letters?reason=tired", 422, "invalid_filter", Some("reasons")),
        ("/v1/dead-letters?id=evt_x", 422, "invalid_filter", Some("ids")),
        ("/v1/dead-letters?since_ms=5&until_ms=4", 422, "invalid_filter", Some("until_ms")),
        ("/v1/dead-letters/count?limit=5", 400, "invalid_request", None),
        ("/v1/dead-letters/dlv_x", 404, "not_found", None),
        ("/v1/dead-letters/0:7", 404, "not_found", None),
        ("/v1/dead-letters/0:7?payload=perhaps", 400, "invalid_request", None),
        ("/v1/dead-letters/replays/rpl_x", 404, "not_found", None),
        ("/v1/quarantine?reason=gone", 422, "invalid_filter", Some("reasons")),
        ("/v1/quarantine/0:7", 404, "not_found", None),
    ] {
        let answer = setting.get(path).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (status, code),
            "{path}: {}",
            answer.text
        );
        assert_eq!(answer.json().get("field").and_then(Value::as_str), field, "{path}");
    }
    for (body, status, code, field) in [
        ("", 400, "invalid_request", None),
        ("[]", 400, "invalid_request", None),
        ("{}", 422, "invalid_filter", Some("filter")),
        (r#"{"all":true,"rate":0}"#, 422, "invalid_filter", Some("rate")),
        (r#"{"all":true,"rate":20000}"#, 422, "invalid_filter", Some("rate")),
        (r#"{"all":"yes"}"#, 400, "invalid_request", None),
        (r#"{"all":true,"dry_run":true}"#, 400, "invalid_request", None),
        (r#"{"filter":{"reason":["gone"]}}"#, 400, "invalid_request", None),
        (r#"{"filter":{"reasons":["tired"]}}"#, 422, "invalid_filter", Some("reasons")),
        (r#"{"filter":{"tenant":"acmee"}}"#, 422, "unknown_tenant", Some("tenant")),
        (r#"{"filter":{"tenant":"acme","endpoint":"mian"}}"#, 422, "unknown_endpoint", Some("endpoint")),
    ] {
        let answer = setting.call(Method::POST, "/v1/dead-letters/replays", body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (status, code),
            "{body}: {}",
            answer.text
        );
        assert_eq!(answer.json().get("field").and_then(Value::as_str), field, "{body}");
    }
    assert_eq!(setting.get("/v1/dead-letters/replays").await.json()["items"], json!([]));
    let stranger = Request::builder().uri("/v1/dead-letters").body(Body::empty()).expect("a request");
    assert_eq!(setting.send(stranger).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_log_that_does_not_answer_is_said_so() {
    let setting = setting().await;
    let answer = setting.get("/v1/dead-letters").await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "log_unavailable"), "{}", answer.text);
    let answer = setting.call(Method::POST, "/v1/dead-letters/replays", r#"{"all":true}"#).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "log_unavailable"), "{}", answer.text);
}
