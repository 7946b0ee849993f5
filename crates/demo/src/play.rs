//! The player: posts payloads at the front door, one after the other per tenant, tenants at once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_TYPE, HeaderName, InvalidHeaderValue};
use indicatif::ProgressBar;
use mailrail_types::{DeliveryId, EventId, SubscriptionId, TenantId};
use tokio::task::JoinSet;

use crate::Error;
use crate::books::Accepted;
use crate::door::{Door, Letter, joined, refused};
use crate::payloads::{Payload, Payloads};
use crate::receiver::body_sha256;
use crate::setup::{Access, wanted_by};

/// Events that are played at least, over all tenants, unless somebody says otherwise: enough for retries and a bar.
pub const EVENTS_MIN: usize = 400;

/// Most events of one play: as many as the receiver keeps receipts of, and memory for their headers.
pub const EVENTS_MAX: usize = 100_000;

/// What is played.
#[derive(Debug, Clone)]
pub struct Play {
    /// Address of ingest: `http://127.0.0.1:8080`.
    pub ingest: String,
    /// Part of every event id, so that no two plays share one.
    pub run: String,
    /// How many events, over all tenants; the set is repeated as often as that takes. `None`: every payload once for
    /// every tenant, and at least [`EVENTS_MIN`].
    pub events: Option<usize>,
    /// How long one event is posted again while ingest is away or busy.
    pub patience: Duration,
}

/// What was played.
#[derive(Debug, Clone, Default)]
pub struct Played {
    /// Events that ingest accepted; of a tenant, in the order they were posted.
    pub accepted: Vec<Accepted>,
    /// SHA-256, in hex, of their bodies.
    pub bodies: HashMap<EventId, String>,
    /// The deliveries that the demo's set-up wants of them.
    pub expected: HashSet<DeliveryId>,
    /// How often an event was posted again.
    pub retries: u64,
}

impl Played {
    /// Puts down an event that was accepted and is owed to `wanted`.
    pub(crate) fn enter(&mut self, accepted: Accepted, body: &[u8], wanted: &[SubscriptionId]) {
        let delivery = |id| DeliveryId::derive(&accepted.event, &accepted.tenant, id);
        self.expected.extend(wanted.iter().map(delivery));
        self.bodies.insert(accepted.event, body_sha256(body));
        self.accepted.push(accepted);
    }

    /// Adds what somebody else played.
    pub fn add(&mut self, other: Played) {
        self.accepted.extend(other.accepted);
        self.bodies.extend(other.bodies);
        self.expected.extend(other.expected);
        self.retries += other.retries;
    }
}

/// One event as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Post {
    sequence: u64,
    id: String,
    source: String,
    event_type: String,
    ordering_key: Option<String>,
    body: Bytes,
}

impl Play {
    /// How many events this play has.
    #[must_use]
    pub fn events(&self, payloads: &Payloads, tenants: usize) -> usize {
        self.events.unwrap_or_else(|| EVENTS_MIN.max(payloads.list.len() * tenants)).min(EVENTS_MAX)
    }

    /// Posts everything. The bar counts accepted events.
    ///
    /// # Errors
    /// [`Error::Refused`] when ingest refuses an event, stays away for longer than the play's patience, or answers with
    /// another id than the event's.
    pub async fn run(
        &self,
        payloads: &Payloads,
        accesses: &[Access],
        bar: &ProgressBar,
    ) -> Result<Played, Error> {
        let events = self.events(payloads, accesses.len());
        bar.set_length(events as u64);
        let mut tasks = JoinSet::new();
        for (at, access) in accesses.iter().enumerate() {
            let share = events / accesses.len() + usize::from(at < events % accesses.len());
            // Each tenant begins elsewhere, so that they do not do the same at the same time.
            let start = at * payloads.list.len() / accesses.len();
            let posts = posts(&self.run, &access.tenant, &payloads.list, start, share);
            let token = Some(access.token.as_str());
            let door = Door::new(&self.ingest, "/v1/events", token, &access.tenant, self.patience)?;
            tasks.spawn(send_all(door, access.tenant.clone(), posts, bar.clone()));
        }
        let mut played = Played::default();
        while let Some(sent) = tasks.join_next().await {
            played.add(joined(sent, "unknown")?);
        }
        Ok(played)
    }
}

