//! Who gets in, and how refusals look.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request, StatusCode};
use mailrail_store::{EncryptionKey, Store};
use tempfile::TempDir;

use super::{TOKEN, setting};
use crate::{Config, Service};

#[tokio::test]
async fn only_operators_get_past_the_door() {
    let setting = setting().await;
    let tokens = [
        "",
        "Bearer",
        "Bearer wrong",
        "Basic abc",
        &format!("Basic {TOKEN}"),
        &format!("Bearer {}", &TOKEN[1..]),
    ];
    let mut bodies = std::collections::HashSet::new();
    for path in ["/v1/tenants", "/v1/status", "/v1/apply", "/", "/v1/nowhere"] {
        for token in tokens {
            let mut request = Request::builder().uri(path);
            if !token.is_empty() {
                request = request.header("authorization", token);
            }
            let answer = setting.send(request.body(Body::empty()).expect("a request")).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path} {token}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            bodies.insert(answer.text);
        }
    }
    assert_eq!(bodies.len(), 1, "a refusal tells nothing");
    let twice = Request::builder().uri("/v1/tenants").header("authorization", format!("Bearer {TOKEN}"));
    let twice = twice.header("authorization", "Bearer wrong").body(Body::empty()).expect("a request");
    assert_eq!(setting.send(twice).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(setting.get("/v1/tenants").await.status, StatusCode::OK);
}

/// N15: every refusal is `application/problem+json` with a stable code.
#[tokio::test]
async fn n15_every_refusal_is_a_problem_with_a_code() {
    let setting = setting().await;
    let answer = setting.get("/v1/nowhere").await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    assert_eq!(setting.get("/v1/tenants/acme/nonsense").await.code(), "not_found");
    assert_eq!(setting.get("/v1/tenants/acme").await.code(), "not_found");
    assert_eq!(setting.get("/v1/tenants/A%20B").await.code(), "not_found");
    for path in ["/v1/tenants/%ff", "/v1/dead-letters/a%C3", "/v1/tenants/a/endpoints/%80/pause", "/%FE"] {
        for method in [Method::GET, Method::DELETE, Method::PATCH] {
            let answer = setting.call(method, path, Body::empty()).await;
            let refused = (answer.status, answer.code());
            assert_eq!(refused, (StatusCode::BAD_REQUEST, "invalid_request".to_owned()), "{path}");
        }
    }
    assert_eq!(
        setting.call(Method::DELETE, "/v1/tenants/acme/keys/x", Body::empty()).await.code(),
        "not_found"
    );
    let answer = setting.call(Method::PUT, "/v1/tenants", Body::empty()).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed")
    );
    assert!(answer.headers["allow"].to_str().expect("text").contains("GET"));
    let answer = setting.call(Method::POST, "/v1/apply", vec![b' '; 64 * 1024 + 1]).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"));
    for body in [
        "",
        "[]",
        "{",
        "{}",
        "{\"setup\":{},\"prune\":1}",
        "{\"setup\":{},\"x\":1}",
        "{\"setup\":1,\"setup\":2}",
    ] {
        let answer = setting.call(Method::POST, "/v1/apply", body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (StatusCode::BAD_REQUEST, "invalid_request"),
            "{body}"
        );
    }
    assert_eq!(setting.get("/v1/tenants?limit=x").await.code(), "invalid_request");
    assert_eq!(setting.get("/v1/tenants?nope=1").await.code(), "invalid_request");
}

#[tokio::test]
async fn without_an_operator_there_is_no_service() {
    let setting = setting().await;
    let folder = TempDir::new().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = Store::open(&url, EncryptionKey::generate()).await.expect("a store");
    let config = Config::new(Vec::new(), Vec::new());
    let nobody = Service::new(
        config,
        store,
        Arc::clone(&setting.directory),
        Arc::clone(&setting.log),
        Arc::new(|url: &str| Ok(url.to_owned())),
        setting.sizer.clone(),
        &setting.metrics,
    );
    assert!(matches!(nobody, Err(crate::Error::NoOperator)));
}
