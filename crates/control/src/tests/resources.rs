//! Reads, deletions and secrets.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{HEADER, KEY, SECRET, TOKEN, document, log_lines, setting};

/// A54: the query of a URL is often a key; who set it up knows it.
#[tokio::test]
async fn a54_the_query_of_an_endpoints_url_is_not_shown() {
    let setting = setting().await;
    let mut setup = document();
    setup["tenants"][0]["apps"][0]["endpoints"][0]["url"] = json!("https://shop.example/in?key=Zm9v&x=1");
    setting.apply(&json!({ "setup": setup })).await;
    let main = setting.get("/v1/tenants/acme/endpoints/main").await.json();
    assert_eq!(main["url"], "https://shop.example/in?…");
}

#[tokio::test]
async fn everything_can_be_read_and_deleted() {
    let setting = setting().await;
    setting.apply(&json!({ "setup": document() })).await;
    let acme = setting.get("/v1/tenants/acme").await.json();
    assert_eq!(
        (&acme["name"], &acme["endpoints"], &acme["keys"]),
        (&json!("Acme Inc"), &json!(2), &json!(2))
    );
    let endpoint = setting.get("/v1/tenants/acme/endpoints/main").await.json();
    assert_eq!(
        endpoint,
        json!({
            "id": "main", "app": "shop", "url": "https://shop.example/", "header_names": ["Authorization"], "secrets": 1, "class": "tolerant", "timeout_ms": 15000,
            "head_max_age_ms": null, "max_in_flight": null, "rate_per_second": null, "paused": false, "paused_by": null, "paused_at_ms": null,
        })
    );
    let mut limited = document();
    limited["tenants"][0]["apps"][0]["endpoints"][0]["max_in_flight"] = json!(4);
    limited["tenants"][0]["apps"][0]["endpoints"][0]["rate_per_second"] = json!(50);
    for (setup, limits) in [(limited, (json!(4), json!(50))), (document(), (json!(null), json!(null)))] {
        setting.apply(&json!({ "setup": setup })).await;
        let main = setting.get("/v1/tenants/acme/endpoints/main").await.json();
        assert_eq!((&main["max_in_flight"], &main["rate_per_second"]), (&limits.0, &limits.1), "{main}");
    }
    let subscription = setting.get("/v1/tenants/acme/subscriptions/pushes").await.json();
    assert_eq!(subscription["filter"], json!({ "pattern": { "ref": [{ "prefix": "refs/" }] } }));
    assert_eq!(setting.get("/v1/tenants/acme/event-types/a%2Fb%20c").await.json()["name"], "a/b c");

    let page = setting.get("/v1/tenants/acme/keys?limit=1").await.json();
    assert_eq!(page, json!({ "items": [{ "id": "given" }], "next": "given" }));
    let page = setting.get("/v1/tenants/acme/keys?limit=1&after=given").await.json();
    assert_eq!(page, json!({ "items": [{ "id": "made" }], "next": null }));

    for path in ["event-types/a%2Fb%20c", "keys/given", "subscriptions/pushes", "endpoints/main", "apps/shop"]
    {
        let path = format!("/v1/tenants/acme/{path}");
        assert_eq!(
            setting.call(Method::DELETE, &path, Body::empty()).await.status,
            StatusCode::NO_CONTENT,
            "{path}"
        );
        assert_eq!(setting.get(&path).await.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(
            setting.call(Method::DELETE, &path, Body::empty()).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    assert!(setting.directory.authenticate(KEY).is_none());
    assert_eq!(
        setting.get("/v1/tenants/acme/endpoints").await.json()["items"],
        json!([]),
        "an app takes its endpoints along"
    );
    assert_eq!(
        setting.call(Method::DELETE, "/v1/tenants/acme", Body::empty()).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(setting.get("/v1/tenants/acme").await.status, StatusCode::NOT_FOUND);
}

/// N16: secrets rotate with overlap, and are shown once.
#[tokio::test]
async fn n16_secrets_rotate_with_overlap() {
    let setting = setting().await;
    setting.apply(&json!({ "setup": document() })).await;
    let secrets = || {
        let acme = setting.directory.tenant(&"acme".parse().expect("valid")).expect("there");
        acme.endpoints[&"main".parse().expect("valid")]
            .secrets
            .iter()
            .map(|s| s.expose().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(secrets(), [SECRET]);
    let rotated =
        setting.call(Method::POST, "/v1/tenants/acme/endpoints/main/secret/rotate", Body::empty()).await;
    assert_eq!(
        (rotated.status, &rotated.headers["cache-control"]),
        (StatusCode::OK, &"no-store".parse().expect("valid"))
    );
    let new = rotated.json()["secret"].as_str().expect("a secret").to_owned();
    assert_eq!(secrets(), [new.clone(), SECRET.to_owned()]);

    // The file still names the old one: applying it goes back to it, with overlap.
    let answer = setting.apply(&json!({ "setup": document() })).await.json();
    assert_eq!(answer["counts"]["endpoints"]["updated"], 1);
    assert_eq!(secrets(), [SECRET.to_owned(), new.clone()]);

    let own = json!({ "secret": format!("whsec_{}", "A".repeat(32)) }).to_string();
    assert_eq!(
        setting.call(Method::POST, "/v1/tenants/acme/endpoints/main/secret/rotate", own).await.status,
        StatusCode::OK
    );
    assert_eq!(secrets().len(), 3);
    let answer =
        setting.call(Method::DELETE, "/v1/tenants/acme/endpoints/main/secret/previous", Body::empty()).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(secrets(), [format!("whsec_{}", "A".repeat(32))]);

    for bad in ["{\"secret\":\"whsec_short\"}", "{\"secret\":5}", "[]", "{\"x\":1}"] {
        let answer = setting.call(Method::POST, "/v1/tenants/acme/endpoints/main/secret/rotate", bad).await;
        assert_eq!(answer.code(), "invalid_request", "{bad}");
    }
    let answer =
        setting.call(Method::POST, "/v1/tenants/acme/endpoints/gone/secret/rotate", Body::empty()).await;
    assert_eq!(answer.code(), "not_found");
    assert_eq!(
        setting
            .call(Method::DELETE, "/v1/tenants/acme/endpoints/gone/secret/previous", Body::empty())
            .await
            .code(),
        "not_found"
    );
}

/// N16: no read and no log line shows a secret.
#[tokio::test]
async fn n16_no_read_and_no_log_line_shows_a_secret() {
    let setting = setting().await;
    let made = setting.apply(&json!({ "setup": document() })).await.json();
    let rotated = setting
        .call(Method::POST, "/v1/tenants/acme/endpoints/other/secret/rotate", Body::empty())
        .await
        .json();
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    let mut canaries = vec![SECRET.to_owned(), KEY.to_owned(), HEADER.to_owned(), TOKEN.to_owned()];
    canaries.extend([
        text(&made["keys"][0]["token"]),
        text(&made["secrets"][0]["secret"]),
        text(&rotated["secret"]),
    ]);

    let mut seen = String::new();
    for path in [
        "",
        "/acme",
        "/acme/event-types",
        "/acme/apps",
        "/acme/endpoints",
        "/acme/subscriptions",
        "/acme/keys",
        "/acme/endpoints/main",
        "/acme/endpoints/other",
        "/acme/keys/given",
        "/acme/keys/made",
        "/acme/apps/shop",
    ] {
        let answer = setting.get(&format!("/v1/tenants{path}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        seen.push_str(&answer.text);
    }
    seen.push_str(&setting.get("/v1/status").await.text);
    let again = setting.apply(&json!({ "setup": document(), "dry_run": true })).await;
    seen.push_str(&again.text);
    let deleted = setting.call(Method::DELETE, "/v1/tenants/acme", Body::empty()).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.text);
    // Of all tests in this process: none of them may show one.
    let logged = log_lines();
    for action in ["apply", "rotate_secret", "delete"] {
        let line = format!("action=\"{action}\"");
        let found =
            logged.lines().any(|l| l.contains("audit") && l.contains("actor=\"alice\"") && l.contains(&line));
        assert!(found, "{line} is missing in {logged}");
    }
    seen.push_str(&logged);
    for canary in canaries {
        let core = canary.trim_start_matches("whsec_").trim_end_matches('=');
        assert!(!seen.contains(core), "{canary} was shown");
    }
}
