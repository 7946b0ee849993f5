//! The receiver of a measurement: reads a body, answers 200 with nothing, and notes when which event came.
//!
//! It runs on threads of its own in the measuring process, the same for whatever posts to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::events::{BODY_BYTES, number_of};

/// Requests to paths that begin like this are answered 503: the endpoint is dead.
pub(crate) const DEAD_PATH: &str = "/dead/";
/// Threads that serve.
const THREADS: usize = 2;

/// When which event came, by its number.
pub(crate) struct Receipts {
    began: Instant,
    /// Microseconds since `began`, and one; 0: it did not come yet.
    at: Vec<AtomicU64>,
    total: AtomicU64,
    repeated: AtomicU64,
    strange: AtomicU64,
    connections: AtomicU64,
}

/// Of all that came so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Events, each once.
    pub(crate) total: u64,
    /// Events that had come before.
    pub(crate) repeated: u64,
    /// Requests that no measurement sent.
    pub(crate) strange: u64,
    /// TCP connections.
    pub(crate) connections: u64,
}

impl Receipts {
    /// For events numbered below `capacity`.
    pub(crate) fn new(capacity: u64) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            at: (0..capacity).map(|_| AtomicU64::new(0)).collect(),
            total: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            strange: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        })
    }

    /// The event is here.
    pub(crate) fn note(&self, number: u64) {
        let now = self.micros(Instant::now()) + 1;
        let Some(place) = usize::try_from(number).ok().and_then(|it| self.at.get(it)) else {
            return self.note_strange();
        };
        match place.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => self.total.fetch_add(1, Ordering::Release),
            Err(_) => self.repeated.fetch_add(1, Ordering::Relaxed),
        };
    }

    fn note_strange(&self) {
        self.strange.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            total: self.total.load(Ordering::Acquire),
            repeated: self.repeated.load(Ordering::Relaxed),
            strange: self.strange.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }

    /// When the event came, in microseconds on the clock of [`Receipts::micros`].
    pub(crate) fn at(&self, number: u64) -> Option<u64> {
        let at = self.at.get(usize::try_from(number).ok()?)?.load(Ordering::Relaxed);
        at.checked_sub(1)
    }

    /// A moment on the clock of the receipts.
    pub(crate) fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }
}

/// Starts to serve, until the process ends.
pub(crate) fn start(receipts: Arc<Receipts>) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("sink")
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("sink".to_owned())
        .spawn(move || runtime.block_on(serve(listener, receipts)))
        .context("no thread for the sink")?;
    Ok(address)
}

async fn serve(listener: std::net::TcpListener, receipts: Arc<Receipts>) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        // A client that is gone before it was accepted is none.
        let Ok((stream, _)) = listener.accept().await else { continue };
        receipts.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(serve_one(stream, receipts.clone()));
    }
}

async fn serve_one(stream: TcpStream, receipts: Arc<Receipts>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| receive(request, receipts.clone()));
    // How a connection ends is the client's matter: what it sent was noted.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn receive(
    request: Request<Incoming>,
    receipts: Arc<Receipts>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes().len());
    if head.uri.path().starts_with(DEAD_PATH) {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return Ok(response);
    }
    let number = head.headers.get("ce-id").and_then(|id| number_of(id.to_str().ok()?));
    match (number, body) {
        (Some(number), Ok(BODY_BYTES)) => receipts.note(number),
        _ => receipts.note_strange(),
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Bodies, write_post};
    use crate::http::Connection;

    #[tokio::test]
    async fn what_comes_is_noted_once() {
        let receipts = Receipts::new(3);
        let address = start(receipts.clone()).expect("a sink");
        let mut connection = Connection::open(address).await.expect("a connection");
        let mut request = Vec::new();
        for number in [0, 2, 2, 9] {
            write_post(&mut request, "token", number, "t", Bodies::new(1).of(number));
            assert_eq!(connection.ask(&request).await.expect("an answer").status, 200);
        }
        assert_eq!(receipts.counts(), Counts { total: 2, repeated: 1, strange: 1, connections: 1 });
        assert!(receipts.at(0) <= receipts.at(2) && receipts.at(0).is_some());
        assert_eq!(receipts.at(1), None);
    }
}