/// The posts of a tenant: `count` payloads from `start` on, round and round, each with an id of its own.
fn posts(run: &str, tenant: &TenantId, payloads: &[Payload], start: usize, count: usize) -> Vec<Post> {
    payloads
        .iter()
        .cycle()
        .skip(start)
        .take(count)
        .zip(1..)
        .map(|(payload, sequence)| Post {
            sequence,
            id: format!("{run}-{tenant}-{sequence}"),
            source: payload.source(),
            event_type: payload.event_type(),
            ordering_key: payload.repository_id.clone(),
            body: payload.body.clone(),
        })
        .collect()
}

impl Post {
    /// CloudEvents binary mode: attributes in headers, the payload as it is. The place in the producer's order goes
    /// into the `sequence` extension, because the payload must not change.
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
        Ok(vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (HeaderName::from_static("ce-specversion"), HeaderValue::from_static("1.0")),
            (HeaderName::from_static("ce-id"), HeaderValue::from_str(&self.id)?),
            (HeaderName::from_static("ce-source"), HeaderValue::from_str(&self.source)?),
            (HeaderName::from_static("ce-type"), HeaderValue::from_str(&self.event_type)?),
            (
                HeaderName::from_static("ce-sequence"),
                HeaderValue::from_str(&format!("{:010}", self.sequence))?,
            ),
        ])
    }
}

