//! Integrations over the API.

use axum::body::Body;
use http::{Method, StatusCode};
use mailrail_types::{IntegrationId, TenantId};
use serde_json::{Value, json};

use super::{document, log_lines, setting, total};

const SECRET: &str = "inbound-canary-one";
const NEXT: &str = "inbound-canary-two";
const PATH: &str = "/v1/tenants/acme/integrations";

fn with_integrations() -> Value {
    let mut document = document();
    document["tenants"][0]["integrations"] = json!([
        { "id": "github", "provider": "github", "secret": SECRET, "cells": ["main", "other"] },
        { "id": "open", "provider": "azure_devops", "cells": ["other"], "class": "strict" },
    ]);
    document
}

#[tokio::test]
async fn integrations_are_applied_read_and_deleted() {
    let setting = setting().await;
    let answer = setting.apply(&json!({ "setup": with_integrations() })).await.json();
    assert_eq!(total(&answer["counts"]), [11, 0, 0, 0], "{answer}");
    assert_eq!(answer["counts"]["integrations"]["created"], 2);
    assert_eq!(
        answer["secrets"].as_array().map(Vec::len),
        Some(1),
        "an endpoint's; none is made for a third party"
    );
    let again = setting.apply(&json!({ "setup": with_integrations(), "prune": true })).await.json();
    assert_eq!(total(&again["counts"]), [0, 0, 11, 0], "{again}");

    let github = json!({ "id": "github", "provider": "github", "secrets": 1, "cells": ["main", "other"], "paused_cells": [], "class": null });
    let open = json!({ "id": "open", "provider": "azure_devops", "secrets": 0, "cells": ["other"], "paused_cells": [], "class": "strict" });
    assert_eq!(setting.get(PATH).await.json()["items"], json!([github, open]));
    assert_eq!(setting.get(&format!("{PATH}/github")).await.json(), github);
    let acme = setting.get("/v1/tenants/acme").await.json();
    assert_eq!((&acme["integrations"], &acme["source_class"]), (&json!(2), &json!("strict")));

    let gone = setting.call(Method::DELETE, "/v1/tenants/acme/endpoints/main", Body::empty()).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(setting.get(&format!("{PATH}/github")).await.json()["cells"], json!(["other"]));
    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND] {
        let deleted = setting.call(Method::DELETE, &format!("{PATH}/github"), Body::empty()).await;
        assert_eq!(deleted.status, status);
    }
}

#[tokio::test]
async fn n16_inbound_secrets_rotate_with_overlap_and_are_never_shown() {
    let setting = setting().await;
    let mut seen = setting.apply(&json!({ "setup": with_integrations() })).await.text;
    let secrets = || {
        let acme = setting.directory.tenant(&TenantId::of("acme")).expect("there");
        let secrets = &acme.integrations[&IntegrationId::of("github")].secrets;
        secrets.iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>()
    };
    let mut without = with_integrations();
    without["tenants"][0]["integrations"][0].as_object_mut().expect("an object").remove("secret");
    seen.push_str(&setting.apply(&json!({ "setup": without })).await.text);
    assert_eq!(secrets(), [SECRET], "left out: kept");

    let mut next = with_integrations();
    next["tenants"][0]["integrations"][0]["secret"] = json!(NEXT);
    seen.push_str(&setting.apply(&json!({ "setup": next })).await.text);
    assert_eq!(secrets(), [NEXT, SECRET], "both are accepted until everybody has changed over");
    for path in [PATH.to_owned(), format!("{PATH}/github")] {
        seen.push_str(&setting.get(&path).await.text);
    }
    let revoke = |id: &str| format!("{PATH}/{id}/secret/previous");
    let answer = setting.call(Method::DELETE, &revoke("github"), Body::empty()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(secrets(), [NEXT]);
    assert_eq!(setting.call(Method::DELETE, &revoke("gone"), Body::empty()).await.code(), "not_found");
    seen.push_str(&answer.text);
    seen.push_str(&log_lines());
    assert!(!seen.contains(SECRET) && !seen.contains(NEXT), "a secret was shown");
}
