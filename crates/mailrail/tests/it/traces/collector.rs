//! A collector that takes OTLP over HTTP as any does, and one that is not well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;

use crate::rig::PATIENCE;

/// What it wants with each export, as `OTEL_EXPORTER_OTLP_HEADERS` writes it.
pub(super) const CREDENTIALS: &str = "x-collector-key=letmein";

/// What it does with an export.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Manner {
    Takes,
    /// Answers 500.
    Fails,
    /// Never answers.
    Hangs,
}

/// A span as it came, and the role that it came from.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) role: String,
    pub(super) span: Span,
}

impl Seen {
    /// An attribute as text; empty when it is not there.
    pub(super) fn attribute(&self, key: &str) -> String {
        let found = self.span.attributes.iter().find(|it| it.key == key);
        match found.and_then(|it| it.value.as_ref()).and_then(|it| it.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            Some(Value::IntValue(number)) => number.to_string(),
            _ => String::new(),
        }
    }
}

#[derive(Clone)]
pub(super) struct Collector {
    pub(super) url: String,
    manner: Arc<Mutex<Manner>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    asked: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Collector {
    pub(super) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let manner = Arc::new(Mutex::new(manner));
        let new = Self { url, manner, seen: Arc::default(), asked: Arc::default() };
        let routes = Router::new().route("/v1/traces", post(take)).with_state(new.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        new
    }

    pub(super) fn turn(&self, manner: Manner) {
        *self.manner.lock().expect("lock") = manner;
    }

    /// Exports that came while it had this manner.
    pub(super) fn asked(&self, manner: Manner) -> u64 {
        self.asked.lock().expect("lock").get(name(manner)).copied().unwrap_or_default()
    }

    /// Spans so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("lock").clone()
    }

    /// Waits until what is seen is enough.
    pub(super) async fn wait(&self, what: &str, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let came = async {
            while !enough(&self.seen()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, came).await;
        assert!(came.is_ok(), "{what} did not come: {:#?}", self.seen());
        self.seen()
    }
}

const fn name(manner: Manner) -> &'static str {
    match manner {
        Manner::Takes => "takes",
        Manner::Fails => "fails",
        Manner::Hangs => "hangs",
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let (name_of_key, key) = CREDENTIALS.split_once('=').expect("a pair");
    assert_eq!(headers.get(name_of_key).and_then(|value| value.to_str().ok()), Some(key));
    let manner = *collector.manner.lock().expect("lock");
    *collector.asked.lock().expect("lock").entry(name(manner)).or_default() += 1;
    match manner {
        Manner::Takes => {}
        Manner::Fails => return StatusCode::INTERNAL_SERVER_ERROR,
        Manner::Hangs => std::future::pending().await,
    }
    let request = ExportTraceServiceRequest::decode(body).expect("OTLP");
    for resource in request.resource_spans {
        let attributes = resource.resource.map(|it| it.attributes).unwrap_or_default();
        let whole = Seen { role: String::new(), span: Span { attributes, ..Span::default() } };
        assert_eq!(whole.attribute("service.name"), "mailrail");
        let role = whole.attribute("mailrail.role");
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        let seen = spans.map(|span| Seen { role: role.clone(), span });
        collector.seen.lock().expect("lock").extend(seen);
    }
    StatusCode::OK
}
