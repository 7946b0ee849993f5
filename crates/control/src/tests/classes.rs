//! Classes over the API.

use axum::body::Body;
use http::{Method, StatusCode};
use mailrail_types::ClassId;
use serde_json::{Value, json};

use super::{document, log_lines, setting, total};

const PATH: &str = "/v1/mailbox-classes";

/// S17: options change at run time, and the roles know them at once.
#[tokio::test]
async fn s17_options_change_at_run_time() {
    let setting = setting().await;
    let list = setting.get(PATH).await.json();
    let ids: Vec<_> = list["items"].as_array().expect("a list").iter().map(|c| c["id"].clone()).collect();
    assert_eq!(ids, ["strict", "tolerant"]);

    let path = format!("{PATH}/tolerant");
    let answer = setting
        .call(Method::PUT, &path, json!({ "threads": 8, "buckets_max": 100, "priority": 1 }).to_string())
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let whole = json!({
        "id": "tolerant", "tolerates_reordering": true, "threads": 8, "payloads_per_thread": 4, "buckets_max": 100, "fixed_buckets": 10, "priority": 1,
    });
    assert_eq!(answer.json(), whole, "what is left out stays");
    let known = setting.directory.class(&ClassId::of("tolerant"));
    assert_eq!((known.threads, known.priority), (8, 1), "the roles know it at once");
    assert_eq!(setting.get(&path).await.json(), whole);
    // What was read may be sent back.
    assert_eq!(setting.call(Method::PUT, &path, whole.to_string()).await.json(), whole);

    let new = format!("{PATH}/bulk");
    let answer = setting.call(Method::PUT, &new, json!({ "tolerates_reordering": true }).to_string()).await;
    assert_eq!((answer.status, &answer.json()["payloads_per_thread"]), (StatusCode::OK, &json!(4)));
    assert_eq!(setting.call(Method::DELETE, &new, Body::empty()).await.status, StatusCode::NO_CONTENT);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(setting.call(method, &new, Body::empty()).await.code(), "not_found");
    }
    let logged = log_lines();
    assert!(
        logged.lines().any(|l| l.contains("audit") && l.contains("put_class") && l.contains("threads=8"))
    );
}

/// S17: invalid options are refused by name, and nothing changes.
#[tokio::test]
async fn s17_invalid_options_are_refused_and_named() {
    let setting = setting().await;
    let before = setting.get(PATH).await.json();
    let refused: &[(&str, Value, &str, &str)] = &[
        ("tolerant", json!({ "threads": 0 }), "invalid_class", "threads"),
        ("tolerant", json!({ "threads": -5 }), "invalid_class", "threads"),
        ("tolerant", json!({ "threads": 1025 }), "invalid_class", "threads"),
        ("tolerant", json!({ "threads": u64::MAX }), "invalid_class", "threads"),
        ("tolerant", json!({ "threads": 1.5 }), "wrong_type", "threads"),
        ("tolerant", json!({ "threads": "8" }), "wrong_type", "threads"),
        ("tolerant", json!({ "payloads_per_thread": 0 }), "invalid_class", "payloads_per_thread"),
        ("tolerant", json!({ "buckets_max": 4097 }), "invalid_class", "buckets_max"),
        ("strict", json!({ "fixed_buckets": 0 }), "invalid_class", "fixed_buckets"),
        ("strict", json!({ "priority": 0 }), "invalid_class", "priority"),
        ("strict", json!({ "priority": 11 }), "invalid_class", "priority"),
        ("strict", json!({ "priority": 300 }), "invalid_class", "priority"),
        ("strict", json!({ "priority": "first" }), "wrong_type", "priority"),
        ("tolerant", json!({ "tolerates_reordering": 1 }), "wrong_type", "tolerates_reordering"),
        ("tolerant", json!({ "thraeds": 8 }), "unknown_field", "thraeds"),
        ("tolerant", json!({ "id": "strict" }), "invalid_id", "id"),
        ("Upper", json!({ "tolerates_reordering": true }), "invalid_id", "id"),
        ("new", json!({ "threads": 8 }), "missing_field", "tolerates_reordering"),
    ];
    for (id, body, code, field) in refused {
        let answer = setting.call(Method::PUT, &format!("{PATH}/{id}"), body.to_string()).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{body}: {}", answer.text);
        assert_eq!((answer.code().as_str(), &answer.json()["field"]), (*code, &json!(field)), "{body}");
    }
    for body in ["", "[]", "{", "{\"threads\":1,\"threads\":2}"] {
        let answer = setting.call(Method::PUT, &format!("{PATH}/tolerant"), body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (StatusCode::BAD_REQUEST, "invalid_request"),
            "{body}"
        );
    }
    assert_eq!(setting.get(PATH).await.json(), before, "nothing was changed");
}

#[tokio::test]
async fn what_is_in_use_or_built_in_stays() {
    let setting = setting().await;
    setting.apply(&json!({ "setup": document() })).await;
    let conflict = async |method, path: &str, body: Value| {
        let answer = setting.call(method, &format!("{PATH}/{path}"), body.to_string()).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (StatusCode::CONFLICT, "conflict"),
            "{path} {body}"
        );
        answer.json()["detail"].as_str().expect("a detail").to_owned()
    };
    assert!(conflict(Method::DELETE, "strict", json!(null)).await.contains("built in"));
    let fixed = conflict(Method::PUT, "strict", json!({ "fixed_buckets": 20 })).await;
    assert!(fixed.contains("fixed_buckets") && fixed.contains("tenant 'acme'"), "{fixed}");

    let mut using = document();
    using["classes"] = json!([{ "id": "bulk", "tolerates_reordering": true }]);
    using["tenants"][0]["apps"][0]["endpoints"][0]["class"] = json!("bulk");
    let answer = setting.apply(&json!({ "setup": using })).await.json();
    assert_eq!(total(&answer["counts"]), [1, 1, 8, 0], "{answer}");
    assert_eq!(answer["counts"]["classes"]["created"], 1);
    assert_eq!(setting.get("/v1/tenants/acme/endpoints/main").await.json()["class"], "bulk");
    let used = conflict(Method::DELETE, "bulk", json!(null)).await;
    assert!(used.contains("endpoint 'main' of tenant 'acme'"), "{used}");

    // A stored class may be named by a document that does not list it.
    using["classes"] = json!([]);
    let again = setting.apply(&json!({ "setup": using, "prune": true })).await.json();
    assert_eq!(total(&again["counts"]), [0, 0, 9, 0], "{again}");
    assert_eq!(setting.get(&format!("{PATH}/bulk")).await.status, StatusCode::OK, "classes are never pruned");
}
