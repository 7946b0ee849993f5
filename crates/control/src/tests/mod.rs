//! The routes over a real store and a real local log.

mod access;
mod apply;
mod classes;
mod explain;
mod integrations;
mod journaled;
mod mailboxes;
mod measured;
mod parked;
mod pause;
mod resources;
mod serving;
mod shed;
mod why;

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use axum::Router;
use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use mailrail_limits::{LocalWindows, Sizer};
use mailrail_log::{LocalLog, Log};
use mailrail_store::{Directory, EncryptionKey, Store};
use mailrail_telemetry::Metrics;
use mailrail_types::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::setup_file::UrlRefusal;
use crate::{Config, Operator, Pipeline, Service};

const TOKEN: &str = "operator-token-canary-0123456789abcdef";
const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const KEY: &str = "key-token-canary-0123456789abcdefghij";
const HEADER: &str = "Bearer header-canary-0123456789";

pub(crate) struct Setting {
    router: Router,
    pub(crate) service: Service,
    directory: Arc<Directory>,
    pub(crate) log: Arc<dyn Log>,
    sizer: Sizer,
    metrics: Metrics,
    stop: CancellationToken,
    _folder: TempDir,
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Everything that this process logged, of all tests: one subscriber for the process, because one per thread misses
/// lines whose call site another thread met first.
static LINES: OnceLock<Lines> = OnceLock::new();

pub(crate) fn log_lines() -> String {
    let lines = LINES.get_or_init(|| {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        subscriber.with_writer(move || writer.clone()).init();
        lines
    });
    String::from_utf8(lines.0.lock().expect("not poisoned").clone()).expect("text")
}

pub(crate) async fn setting() -> Setting {
    setting_with(|_| {}).await
}

async fn setting_with(change: impl FnOnce(&mut Config)) -> Setting {
    log_lines();
    let folder = TempDir::new().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = Store::open(&url, EncryptionKey::generate()).await.expect("a store");
    let directory = Directory::load(store.clone()).await.expect("a directory");
    let stop = CancellationToken::new();
    tokio::spawn(Arc::clone(&directory).follow(stop.clone()));
    let log: Arc<dyn Log> = Arc::new(LocalLog::open(&folder.path().join("log.db")).expect("a log"));
    let operator = Operator::new("alice", TOKEN).expect("a strong token");
    let mut config = Config::new(vec![operator], vec![Pipeline::named("", "default", 3)]);
    config.body_limit_bytes = 64 * 1024;
    change(&mut config);
    let refusal = || UrlRefusal { code: "scheme_not_allowed", detail: "use https".to_owned() };
    let https =
        move |url: &str| if url.starts_with("https://") { Ok(url.to_owned()) } else { Err(refusal()) };
    let sizer = Sizer::new(Arc::new(LocalWindows::new()), Arc::new(|| Timestamp::from_secs(1_000_000)));
    let metrics = Metrics::new();
    let service = Service::new(
        config,
        store,
        Arc::clone(&directory),
        Arc::clone(&log),
        Arc::new(https),
        sizer.clone(),
        &metrics,
    )
    .expect("a service");
    Setting { router: service.router(), service, directory, log, sizer, metrics, stop, _folder: folder }
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    pub(crate) fn code(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text);
        let body = self.json();
        assert_eq!(body["status"], self.status.as_u16());
        body["code"].as_str().expect("a code").to_owned()
    }
}

impl Setting {
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).expect("text"),
        }
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        let request =
            Request::builder().method(method).uri(path).header("authorization", format!("Bearer {TOKEN}"));
        self.send(request.body(body.into()).expect("a request")).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, Body::empty()).await
    }

    pub(crate) async fn apply(&self, body: &Value) -> Answer {
        self.call(Method::POST, "/v1/apply", body.to_string()).await
    }
}

pub(crate) fn document() -> Value {
    json!({ "version": 1, "tenants": [{
        "id": "acme",
        "name": "Acme Inc",
        "keys": [{ "id": "given", "token": KEY }, { "id": "made" }],
        "event_types": [{ "name": "com.github.push", "ordering_key": "repository.id" }, { "name": "a/b c" }],
        "apps": [{
            "id": "shop",
            "endpoints": [
                { "id": "main", "url": "https://shop.example/", "secret": SECRET, "headers": { "Authorization": HEADER }, "timeout": "15s" },
                { "id": "other", "url": "https://shop.example/other" },
            ],
            "subscriptions": [
                { "id": "pushes", "endpoint": "main", "event_types": ["com.github.push"], "filter": { "pattern": { "ref": [{ "prefix": "refs/" }] } } },
            ],
        }],
    }]})
}

fn total(counts: &Value) -> [u64; 4] {
    let sum =
        |of: &str| counts.as_object().expect("kinds").values().filter_map(|tally| tally[of].as_u64()).sum();
    [sum("created"), sum("updated"), sum("unchanged"), sum("deleted")]
}

/// A place that log lines go to.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A delivery to change for a test.
pub(crate) fn sample_delivery() -> mailrail_types::Delivery {
    journaled::delivery("main", 0)
}
