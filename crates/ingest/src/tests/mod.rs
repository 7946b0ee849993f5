//! The door as producers meet it: through the router, on a local log and a store in a folder of the test.

mod accepting;
mod bytes_kept;
mod connections;
mod failing;
mod inbound;
mod problems_page;
mod refusing;

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http_body_util::BodyExt;
use mailrail_limits::{LocalWindows, Sizer};
use mailrail_log::{LocalLog, Log, StoredRecord, TopicSpec};
use mailrail_store::{Directory, EncryptionKey, KeySetup, Store, TenantSetup};
use mailrail_telemetry::Metrics;
use mailrail_testkit::read_topic;
use mailrail_types::{
    ClassId, Event, EventType, KeyId, MailboxClass, PartitionCount, Tenant, TenantId, Timestamp,
};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

use crate::{Config, EVENTS_PATH, Service};

const TOPIC: &str = "events.default";
const ACME: &str = "acme-key-acme-key-acme-key-acme-key";
const OTHER: &str = "other-key-other-key-other-key-other";
const PARTITIONS: PartitionCount = PartitionCount(NonZeroU32::new(4).expect("not zero"));
const NOW: Timestamp = Timestamp(1_900_000_000_123);

/// A door, and what is behind it.
struct House {
    service: Service,
    router: Router,
    log: Arc<LocalLog>,
    sizer: Sizer,
    metrics: Metrics,
    _folder: TempDir,
}

fn config() -> Config {
    Config::new("default".to_owned(), TOPIC.to_owned(), PARTITIONS)
}

/// Two tenants; acme's `pushed` events have an ordering key in their body.
async fn directory(folder: &TempDir) -> Arc<Directory> {
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = Store::open(&url, EncryptionKey::generate()).await.expect("a store");
    let mut acme = tenant("acme", ACME);
    let path = Some("repository.id".parse().expect("a path"));
    acme.event_types.push(EventType { name: "pushed".to_owned(), ordering_key: path });
    store.apply(&[acme, tenant("other", OTHER)], false).await.expect("applied");
    Directory::load(store).await.expect("loaded")
}

/// A tenant with this API key.
fn tenant(name: &str, token: &str) -> TenantSetup {
    let id = TenantId::new(name).expect("an id");
    let source_class = ClassId::of(MailboxClass::STRICT);
    let mut setup = TenantSetup::new(Tenant { id, name: String::new(), source_class });
    setup.keys.push(KeySetup { id: KeyId::new("main").expect("an id"), token: token.to_owned() });
    setup
}

/// Sizing in memory, by the clock of the tests.
fn sizer() -> Sizer {
    Sizer::new(Arc::new(LocalWindows::new()), Arc::new(|| NOW))
}

async fn house_with(config: Config) -> House {
    let folder = TempDir::new().expect("a folder");
    let directory = directory(&folder).await;
    house_on(config, folder, directory).await
}

async fn house_on(config: Config, folder: TempDir, directory: Arc<Directory>) -> House {
    let log = Arc::new(LocalLog::open(&folder.path().join("log.db")).expect("a log"));
    let topic = TopicSpec { name: TOPIC.to_owned(), partitions: PARTITIONS.0.get(), retention: None };
    log.ensure_topics(&[topic]).await.expect("topics");
    let metrics = Metrics::new();
    let sizer = sizer();
    let service = Service::new(config, log.clone(), directory, sizer.clone(), &metrics, Arc::new(|| NOW));
    House { router: service.router(), service, log, sizer, metrics, _folder: folder }
}

async fn house() -> House {
    house_with(config()).await
}

/// An answer, taken apart.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: http::HeaderMap,
    json: Value,
}

impl Answer {
    fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// Checks that it is a complete problem of this status and code.
    #[track_caller]
    fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.code()), (status, code), "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["type"], format!("https://mailrail.dev/problems/{code}"));
        for member in ["title", "detail"] {
            assert!(self.json[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {self:?}");
        }
    }
}

async fn send(router: &Router, request: Request) -> Answer {
    let response = router.clone().oneshot(request).await.expect("infallible");
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer { status: head.status.as_u16(), headers: head.headers, json }
}

/// A request of acme.
fn post(headers: &[(&str, &str)], body: impl Into<Body>) -> Request {
    let mut builder = Request::post(EVENTS_PATH).header(AUTHORIZATION, format!("Bearer {ACME}"));
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body.into()).expect("a request")
}

fn structured(json: impl Into<Body>) -> Request {
    post(&[("content-type", "application/cloudevents+json")], json)
}

fn batch(json: impl Into<Body>) -> Request {
    post(&[("content-type", "application/cloudevents-batch+json")], json)
}

/// A structured event with this id.
fn event_json(id: &str) -> String {
    format!(r#"{{"specversion":"1.0","id":"{id}","source":"/s","type":"t","data":{{}}}}"#)
}

/// Everything in the events topic for a tenant, in order within each partition.
async fn records(log: &dyn Log, tenant: &str) -> Vec<StoredRecord> {
    let found = read_topic(log, TOPIC, PARTITIONS.0.get()).await;
    let prefix = format!("default::{tenant}:");
    found.into_iter().filter(|record| record.key.starts_with(prefix.as_bytes())).collect()
}

async fn events(log: &dyn Log, tenant: &str) -> Vec<Event> {
    records(log, tenant)
        .await
        .iter()
        .map(|r| mailrail_wire::decode_event(&r.value).expect("an event"))
        .collect()
}

/// The number of records in all partitions.
async fn appended(log: &dyn Log) -> u64 {
    let mut count = 0;
    for partition in 0..PARTITIONS.0.get() {
        let bounds = log.bounds(TOPIC, partition).await.expect("bounds");
        count += bounds.high - bounds.low;
    }
    count
}
