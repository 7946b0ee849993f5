//! The `forward` surface's front door: third parties' webhooks through the router, and what is in the log then.

mod refusing;

use mailrail_limits::Counter;
use mailrail_types::{
    App, AppId, Endpoint, EndpointId, EventId, Integration, IntegrationId, Provider, Secret,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

/// The secret of GitHub's published vector.
const SECRET: &str = "It's a Secret to Everybody";

fn integration(
    id: &'static str,
    provider: Provider,
    secrets: &[&str],
    cells: &[&'static str],
) -> Integration {
    Integration {
        id: IntegrationId::of(id),
        provider,
        secrets: secrets.iter().map(|s| Secret::new((*s).to_owned())).collect(),
        cells: cells.iter().map(|cell| EndpointId::of(cell)).collect(),
        class: None,
    }
}

/// Makes the URL of the cell `far` 1,500 bytes long.
const LONG_PATH: &str = {
    const BYTES: [u8; 1_471] = {
        let mut bytes = [b'x'; 1_471];
        bytes[0] = b'/';
        bytes
    };
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    }
};

/// acme: one of each provider, `signed`, `also`, `far`, `empty` and `twice` of GitHub; other: `twice` too.
pub(super) async fn directory() -> (TempDir, Arc<Directory>) {
    let (folder, _, directory) = stored().await;
    (folder, directory)
}

async fn stored() -> (TempDir, Store, Arc<Directory>) {
    let folder = TempDir::new().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = Store::open(&url, EncryptionKey::generate()).await.expect("a store");
    let with_cells = |mut setup: TenantSetup, integrations: Vec<Integration>| {
        let app = AppId::of("cells");
        setup.apps.push(App { id: app.clone(), name: String::new(), permissions: Default::default() });
        for (cell, path) in [("us", ""), ("de", ""), ("far", LONG_PATH)] {
            let endpoint = Endpoint {
                id: EndpointId::of(cell),
                app: app.clone(),
                url: format!("https://{cell}.example.com/hooks{path}"),
                secrets: Vec::new(),
                headers: Vec::new(),
                class: ClassId::of(MailboxClass::TOLERANT),
                timeout: None,
                head_max_age: None,
                max_in_flight: None,
                rate_per_second: None,
                paused: false,
            };
            setup.endpoints.push(endpoint.into());
        }
        setup.integrations = integrations;
        setup
    };
    let both = &["us", "de"];
    let acme = vec![
        integration("gh", Provider::GitHub, &[], both),
        integration("gl", Provider::GitLab, &[], both),
        integration("ji", Provider::Jira, &[], both),
        integration("az", Provider::AzureDevOps, &[], both),
        integration("any", Provider::Generic, &[], both),
        integration("signed", Provider::GitHub, &["newer secret", SECRET], both),
        integration("also", Provider::GitHub, &[SECRET], both),
        integration("far", Provider::GitHub, &[SECRET], &["us", "far"]),
        integration("empty", Provider::GitHub, &[], &[]),
        integration("twice", Provider::GitHub, &[], both),
    ];
    let other = vec![integration("twice", Provider::GitHub, &[], &["us"])];
    let setups = [with_cells(tenant("acme", ACME), acme), with_cells(tenant("other", OTHER), other)];
    store.apply(&setups, false).await.expect("applied");
    let directory = Directory::load(store.clone()).await.expect("loaded");
    (folder, store, directory)
}

async fn inbound_house() -> (House, Store, Arc<Directory>) {
    inbound_house_with(config()).await
}

async fn inbound_house_with(config: Config) -> (House, Store, Arc<Directory>) {
    let (folder, store, directory) = stored().await;
    (house_on(config, folder, Arc::clone(&directory)).await, store, directory)
}

/// A request as a third party sends it: without a key of ours.
fn webhook(path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request {
    let mut builder = Request::post(format!("/v1/inbound/{path}"));
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body.into()).expect("a request")
}

/// The one event of acme.
async fn only_event(house: &House) -> Event {
    let mut found = events(house.log.as_ref(), "acme").await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

const GITHUB: [(&str, &str); 12] = [
    ("x-github-event", "push"),
    ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
    ("x-github-hook-id", "292430182"),
    ("content-type", "application/json"),
    ("user-agent", "GitHub-Hookshot/044aadd"),
    ("x-hub-signature-256", "sha256=00"),
    ("authorization", "Basic Y2FuYXJ5"),
    ("cookie", "canary=1"),
    ("x-forwarded-for", "10.0.0.1"),
    ("x-gitlab-token", "canary"),
    ("connection", "keep-alive"),
    ("webhook-id", "canary"),
];

#[tokio::test]
async fn s34_a_webhook_is_in_the_log_as_it_came_when_it_is_answered() {
    let (house, ..) = inbound_house().await;
    let body = "{ \"repository\" : {\"id\": 123456789012345678901234567890}, \"a\":1, \"a\":1.50 }\n";
    let answer = send(&house.router, webhook("github/gh/extra%2Fpath//?b=2&a=%20", &GITHUB, body)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let event = only_event(&house).await;
    let acme = TenantId::of("acme");
    let id = EventId::derive(&acme, "/inbound/github/gh", "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(answer.json, serde_json::json!({ "id": id.to_string() }));
    assert_eq!((event.id, &event.tenant, event.accepted_at), (id, &acme, NOW));
    assert_eq!(event.body, body.as_bytes());
    assert_eq!(event.ordering_key.as_deref(), Some("123456789012345678901234567890"));
    assert_eq!(event.attributes.event_type, "inbound.github.push");
    assert_eq!(event.attributes.content_type.as_deref(), Some("application/json"));
    assert!(event.attributes.extensions.is_empty() && event.setup_seq > 0);
    let forwarded = event.forwarded.expect("forwarded");
    assert_eq!((forwarded.provider, forwarded.integration.as_str()), (Provider::GitHub, "gh"));
    assert_eq!((forwarded.method.as_str(), forwarded.path.as_str()), ("POST", "/extra%2Fpath//?b=2&a=%20"));
    let kept: Vec<(&str, &[u8])> = forwarded.headers.iter().map(|(n, v)| (n.as_str(), v.as_ref())).collect();
    let expected: Vec<(&str, &[u8])> = GITHUB
        .iter()
        .filter(|(name, _)| {
            (name.starts_with("x-github") || name.starts_with("x-hub")) || *name == "user-agent"
        })
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    assert_eq!(kept, expected, "the closed list and nothing else");
    let text = house.metrics.render();
    assert!(text.contains("mailrail_ingest_events_accepted_total 1"), "{text}");
}

#[tokio::test]
async fn s34_any_method_is_kept_but_those_of_the_connection() {
    let (house, ..) = inbound_house().await;
    for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "REPORT"] {
        let mut request = webhook("generic/any", &[], method);
        *request.method_mut() = method.parse().expect("a method");
        assert_eq!(send(&house.router, request).await.status, 202, "{method}");
    }
    let stored = events(house.log.as_ref(), "acme").await;
    assert_eq!(stored.len(), 7);
    for event in stored {
        let forwarded = event.forwarded.expect("forwarded");
        assert_eq!(forwarded.method.as_bytes(), event.body, "method and body of one request");
        assert_eq!(forwarded.path, "");
    }
    let mut trace = webhook("generic/any", &[], "");
    *trace.method_mut() = http::Method::TRACE;
    send(&house.router, trace).await.assert_problem(405, "method_not_allowed");
    assert_eq!(appended(house.log.as_ref()).await, 7);
}

/// Row S34: hash equal is byte equal, for bytes of all kinds and every content type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s34_n05_two_thousand_bodies_are_untouched_in_the_log() {
    const BODIES: usize = 2_000;
    let (house, ..) = inbound_house().await;
    let mut runner = TestRunner::deterministic();
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let json = "\\{[ \t]{0,3}\"repository\":[ \n]{0,2}\\{\"id\":[0-9]{1,30}[ ]?\\}(,\"x\":\"[é€ ]{0,3}\")?\\}[ \r\n]{0,2}";
    let strategy = prop_oneof![bytes, json.prop_map(String::into_bytes)];
    let bodies: Vec<Vec<u8>> =
        (0..BODIES).map(|_| strategy.new_tree(&mut runner).expect("a body").current()).collect();
    assert!(bodies.iter().filter(|b| std::str::from_utf8(b).is_err()).count() > 500);
    let mut requests = tokio::task::JoinSet::new();
    for (id, body) in bodies.iter().enumerate() {
        if requests.len() == 64 {
            requests.join_next().await.expect("running").expect("no panic");
        }
        let content_type = ["application/json", "text/plain", "application/x-www-form-urlencoded"][id % 3];
        let headers = [("content-type", content_type), ("x-github-delivery", &*id.to_string())];
        let request = webhook("github/gh", &headers, body.clone());
        let router = house.router.clone();
        requests.spawn(async move { assert_eq!(send(&router, request).await.status, 202) });
    }
    while let Some(done) = requests.join_next().await {
        done.expect("no panic");
    }
    let stored = events(house.log.as_ref(), "acme").await;
    assert_eq!(stored.len(), BODIES);
    for event in stored {
        let id: usize = event.attributes.id.parse().expect("ours");
        assert_eq!(event.body, bodies[id], "body {id}");
    }
}

/// S04: a body that cannot be read is taken without a key.
#[tokio::test]
async fn s04_a_body_that_cannot_be_read_is_taken_without_a_key() {
    let (house, ..) = inbound_house().await;
    let json = [("content-type", "application/json")];
    for body in
        ["", "{", "[]", "{\"repository\":{\"id\":null}}", "{\"repository\":{\"id\":[1]}}", "\u{feff}{}"]
    {
        assert_eq!(send(&house.router, webhook("github/gh", &json, body)).await.status, 202, "{body:?}");
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(send(&house.router, webhook("github/gh", &form, "payload=%7B%7D")).await.status, 202);
    let stored = events(house.log.as_ref(), "acme").await;
    assert_eq!(stored.len(), 7, "each has an id of ours");
    assert!(stored.iter().all(|e| e.ordering_key.is_none()));
}

/// S08: a webhook counts once for its sender's width, whatever number of cells it goes to; one of a strict class, and one without a
/// key, counts for none.
#[tokio::test]
async fn s08_a_webhook_counts_once_however_many_cells_it_goes_to() {
    let (house, ..) = inbound_house().await;
    let push = [("x-github-event", "push")];
    let class = MailboxClass::with_defaults(ClassId::of(MailboxClass::TOLERANT), true);
    let counter = Counter::new("source", &["default", "acme", "gh", "inbound.github.push"]);
    let counted = async || house.sizer.width_of(&class, &counter).await.payloads;
    for n in 0..40 {
        let body = format!(r#"{{"repository":{{"id":{n}}}}}"#);
        assert_eq!(send(&house.router, webhook("github/gh", &push, body)).await.status, 202);
    }
    assert_eq!(counted().await, Some(40), "each goes to two cells");
    let before = house.sizer.counts().counters;
    let jira = r#"{"webhookEvent":"jira:issue_updated","issue":{"id":"10002"}}"#;
    assert_eq!(send(&house.router, webhook("jira/ji", &[], jira)).await.status, 202, "strict");
    assert_eq!(
        send(&house.router, webhook("github/also", &push, r#"{"repository":{"id":1}}"#)).await.status,
        401
    );
    assert_eq!(house.sizer.counts().counters, before);
    assert_eq!(send(&house.router, webhook("github/gh", &push, "{}")).await.status, 202, "no key");
    assert_eq!(counted().await, Some(40));
}

/// Path, headers, body.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// S04: each provider is read in its own way.
#[tokio::test]
async fn s04_each_provider_is_read_in_its_own_way() {
    let (house, ..) = inbound_house().await;
    let cases: [Case<'_>; 5] = [
        ("github/gh", &[("x-github-event", "issues")], r#"{"repository":{"id":1}}"#),
        (
            "gitlab/gl",
            &[("x-gitlab-event", "Merge Request Hook"), ("idempotency-key", "gl-1")],
            r#"{"project":{"id":2}}"#,
        ),
        ("jira/ji", &[], r#"{"webhookEvent":"jira:issue_updated","issue":{"id":"10002"}}"#),
        (
            "azure_devops/az",
            &[],
            r#"{"id":"az-1","eventType":"workitem.updated","resource":{"workItemId":5}}"#,
        ),
        ("generic/any", &[], r#"{"id":"1"}"#),
    ];
    for (path, headers, body) in cases {
        assert_eq!(send(&house.router, webhook(path, headers, body)).await.status, 202, "{path}");
    }
    let mut read: Vec<(String, Option<String>, bool)> = events(house.log.as_ref(), "acme")
        .await
        .into_iter()
        .map(|e| (e.attributes.event_type, e.ordering_key, ["gl-1", "az-1"].contains(&&*e.attributes.id)))
        .collect();
    read.sort();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        read,
        [
            ("inbound.azure_devops.workitem.updated".to_owned(), some("5"), true),
            ("inbound.generic.other".to_owned(), None, false),
            ("inbound.github.issues".to_owned(), some("1"), false),
            ("inbound.gitlab.merge_request".to_owned(), some("2"), true),
            ("inbound.jira.issue_updated".to_owned(), some("10002"), false),
        ]
    );
}

/// S24: hostile event types make no mailbox of their own; a known one does.
#[tokio::test]
async fn s24_a_hostile_event_type_makes_no_mailbox() {
    let (house, ..) = inbound_house().await;
    for n in 0..50 {
        let headers = [("x-github-event", &*format!("hostile-{n}:x%"))];
        let body = r#"{"repository":{"id":1}}"#;
        assert_eq!(send(&house.router, webhook("github/gh", &headers, body)).await.status, 202);
    }
    let keys: std::collections::BTreeSet<Bytes> =
        records(house.log.as_ref(), "acme").await.into_iter().map(|r| r.key).collect();
    // One counter, of a few widths: as many names as buckets, and none of them with an event type.
    for key in &keys {
        let key = std::str::from_utf8(key).expect("text");
        assert!(key.starts_with("default::acme:gh::"), "{key}");
    }
    assert!(keys.len() <= 3, "{keys:?}");
    let stored = events(house.log.as_ref(), "acme").await;
    assert!(stored.iter().all(|e| e.attributes.event_type == "inbound.github.other"));
    let known = send(&house.router, webhook("github/gh", &[("x-github-event", "push")], "{}")).await;
    assert_eq!(known.status, 202);
    let last = records(house.log.as_ref(), "acme").await;
    let push = last.iter().filter(|r| r.key.starts_with(b"default::acme:gh:inbound.github.push:")).count();
    assert_eq!(push, 1, "a known one has a mailbox of its own");
}

#[tokio::test]
async fn a_webhook_without_cells_is_answered_counted_and_not_kept() {
    let (house, ..) = inbound_house().await;
    let answer = send(&house.router, webhook("github/empty", &GITHUB, "{}")).await;
    assert_eq!((answer.status, &answer.json), (202, &serde_json::json!({ "cells": 0 })));
    assert_eq!(appended(house.log.as_ref()).await, 0);
    let text = house.metrics.render();
    assert!(text.contains("mailrail_ingest_inbound_without_cells_total 1"), "{text}");
    assert!(text.contains("mailrail_ingest_events_accepted_total 0"), "{text}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_an_encoded_one_goes_on_as_it_is() {
    let (house, ..) = inbound_house_with(Config { body_limit_bytes: 1_000, ..config() }).await;
    let over = send(&house.router, webhook("github/gh", &[], vec![b'x'; 1_001])).await;
    over.assert_problem(413, "body_too_large");
    let gzip = [("content-encoding", "gzip"), ("content-type", "application/json")];
    assert_eq!(send(&house.router, webhook("github/gh", &gzip, vec![0x1f, 0x8b])).await.status, 202);
    let event = only_event(&house).await;
    assert_eq!(event.body, [0x1f, 0x8b][..]);
    let forwarded = event.forwarded.expect("forwarded");
    assert_eq!(forwarded.headers, [("content-encoding".to_owned(), Bytes::from_static(b"gzip"))]);
}

#[tokio::test]
async fn s34_a_content_type_that_is_no_text_goes_on_as_it_came() {
    let (house, ..) = inbound_house().await;
    let mut request = webhook("generic/any", &[], "x");
    let odd = http::HeaderValue::from_bytes(b"text/\xe9").expect("a value");
    request.headers_mut().insert("content-type", odd);
    assert_eq!(send(&house.router, request).await.status, 202);
    let event = only_event(&house).await;
    assert_eq!(event.attributes.content_type, None);
    let forwarded = event.forwarded.expect("forwarded");
    assert_eq!(forwarded.headers, [("content-type".to_owned(), Bytes::from_static(b"text/\xe9"))]);
}

#[tokio::test]
async fn a_webhook_that_is_sent_again_is_the_same_event() {
    let (house, ..) = inbound_house().await;
    let mut ids = Vec::new();
    for delivery in ["one", "one", "two"] {
        let headers = [("x-github-delivery", delivery)];
        ids.push(send(&house.router, webhook("github/gh", &headers, "{}")).await.json["id"].clone());
    }
    assert!(ids[0] == ids[1] && ids[0] != ids[2], "{ids:?}");
    for _ in 0..2 {
        ids.push(send(&house.router, webhook("generic/any", &[], "{}")).await.json["id"].clone());
    }
    assert_ne!(ids[3], ids[4], "without an id of the provider each is its own");
}
