//! The webhooks over a real socket, to a door that checks them as GitHub's documentation says.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use mailrail_types::{DeliveryId, SubscriptionId, TenantId};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::net::TcpListener;

use super::*;
use crate::receiver::body_sha256;
use crate::setup::Setup;

type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// Stands for ingest: answers the id of the event; the first request of every 50th delivery is answered 503 and forgotten.
async fn door(
    State(seen): State<Seen>,
    Path(integration): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut seen = seen.lock().expect("lock");
    let id = text(&headers, "x-github-delivery").to_owned();
    let again = seen.iter().any(|(known, _)| text(known, "x-github-delivery") == id);
    seen.push((headers, body));
    if id.ends_with("50") && !again {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let (tenant, integration) = integration.split_once(':').expect("tenant and integration");
    let tenant = TenantId::new(tenant).expect("tenant");
    let event = EventId::derive(&tenant, &format!("/inbound/github/{integration}"), &id);
    (StatusCode::ACCEPTED, Json(serde_json::json!({ "id": event.to_string() }))).into_response()
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("free port");
    let addr = listener.local_addr().expect("address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{addr}")
}

fn hook() -> Hook {
    Setup::new(&mut StdRng::seed_from_u64(1)).hook().expect("names")
}

fn own() -> Payloads {
    Payloads::own("of the test".into())
}

fn forward(ingest: String) -> Forward {
    Forward {
        ingest,
        run: "r1".into(),
        patience: Duration::from_secs(60),
        wave_every: Duration::from_millis(1),
    }
}

#[tokio::test]
async fn every_webhook_is_posted_until_it_is_accepted_and_owed_to_every_cell() {
    let seen = Seen::default();
    let route = "/v1/inbound/github/{integration}";
    let ingest = serve(Router::new().route(route, post(door)).with_state(Arc::clone(&seen))).await;
    let (payloads, hook, bar) = (own(), hook(), ProgressBar::hidden());
    let played = forward(ingest).run(&payloads, &hook, &bar).await.expect("played");

    let total = PUSHES + payloads.list.len();
    assert_eq!((played.accepted.len(), bar.position()), (total, total as u64));
    assert_eq!(played.retries, total as u64 / 100 + u64::from(total % 100 >= 50));
    let events: HashSet<EventId> = played.accepted.iter().map(|a| a.event).collect();
    assert_eq!(events.len(), total, "every webhook is an event of its own");
    for cell in ["cell-eu", "cell-us"] {
        let cell = SubscriptionId::new(cell).expect("name");
        assert!(events.iter().all(|e| played.expected.contains(&DeliveryId::derive(e, &hook.tenant, &cell))));
    }
    assert_eq!(played.expected.len(), 2 * total);

    let seen = seen.lock().expect("lock");
    assert_eq!(seen.len() as u64, total as u64 + played.retries);
    for (headers, body) in seen.iter() {
        assert_eq!(text(headers, "x-hub-signature-256"), signature(&hook.secret, body));
        assert_eq!(headers.get("authorization"), None, "GitHub has no key of ours");
        let event = EventId::derive(&hook.tenant, &hook.source(), text(headers, "x-github-delivery"));
        assert_eq!(played.bodies[&event], body_sha256(body));
    }
    for payload in &payloads.list {
        let as_it_is = |(headers, body): &(HeaderMap, Bytes)| {
            text(headers, "x-github-event") == payload.event && *body == payload.body
        };
        assert!(seen.iter().any(as_it_is), "{} goes out as it is", payload.event);
    }
}

#[tokio::test]
async fn a_refusal_ends_the_play_and_says_why() {
    let problem = || async {
        (StatusCode::UNAUTHORIZED, Json(serde_json::json!({"code": "bad_signature", "detail": "change d"})))
    };
    let ingest = serve(Router::new().route("/v1/inbound/github/{integration}", post(problem))).await;
    let hook = hook();
    let error = forward(ingest).run(&own(), &hook, &ProgressBar::hidden()).await.expect_err("refused");
    let error = error.to_string();
    assert!(error.contains("change d") && !error.contains(&hook.secret), "{error}");
}

/// The example of GitHub's documentation, "Validating webhook deliveries".
#[test]
fn the_signature_is_githubs() {
    let signed = signature("It's a Secret to Everybody", b"Hello, World!");
    assert_eq!(signed, "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
}

#[test]
fn the_crowd_is_large_enough_for_buckets_and_spread_among_the_rest() {
    let all = webhooks("r1", &own().list);
    assert_eq!(all.iter().map(|w| &w.id).collect::<HashSet<_>>().len(), all.len());
    let mut keys: HashMap<&str, usize> = HashMap::new();
    for push in all.iter().filter(|w| w.github_event == "push") {
        let body: Value = serde_json::from_slice(&push.body).expect("JSON");
        let key = push.repository_id.as_deref().expect("a key");
        assert_eq!(body["repository"]["id"].to_string(), key, "the body has the key");
        *keys.entry(key).or_default() += 1;
    }
    // 256 payloads of a window are worth 16 mailboxes, and these have keys for all of them.
    assert!(keys.values().sum::<usize>() >= 300);
    let buckets: HashSet<u64> = keys.keys().map(|key| key.parse::<u64>().expect("a number") % 16).collect();
    assert_eq!(buckets.len(), 16);

    let half = &all[..all.len() / 2];
    let others = |webhooks: &[Webhook]| webhooks.iter().filter(|w| w.github_event != "push").count();
    assert!(others(half) * 3 >= others(&all), "{} of {}", others(half), others(&all));
}
