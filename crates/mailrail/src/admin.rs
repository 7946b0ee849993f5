//! The admin server: `/livez`, `/readyz`, `/metrics`.
//!
//! `/livez` says that the process answers, and nothing about what it depends on: restarting a process does not bring
//! Kafka back. `/readyz` says whether to send it work: every check passes and it is not draining. There is no
//! authentication here, so the port stays inside.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use mailrail_serve::Limits;
use mailrail_telemetry::Metrics;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A check that takes longer counts as failed. Kubernetes gives a probe 1 s by default; charts of ours give it 5.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections of the admin port: few, short, and never in the way of the end.
const CONNECTIONS: Limits = Limits {
    name: "admin",
    // Probes and a scraper or two need a handful.
    connections_max: 64,
    headers_max: mailrail_serve::HEADERS_MAX,
    header_bytes_max: mailrail_serve::HEADER_BYTES_MAX,
    header_timeout: Duration::from_secs(10),
    // One that does not read its answer gives its place back.
    age_max: Duration::from_secs(60),
    // As long as a check may take.
    end_grace: CHECK_TIMEOUT,
    // Each connection ends by itself within that.
    drain_timeout: Duration::MAX,
};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Answer = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Something that must be well before work is sent here.
pub(crate) struct Check {
    name: &'static str,
    probe: Box<dyn Fn() -> Answer + Send + Sync>,
}

impl Check {
    /// `name` stands in the answer of `/readyz`; `probe` gives the reason when it fails, without secrets.
    pub(crate) fn new<P, F>(name: &'static str, probe: P) -> Self
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self { name, probe: Box::new(move || Box::pin(probe())) }
    }

    async fn run(&self) -> CheckResult {
        let outcome = tokio::time::timeout(CHECK_TIMEOUT, (self.probe)()).await;
        let error = match outcome {
            Ok(answer) => answer.err(),
            Err(_) => Some(format!("no answer within {} s", CHECK_TIMEOUT.as_secs())),
        };
        CheckResult { name: self.name, ok: error.is_none(), error }
    }
}

/// The admin server of a process.
pub(crate) struct Admin {
    metrics: Arc<Metrics>,
    checks: Vec<Check>,
    draining: CancellationToken,
    before_scrape: Box<dyn Fn(&Metrics) + Send + Sync>,
}

impl Admin {
    /// A server that is ready while every check passes and `draining` is not cancelled.
    pub(crate) fn new(metrics: Arc<Metrics>, checks: Vec<Check>, draining: CancellationToken) -> Self {
        Self { metrics, checks, draining, before_scrape: Box::new(|_| {}) }
    }

    /// Brings metrics up to date that something else counts; runs before each answer of `/metrics`.
    pub(crate) fn before_scrape(self, refresh: impl Fn(&Metrics) + Send + Sync + 'static) -> Self {
        Self { before_scrape: Box::new(refresh), ..self }
    }

    /// Answers until `stop` is cancelled, then ends within 2 s. Keep it running through the drain: that is when `/readyz`
    /// matters most.
    ///
    /// # Errors
    /// When the listener breaks.
    pub(crate) async fn run(self, listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
        mailrail_serve::serve(listener, self.router(), &CONNECTIONS, stop).await
    }

    fn router(self) -> Router {
        Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(Arc::new(self))
    }
}

#[derive(Serialize)]
struct Readiness {
    ready: bool,
    draining: bool,
    checks: Vec<CheckResult>,
}

#[derive(Serialize)]
struct CheckResult {
    name: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn livez() -> &'static str {
    "ok\n"
}

