//! The file and the plain code tell the same.

use std::collections::BTreeSet;

use mailrail_filter::{Document, Filter};
use mailrail_types::{Attributes, FilterLanguage, FilterSource};
use rand::SeedableRng;
use rand::rngs::StdRng;

use serde_json::Value;

use super::*;
use crate::payloads::{Payload, Payloads};

fn setup(seed: u64) -> Setup {
    Setup::new(&mut StdRng::seed_from_u64(seed))
}

#[test]
fn every_place_of_the_file_is_filled_in() {
    let setup = setup(1);
    let text = setup.text("http://127.0.0.1:9999/");
    let filled = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert!(!filled.contains("${"), "{filled}");
    assert_eq!(text, setup.text("http://127.0.0.1:9999"), "same secrets, same text");
    for endpoint in setup.receiver_endpoints() {
        assert!(text.contains(&format!("\"http://127.0.0.1:9999/{}\"", endpoint.name)), "{}", endpoint.name);
        assert!(text.contains(&endpoint.secret));
    }
    for access in setup.accesses().expect("names") {
        assert!(text.contains(&access.token) && access.token.len() >= 32);
        assert!(!format!("{access:?}").contains(&access.token));
    }
}

#[test]
fn runs_have_secrets_of_their_own() {
    let secrets: BTreeSet<String> = [1, 2]
        .into_iter()
        .map(setup)
        .flat_map(|s| s.tokens.into_iter().chain(s.secrets).chain([s.hook_secret]).collect::<Vec<_>>())
        .collect();
    assert_eq!(secrets.len(), 2 * (TENANTS.len() + ENDPOINTS.len() + 1));
}

#[test]
fn every_subscription_of_the_file_wants_something_of_the_own_payloads_and_not_all() {
    let in_file: BTreeSet<&str> = [
        "pushes-to-main",
        "all-issues",
        "fresh-pull-requests",
        "finished-checks",
        "releases",
        "community",
        "all-activity",
        "what-runs-where",
    ]
    .into();
    let written = TEMPLATE.matches("endpoint: ").count();
    assert_eq!(written, in_file.len(), "the file and the plain code tell the same subscriptions");
    for id in &in_file {
        assert!(TEMPLATE.contains(&format!("- id: {id}\n")), "{id}");
    }

    let mut wanted = BTreeSet::new();
    let mut unwanted = 0;
    for payload in Payloads::own("of the test".into()).list {
        for tenant in TENANTS {
            let tenant = TenantId::new(tenant).expect("name");
            let ids = wanted_by(&tenant, &payload.event_type(), &payload.body);
            unwanted += usize::from(ids.is_empty());
            wanted.extend(ids.iter().map(|id| id.as_str().to_owned()));
        }
    }
    assert_eq!(wanted.iter().map(String::as_str).collect::<BTreeSet<_>>(), in_file);
    assert!(unwanted > 0);
}

/// The subscriptions of `tenant` in the file that want an event, asked of the filter engine.
fn wanted_in_file(tenant: &Value, payload: &Payload) -> Vec<String> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let mut wanted = Vec::new();
    for subscription in list(tenant, "apps").iter().flat_map(|app| list(app, "subscriptions")) {
        if !list(&subscription, "event_types").contains(&payload.event_type().into()) {
            continue;
        }
        let matches = subscription.get("filter").is_none_or(|filter| {
            let text = filter["pattern"].to_string();
            let filter = Filter::compile(&FilterSource { language: FilterLanguage::Pattern, text });
            let attributes = Attributes::default();
            let document = Document::new(&attributes, &payload.body);
            filter.expect("a filter").matches(&document).expect("an answer")
        });
        if matches {
            wanted.push(subscription["id"].as_str().expect("id").to_owned());
        }
    }
    wanted
}

#[test]
fn the_plain_code_and_the_file_want_the_same() {
    let file: Value = serde_yaml_ng::from_str(&setup(1).text("http://127.0.0.1:1")).expect("YAML");
    for tenant in file["tenants"].as_array().expect("tenants") {
        let id = TenantId::new(tenant["id"].as_str().expect("id")).expect("name");
        for payload in Payloads::own("of the test".into()).list {
            let plain = wanted_by(&id, &payload.event_type(), &payload.body);
            let plain: Vec<String> = plain.iter().map(|id| id.as_str().to_owned()).collect();
            assert_eq!(plain, wanted_in_file(tenant, &payload), "{id}: {}", payload.event);
        }
    }
}

