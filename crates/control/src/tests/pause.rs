//! Pausing and resuming over the API.

use axum::body::Body;
use http::{Method, StatusCode};
use mailrail_types::{EndpointId, TenantId};
use serde_json::json;

use super::{Setting, document, log_lines, setting, total};

const MAIN: &str = "/v1/tenants/acme/endpoints/main";

async fn act(setting: &Setting, action: &str) -> super::Answer {
    setting.call(Method::POST, &format!("{MAIN}/{action}"), Body::empty()).await
}

#[tokio::test]
async fn an_endpoint_is_paused_and_resumed_at_run_time() {
    let setting = setting().await;
    let mut document = document();
    document["tenants"][0]["apps"][0]["endpoints"][0]["head_max_age"] = json!("12h");
    document["tenants"][0]["integrations"] =
        json!([{ "id": "github", "provider": "github", "cells": ["main", "other"] }]);
    setting.apply(&json!({ "setup": document })).await;
    let known = || {
        let acme = setting.directory.tenant(&TenantId::of("acme")).expect("there");
        acme.endpoints[&EndpointId::of("main")].paused
    };
    let before = setting.get(MAIN).await.json();
    assert_eq!((&before["paused"], &before["head_max_age_ms"]), (&json!(false), &json!(43_200_000)));

    let answer = act(&setting, "pause").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert!(known(), "the roles know it at once");
    let paused = answer.json();
    assert_eq!(
        (&paused["id"], &paused["paused"], &paused["paused_by"]),
        (&json!("main"), &json!(true), &json!("alice"))
    );
    assert!(paused["paused_at_ms"].as_i64().is_some_and(|at| at > 1_700_000_000_000), "{paused}");
    assert_eq!(setting.get(MAIN).await.json(), paused);
    let list = setting.get("/v1/tenants/acme/endpoints").await.json();
    assert_eq!((&list["items"][0]["paused"], &list["items"][1]["paused"]), (&json!(true), &json!(false)));
    let github = setting.get("/v1/tenants/acme/integrations/github").await.json();
    assert_eq!(github["paused_cells"], json!(["main"]));

    assert_eq!(act(&setting, "pause").await.json(), paused, "again changes nothing");
    let again = setting.apply(&json!({ "setup": document, "prune": true })).await.json();
    assert_eq!(total(&again["counts"]), [0, 0, 10, 0], "{again}");
    document["tenants"][0]["apps"][0]["endpoints"][0]["url"] = json!("https://shop.example/moved");
    setting.apply(&json!({ "setup": document })).await;
    let moved = setting.get(MAIN).await.json();
    assert_eq!((&moved["url"], &moved["paused"]), (&json!("https://shop.example/moved"), &json!(true)));
    assert!(known(), "a set-up resumes nothing");

    let resumed = act(&setting, "resume").await.json();
    assert_eq!(
        (&resumed["paused"], &resumed["paused_by"], &resumed["paused_at_ms"]),
        (&json!(false), &json!(null), &json!(null))
    );
    assert!(!known());
    assert_eq!(act(&setting, "resume").await.json(), resumed, "again changes nothing");
    let logged = log_lines();
    for action in ["pause_endpoint", "resume_endpoint"] {
        let line = format!("actor=\"alice\" action=\"{action}\"");
        assert!(logged.lines().any(|l| l.contains("audit") && l.contains(&line)), "{line} is missing");
    }
}

#[tokio::test]
async fn what_cannot_be_paused_is_refused_with_a_code() {
    let setting = setting().await;
    setting.apply(&json!({ "setup": document() })).await;
    for action in ["pause", "resume"] {
        for gone in
            ["acme/endpoints/gone", "nobody/endpoints/main", "acme/endpoints/MAIN", "AC.ME/endpoints/main"]
        {
            let answer =
                setting.call(Method::POST, &format!("/v1/tenants/{gone}/{action}"), Body::empty()).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (StatusCode::NOT_FOUND, "not_found"),
                "{gone}"
            );
        }
        let path = format!("{MAIN}/{action}");
        for bad in ["[]", "{", "null", "\"x\""] {
            let answer = setting.call(Method::POST, &path, bad).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (StatusCode::BAD_REQUEST, "invalid_request"),
                "{bad}"
            );
        }
        let answer = setting.call(Method::POST, &path, "{\"until\":\"tomorrow\"}").await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (StatusCode::UNPROCESSABLE_ENTITY, "unknown_field")
        );
        assert_eq!(answer.json()["field"], "until");
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let answer = setting.call(method.clone(), &path, Body::empty()).await;
            assert_eq!(answer.code(), "method_not_allowed", "{method}");
        }
    }
    assert_eq!(setting.get(MAIN).await.json()["paused"], false, "nothing was changed");
    let empty = setting.call(Method::POST, &format!("{MAIN}/pause"), "{}").await;
    assert_eq!((empty.status, &empty.json()["paused"]), (StatusCode::OK, &json!(true)));
}

/// Its subscription goes with it; what waits for it is cancelled by whoever holds it, from the same change.
#[tokio::test]
async fn a_paused_endpoint_can_be_deleted_and_comes_back_unpaused() {
    let setting = setting().await;
    setting.apply(&json!({ "setup": document() })).await;
    act(&setting, "pause").await;
    let deleted = setting.call(Method::DELETE, MAIN, Body::empty()).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    assert_eq!(act(&setting, "resume").await.code(), "not_found");
    assert_eq!(setting.get("/v1/tenants/acme/subscriptions/pushes").await.status, StatusCode::NOT_FOUND);
    setting.apply(&json!({ "setup": document() })).await;
    assert_eq!(setting.get(MAIN).await.json()["paused"], false);
}