async fn readyz(State(admin): State<Arc<Admin>>) -> Response {
    let checks = futures::future::join_all(admin.checks.iter().map(Check::run)).await;
    let draining = admin.draining.is_cancelled();
    let ready = !draining && checks.iter().all(|check| check.ok);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { ready, draining, checks })).into_response()
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    (admin.before_scrape)(&admin.metrics);
    ([(header::CONTENT_TYPE, OPENMETRICS)], admin.metrics.render()).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tower::ServiceExt;

    use super::*;

    fn admin(checks: Vec<Check>) -> Admin {
        Admin::new(Arc::new(Metrics::new()), checks, CancellationToken::new())
    }

    async fn ask(router: Router, path: &str) -> (StatusCode, String, Vec<u8>) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("an answer");
        let kind = response.headers().get(header::CONTENT_TYPE).map(|v| v.to_str().expect("text").to_owned());
        let status = response.status();
        let body = to_bytes(response.into_body(), 1024 * 1024).await.expect("a body");
        (status, kind.unwrap_or_default(), body.to_vec())
    }

    async fn readiness(router: Router) -> (StatusCode, Value) {
        let (status, _, body) = ask(router, "/readyz").await;
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    fn well() -> Check {
        Check::new("log", || async { Ok(()) })
    }

    #[tokio::test]
    async fn ready_when_every_check_passes() {
        let (status, body) = readiness(admin(vec![well()]).router()).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, json!({"ready": true, "draining": false, "checks": [{"name": "log", "ok": true}]}));
    }

    #[tokio::test]
    async fn a_failing_check_is_named_with_its_reason() {
        let ill = Check::new("store", || async { Err("connection refused".to_owned()) });
        let (status, body) = readiness(admin(vec![well(), ill]).router()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body["checks"][1], json!({"name": "store", "ok": false, "error": "connection refused"}));
        assert_eq!(body["ready"], false);
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_fails_in_bounded_time() {
        let stuck = || Check::new("store", std::future::pending);
        let (status, body) = readiness(admin(vec![stuck(), stuck()]).router()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body["checks"][1]["error"], "no answer within 2 s");
    }

    /// N22: a draining process says so while it is still alive.
    #[tokio::test]
    async fn n22_draining_is_not_ready_but_alive() {
        let admin = admin(vec![well()]);
        admin.draining.cancel();
        let router = admin.router();
        let (status, body) = readiness(router.clone()).await;
        assert_eq!((status, &body["draining"]), (StatusCode::SERVICE_UNAVAILABLE, &Value::Bool(true)));
        assert_eq!(ask(router, "/livez").await.0, StatusCode::OK);
    }

    /// N19: what is scraped says its format.
    #[tokio::test]
    async fn n19_metrics_are_open_metrics() {
        let (status, kind, body) = ask(admin(vec![]).router(), "/metrics").await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, OPENMETRICS));
        let text = String::from_utf8(body).expect("text");
        assert!(text.contains("mailrail_match_events_total 0") && text.ends_with("# EOF\n"), "{text}");
    }

    /// S13: what sizing counts by itself is as of the scrape.
    #[tokio::test]
    async fn s13_what_others_count_is_brought_up_to_date_first() {
        let router =
            admin(vec![]).before_scrape(|metrics| metrics.mailbox.set_sizing_unavailable(3)).router();
        let text = String::from_utf8(ask(router, "/metrics").await.2).expect("text");
        assert!(text.contains("mailrail_mailbox_sizing_unavailable_total 3\n"), "{text}");
    }

    /// N22: what a caller leaves half done does not hold the exit.
    #[tokio::test]
    async fn n22_serves_until_it_is_stopped_and_half_a_request_does_not_hold_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stop = CancellationToken::new();
        let server = tokio::spawn(admin(vec![]).run(listener, stop.clone()));
        let mut half = tokio::net::TcpStream::connect(address).await.expect("connects");
        half.write_all(b"GET /livez HT").await.expect("written");
        let mut socket = tokio::net::TcpStream::connect(address).await.expect("connects");
        socket
            .write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .await
            .expect("written");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("read");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
        stop.cancel();
        server.await.expect("no panic").expect("a clean end");
    }
}