/// The endpoints of the file, as tenant, id, URL and class.
fn endpoints_in_file(file: &Value) -> Vec<(String, String, String, Option<String>)> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut endpoints = Vec::new();
    for tenant in list(file, "tenants") {
        for endpoint in list(&tenant, "apps").iter().flat_map(|app| list(app, "endpoints")) {
            endpoints.push((
                text(&tenant["id"]).expect("id"),
                text(&endpoint["id"]).expect("id"),
                text(&endpoint["url"]).expect("url"),
                text(&endpoint["class"]),
            ));
        }
    }
    endpoints
}

#[test]
fn the_plain_code_and_the_file_know_the_same_endpoints_and_which_are_strict() {
    let setup = setup(1);
    let file: Value = serde_yaml_ng::from_str(&setup.text("http://127.0.0.1:1")).expect("YAML");
    let endpoints = endpoints_in_file(&file);
    let urls: BTreeSet<String> = endpoints.iter().map(|(_, _, url, _)| url.clone()).collect();
    let served = setup.receiver_endpoints().into_iter().map(|e| format!("http://127.0.0.1:1/{}", e.name));
    assert_eq!(urls, served.collect());
    let strict: HashSet<Recipient> = endpoints
        .iter()
        .filter(|(_, _, _, class)| class.as_deref() == Some("strict"))
        .map(|(tenant, id, _, _)| (TenantId::new(tenant).expect("name"), EndpointId::new(id).expect("name")))
        .collect();
    assert_eq!(setup.strict().expect("names"), strict);
}

#[test]
fn the_plain_code_and_the_file_know_the_same_integration() {
    let setup = setup(1);
    let file: Value = serde_yaml_ng::from_str(&setup.text("http://127.0.0.1:1")).expect("YAML");
    let hook = setup.hook().expect("names");
    let tenants = file["tenants"].as_array().expect("tenants");
    let integrations: Vec<&Value> =
        tenants.iter().filter_map(|t| t["integrations"].as_array()).flatten().collect();
    let tenant = tenants.iter().find(|t| t["id"] == hook.tenant.as_str()).expect("tenant");
    assert_eq!(
        integrations,
        tenant["integrations"].as_array().expect("integrations").iter().collect::<Vec<_>>()
    );
    let [integration] = integrations.as_slice() else { panic!("{integrations:?}") };
    assert_eq!(integration["id"], hook.integration.as_str());
    assert_eq!(integration["provider"], "github");
    assert_eq!(integration["secret"], hook.secret.as_str());
    let cells: Vec<&str> = hook.cells.iter().map(SubscriptionId::as_str).collect();
    assert_eq!(integration["cells"], serde_json::json!(cells));
    assert!(!format!("{hook:?}").contains(&hook.secret));

    // Their mailboxes take the integration's class, and their order is not checked.
    assert_eq!(integration.get("class"), None);
    let strict = setup.strict().expect("names");
    assert!(!strict.iter().any(|(_, endpoint)| cells.contains(&endpoint.as_str())));
    let served: Vec<String> = setup.receiver_endpoints().into_iter().map(|e| e.name).collect();
    assert!(super::cells().iter().all(|cell| served.contains(cell)));
}

/// A key that mailrail does not know has no order to check.
#[test]
fn every_type_that_a_strict_endpoint_gets_has_an_ordering_key() {
    let setup = setup(1);
    let file: Value = serde_yaml_ng::from_str(&setup.text("http://127.0.0.1:1")).expect("YAML");
    let strict = setup.strict().expect("names");
    let mut checked = 0;
    for tenant in file["tenants"].as_array().expect("tenants") {
        let keyed: Vec<&Value> = tenant["event_types"].as_array().expect("types").iter().collect();
        let has_key =
            |name: &Value| keyed.iter().any(|t| t["name"] == *name && t["ordering_key"] == "repository.id");
        let id = TenantId::new(tenant["id"].as_str().expect("id")).expect("name");
        for app in tenant["apps"].as_array().expect("apps") {
            for subscription in app["subscriptions"].as_array().into_iter().flatten() {
                let endpoint = EndpointId::new(subscription["endpoint"].as_str().expect("endpoint"));
                if strict.contains(&(id.clone(), endpoint.expect("name"))) {
                    checked += 1;
                    let types = subscription["event_types"].as_array().expect("types");
                    assert!(types.iter().all(has_key), "{subscription}");
                }
            }
        }
    }
    assert_eq!(checked, 5);
}
