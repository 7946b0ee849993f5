//! The shed switch over the API.

use http::{Method, StatusCode};
use mailrail_types::{IntegrationId, Provider, TenantId};
use serde_json::{Value, json};

use super::setting;

const PATH: &str = "/v1/shed";

/// S36: the switch names what is shed, and is taken back, while everything runs.
#[tokio::test]
async fn s36_named_traffic_is_shed_and_let_in_again() {
    let setting = setting().await;
    assert_eq!(setting.get(PATH).await.json(), json!({ "rules": [] }));
    let rules = json!({ "rules": [
        { "provider": "jira", "tenant": null, "integration": null },
        { "provider": "github", "tenant": "acme", "integration": "main" },
    ]});
    let answer = setting.call(Method::PUT, PATH, rules.to_string()).await;
    assert_eq!((answer.status, answer.json()), (StatusCode::OK, rules.clone()));
    assert_eq!(setting.get(PATH).await.json(), rules);
    let covered = |provider| {
        let (tenant, integration) = (TenantId::of("acme"), IntegrationId::of("main"));
        setting.directory.shed().iter().any(|rule| rule.covers(provider, &tenant, &integration))
    };
    assert!(covered(Provider::Jira) && covered(Provider::GitHub) && !covered(Provider::GitLab));
    let cleared = setting.call(Method::PUT, PATH, json!({ "rules": [] }).to_string()).await;
    assert_eq!((cleared.status, cleared.json()), (StatusCode::OK, json!({ "rules": [] })));
    assert!(!covered(Provider::Jira));
}

/// S36: a rule with a mistake sheds nothing and changes nothing.
#[tokio::test]
async fn s36_a_mistake_sheds_nothing() {
    let setting = setting().await;
    let before = json!({ "rules": [{ "provider": "gitlab", "tenant": null, "integration": null }] });
    setting.call(Method::PUT, PATH, before.to_string()).await;
    let good = json!({ "provider": "github" });
    let refused: &[(Value, &str, &str)] = &[
        (json!([good, {}]), "missing_provider", "rules[1].provider"),
        (json!([{ "tenant": "acme" }]), "missing_provider", "rules[0].provider"),
        (json!([{ "provider": "" }]), "missing_provider", "rules[0].provider"),
        (json!([{ "provider": null }]), "missing_provider", "rules[0].provider"),
        (json!([{ "provider": "*" }]), "unknown_provider", "rules[0].provider"),
        (json!([{ "provider": 5 }]), "wrong_type", "rules[0].provider"),
        (json!([{ "provider": "github", "tennant": "acme" }]), "unknown_field", "rules[0].tennant"),
        (json!([{ "provider": "github", "tenant": "" }]), "invalid_id", "rules[0].tenant"),
        (json!([{ "provider": "github", "integration": "*" }]), "invalid_id", "rules[0].integration"),
        (json!(["github"]), "wrong_type", "rules[0]"),
        (json!(vec![good.clone(); 257]), "too_many", "rules"),
    ];
    for (rules, code, field) in refused {
        let answer = setting.call(Method::PUT, PATH, json!({ "rules": rules }).to_string()).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{field}: {}", answer.text);
        assert_eq!((answer.code().as_str(), &answer.json()["field"]), (*code, &json!(field)));
    }
    for body in ["", "{}", "[]", "{\"rules\":{}}", "{\"rules\":[],\"x\":1}"] {
        let answer = setting.call(Method::PUT, PATH, body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (StatusCode::BAD_REQUEST, "invalid_request"),
            "{body}"
        );
    }
    assert_eq!(setting.get(PATH).await.json(), before, "what was set before stays");
}
