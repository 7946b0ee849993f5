//! Set-up documents over the API.

use http::StatusCode;
use serde_json::json;

use super::{KEY, document, setting, total};

#[tokio::test]
async fn apply_is_idempotent_and_what_it_made_is_shown_once() {
    let setting = setting().await;
    let first = setting.apply(&json!({ "setup": document() })).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.text);
    assert_eq!(first.headers["cache-control"], "no-store");
    let body = first.json();
    assert_eq!(total(&body["counts"]), [9, 0, 0, 0], "{body}");
    assert_eq!(body["visible"], true);
    let (token, secret) =
        (body["keys"][0]["token"].as_str().expect("a token"), body["secrets"][0]["secret"].as_str());
    assert_eq!((&body["keys"][0]["key"], body["keys"].as_array().map(Vec::len)), (&json!("made"), Some(1)));
    assert_eq!(
        (&body["secrets"][0]["endpoint"], body["secrets"].as_array().map(Vec::len)),
        (&json!("other"), Some(1))
    );
    assert!(secret.is_some_and(|s| s.starts_with("whsec_")));
    for token in [token, KEY] {
        let key = setting.directory.authenticate(token).expect("the roles know the key at once");
        assert_eq!(key.tenant.as_str(), "acme");
    }

    for prune in [false, true] {
        let again = setting.apply(&json!({ "setup": document(), "prune": prune })).await.json();
        assert_eq!(total(&again["counts"]), [0, 0, 9, 0], "{again}");
        assert_eq!((&again["keys"], &again["secrets"]), (&json!([]), &json!([])));
    }
    assert!(setting.directory.authenticate(token).is_some(), "a key whose token was generated is kept");
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let setting = setting().await;
    let answer = setting.apply(&json!({ "setup": document(), "dry_run": true })).await.json();
    assert_eq!(total(&answer["counts"]), [9, 0, 0, 0], "{answer}");
    assert_eq!(
        (&answer["keys"], &answer["secrets"], &answer["visible"]),
        (&json!([]), &json!([]), &json!(false))
    );
    assert_eq!(setting.get("/v1/tenants").await.json(), json!({ "items": [], "next": null }));

    setting.apply(&json!({ "setup": document() })).await;
    let mut fewer = document();
    fewer["tenants"][0]["apps"][0]["subscriptions"] = json!([]);
    let answer = setting.apply(&json!({ "setup": fewer, "prune": true, "dry_run": true })).await.json();
    assert_eq!(total(&answer["counts"]), [0, 0, 8, 1]);
    assert_eq!(setting.get("/v1/tenants/acme/subscriptions/pushes").await.status, StatusCode::OK);
}

#[tokio::test]
async fn prune_deletes_only_within_the_listed_tenants() {
    let setting = setting().await;
    setting.apply(&json!({ "setup": document() })).await;
    let other = json!({ "version": 1, "tenants": [{ "id": "globex", "apps": [{ "id": "a" }] }] });
    let answer = setting.apply(&json!({ "setup": other, "prune": true })).await.json();
    assert_eq!(total(&answer["counts"]), [2, 0, 0, 0]);
    let empty = json!({ "version": 1, "tenants": [{ "id": "acme", "name": "Acme Inc" }] });
    let kept = setting.apply(&json!({ "setup": empty })).await.json();
    assert_eq!(total(&kept["counts"]), [0, 0, 1, 0], "without prune nothing goes");
    let gone = setting.apply(&json!({ "setup": empty, "prune": true })).await.json();
    assert_eq!(total(&gone["counts"]), [0, 0, 1, 8]);
    assert!(setting.directory.authenticate(KEY).is_none(), "a pruned key is revoked");
    assert_eq!(setting.get("/v1/tenants/globex/apps/a").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_bad_document_changes_nothing_and_all_its_problems_are_named() {
    let setting = setting().await;
    let mut bad = document();
    bad["tenants"][0]["apps"][0]["endpoints"][0]["url"] = json!("http://shop.example/");
    bad["tenants"][0]["apps"][0]["endpoints"][1]["colour"] = json!("red");
    bad["tenants"][0]["apps"][0]["subscriptions"][0]["filter"]["pattern"]["ref"] = json!([{ "perfix": "x" }]);
    let answer = setting.apply(&json!({ "setup": bad })).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "invalid_setup"));
    let body = answer.json();
    let found: Vec<_> = body["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|p| format!("{} {}", p["code"], p["path"]))
        .collect();
    for wanted in [
        r#""scheme_not_allowed" "tenants[0].apps[0].endpoints[0].url""#,
        r#""unknown_field" "tenants[0].apps[0].endpoints[1].colour""#,
        r#""filter_unknown_operator" "tenants[0].apps[0].subscriptions[0].filter.pattern""#,
    ] {
        assert!(found.iter().any(|f| f == wanted), "{wanted} is missing in {found:#?}");
    }
    let filter = body["problems"].to_string();
    assert!(
        filter.contains("'pushes'")
            && filter.contains("$.ref[0]")
            && filter.contains("filter_unknown_operator"),
        "{filter}"
    );
    assert_eq!(setting.get("/v1/tenants").await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_token_of_another_tenant_is_a_conflict() {
    let setting = setting().await;
    setting.apply(&json!({ "setup": document() })).await;
    let thief =
        json!({ "version": 1, "tenants": [{ "id": "thief", "keys": [{ "id": "k", "token": KEY }] }] });
    for dry_run in [true, false] {
        let answer = setting.apply(&json!({ "setup": thief, "dry_run": dry_run })).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::CONFLICT, "conflict"));
        assert!(!answer.text.contains("acme") && !answer.text.contains(KEY), "{}", answer.text);
    }
    assert_eq!(setting.get("/v1/tenants/thief").await.status, StatusCode::NOT_FOUND);
}
