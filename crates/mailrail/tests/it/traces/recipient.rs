//! A recipient that keeps every header as it came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use tokio::net::TcpListener;

use crate::rig::PATIENCE;

#[derive(Clone)]
pub(super) struct Recipient {
    pub(super) url: String,
    well: Arc<AtomicBool>,
    got: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Recipient {
    /// Answers 503 until it is told to be well.
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let new = Self { url, well: Arc::default(), got: Arc::default() };
        let routes = Router::new().fallback(take).with_state(new.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        new
    }

    pub(super) fn be_well(&self) {
        self.well.store(true, Ordering::Relaxed);
    }

    /// Headers of the requests so far.
    pub(super) fn got(&self) -> Vec<HeaderMap> {
        self.got.lock().expect("lock").clone()
    }

    /// Waits for so many requests.
    pub(super) async fn wait(&self, count: usize) {
        self.wait_until(&format!("{count} requests"), |got| got.len() >= count).await;
    }

    /// Waits for a request with the event of this `ce-id`.
    pub(super) async fn wait_event(&self, id: &str) {
        let is_it = |headers: &HeaderMap| headers.get("ce-id").is_some_and(|it| it == id);
        self.wait_until(id, |got| got.iter().any(is_it)).await;
    }

    async fn wait_until(&self, what: &str, enough: impl Fn(&[HeaderMap]) -> bool) {
        let came = async {
            while !enough(&self.got()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, came).await;
        assert!(came.is_ok(), "{what} did not come; {} requests did", self.got().len());
    }
}

async fn take(State(recipient): State<Recipient>, headers: HeaderMap) -> StatusCode {
    recipient.got.lock().expect("lock").push(headers);
    if recipient.well.load(Ordering::Relaxed) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