/// Posts for one tenant, each after the one before was accepted.
async fn send_all(door: Door, tenant: TenantId, posts: Vec<Post>, bar: ProgressBar) -> Result<Played, Error> {
    let mut played = Played::default();
    for post in posts {
        let event = EventId::derive(&tenant, &post.source, &post.id);
        let headers = post.headers().map_err(|error| refused(&post.id, &tenant, &error.to_string()))?;
        let letter = Letter { name: &post.id, event, headers, body: post.body.clone() };
        played.retries += door.post(letter).await?;
        let wanted = wanted_by(&tenant, &post.event_type, &post.body);
        let (tenant, sequence, ordering_key) = (tenant.clone(), post.sequence, post.ordering_key);
        played.enter(Accepted { event, tenant, sequence, ordering_key }, &post.body, &wanted);
        bar.inc(1);
    }
    Ok(played)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::extract::State;
    use axum::http::{HeaderMap, StatusCode};
    use axum::response::{IntoResponse, Json, Response};
    use axum::routing::post;
    use tokio::net::TcpListener;

    use super::*;
    use crate::setup::TENANTS;

    type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

    fn text(headers: &HeaderMap, name: &str) -> String {
        headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
    }

    /// Stands for ingest: answers the id of the event; every third request is answered 503 and forgotten.
    async fn door(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> Response {
        let mut seen = seen.lock().expect("lock");
        seen.push((headers.clone(), body));
        if seen.len() % 3 == 0 {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let token = text(&headers, "authorization");
        let tenant = TenantId::new(token.trim_start_matches("Bearer key-of-")).expect("tenant");
        let event = EventId::derive(&tenant, &text(&headers, "ce-source"), &text(&headers, "ce-id"));
        (StatusCode::ACCEPTED, Json(serde_json::json!({ "id": event.to_string() }))).into_response()
    }

    async fn serve(router: Router) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("free port");
        let addr = listener.local_addr().expect("address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{addr}")
    }

    fn accesses() -> Vec<Access> {
        let access =
            |name| Access { tenant: TenantId::new(name).expect("name"), token: format!("key-of-{name}") };
        TENANTS.into_iter().map(access).collect()
    }

    fn play(ingest: String, events: Option<usize>) -> Play {
        Play { ingest, run: "r1".into(), events, patience: Duration::from_secs(60) }
    }

    #[tokio::test]
    async fn every_event_is_posted_in_order_until_it_is_accepted() {
        let seen = Seen::default();
        let ingest = serve(Router::new().route("/v1/events", post(door)).with_state(Arc::clone(&seen))).await;
        let payloads = Payloads::own("of the test".into());
        let bar = ProgressBar::hidden();
        let played = play(ingest, Some(31)).run(&payloads, &accesses(), &bar).await.expect("played");

        assert_eq!((played.accepted.len(), bar.position()), (31, 31));
        let seen = seen.lock().expect("lock");
        assert_eq!(seen.len() as u64, 31 + played.retries);
        for tenant in TENANTS {
            let of_tenant: Vec<&Accepted> =
                played.accepted.iter().filter(|a| a.tenant.as_str() == tenant).collect();
            assert!(of_tenant.iter().map(|a| a.sequence).eq(1..=of_tenant.len() as u64));
            // Posted in order, and never past one that was not accepted yet.
            let ids: Vec<String> = seen
                .iter()
                .filter(|(headers, _)| text(headers, "authorization").ends_with(tenant))
                .map(|(headers, _)| text(headers, "ce-id"))
                .collect();
            let mut once = ids.clone();
            once.dedup();
            let expected = (1..=of_tenant.len()).map(|n| format!("r1-{tenant}-{n}"));
            assert!(once.into_iter().eq(expected), "{ids:?}");
        }
        let originals: HashSet<&Bytes> = payloads.list.iter().map(|p| &p.body).collect();
        assert!(seen.iter().all(|(_, body)| originals.contains(body)), "bodies go out as they are");
        assert!(!played.expected.is_empty());
        assert!(played.accepted.iter().all(|a| played.bodies.contains_key(&a.event)));
    }

    #[tokio::test]
    async fn a_refusal_ends_the_play_and_says_why() {
        let problem = || async {
            (StatusCode::BAD_REQUEST, Json(serde_json::json!({"code": "c", "detail": "change d"})))
        };
        let ingest = serve(Router::new().route("/v1/events", post(problem))).await;
        let payloads = Payloads::own("of the test".into());
        let failed = play(ingest, Some(4)).run(&payloads, &accesses(), &ProgressBar::hidden()).await;
        let error = failed.expect_err("refused").to_string();
        assert!(error.contains("change d") && !error.contains("key-of-"), "{error}");
    }

    #[tokio::test]
    async fn another_id_than_the_events_is_refused() {
        let other = || async { (StatusCode::ACCEPTED, Json(serde_json::json!({"id": "evt_other"}))) };
        let ingest = serve(Router::new().route("/v1/events", post(other))).await;
        let payloads = Payloads::own("of the test".into());
        let failed = play(ingest, Some(4)).run(&payloads, &accesses(), &ProgressBar::hidden()).await;
        assert!(failed.expect_err("refused").to_string().contains("evt_other"));
    }

    #[tokio::test]
    async fn an_ingest_that_stays_away_ends_the_play() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("free port");
        let ingest = format!("http://{}", listener.local_addr().expect("address"));
        drop(listener);
        let impatient = Play { patience: Duration::ZERO, ..play(ingest, Some(2)) };
        let payloads = Payloads::own("of the test".into());
        let failed = impatient.run(&payloads, &accesses(), &ProgressBar::hidden()).await;
        assert!(matches!(failed, Err(Error::Refused { .. })));
    }

    #[test]
    fn a_play_repeats_the_set_with_new_ids_and_by_default_plays_all_of_it() {
        let payloads = Payloads::own("of the test".into());
        let tenant = TenantId::new("acme").expect("name");
        let count = payloads.list.len() * 2 + 3;
        let posts = posts("r1", &tenant, &payloads.list, 5, count);
        assert_eq!(posts.iter().map(|p| &p.id).collect::<HashSet<_>>().len(), count);
        assert_eq!(posts[0].body, payloads.list[5].body);
        assert_eq!(posts[payloads.list.len()].body, posts[0].body);

        assert_eq!(play(String::new(), None).events(&payloads, 2), EVENTS_MIN);
        let many = Payloads { list: vec![payloads.list[0].clone(); 329], ..payloads.clone() };
        assert_eq!(play(String::new(), None).events(&many, 2), 658);
        assert_eq!(play(String::new(), Some(7)).events(&many, 2), 7);
    }
}
