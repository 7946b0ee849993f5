//! Receivers made of raw sockets, so that they can break every rule.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mailrail_egress::{Egress, EgressConfig, Request, Resolve, Resolving, Response, UrlPolicy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Far above what anything here takes: a ceiling against hanging, not a measurement.
pub(crate) const CEILING: Duration = Duration::from_secs(60);

/// A listening socket that counts who came.
pub(crate) struct Receiver {
    pub(crate) addr: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Receiver {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.addr)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Serves each connection with `serve`, which gets the stream and the connection's number from 0.
pub(crate) async fn receiver_at<F, Fut>(addr: &str, serve: F) -> Receiver
where
    F: Fn(TcpStream, usize) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(addr).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, count.fetch_add(1, Ordering::SeqCst)));
        }
    });
    Receiver { addr, connections }
}

pub(crate) async fn receiver<F, Fut>(serve: F) -> Receiver
where
    F: Fn(TcpStream, usize) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    receiver_at("127.0.0.1:0", serve).await
}

/// Reads a request, answers every one with `answer`, then closes.
pub(crate) async fn answering(answer: impl AsRef<[u8]>) -> Receiver {
    let answer = Bytes::copy_from_slice(answer.as_ref());
    receiver(move |mut stream, _| {
        let answer = answer.clone();
        async move {
            if read_request(&mut stream).await.is_some() {
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        }
    })
    .await
}

/// One request as it is on the wire, head and body; `None` when the client closed before.
pub(crate) async fn read_request<S: AsyncReadExt + Unpin>(stream: &mut S) -> Option<Vec<u8>> {
    let mut seen = Vec::new();
    loop {
        if let Some(at) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..at]).to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if seen.len() >= at + 4 + length.unwrap_or(0) {
                return Some(seen);
            }
        }
        if stream.read_buf(&mut seen).await.ok()? == 0 {
            return None;
        }
    }
}

/// Writes `piece` until the client has gone.
pub(crate) async fn write_until_closed<S: AsyncWriteExt + Unpin>(stream: &mut S, piece: &[u8]) {
    while stream.write_all(piece).await.is_ok() {}
}

pub(crate) fn egress_with(change: impl FnOnce(&mut EgressConfig)) -> Egress {
    let mut config = EgressConfig { url: UrlPolicy::development(), ..EgressConfig::default() };
    change(&mut config);
    Egress::new(config).unwrap()
}

pub(crate) fn egress() -> Egress {
    egress_with(|_| {})
}

pub(crate) fn request() -> Request {
    Request { headers: Vec::new(), body: Bytes::from_static(b"{}"), timeout: CEILING }
}

pub(crate) async fn post(egress: &Egress, url: &str) -> Response {
    egress.post(url, request()).await
}

/// A resolver that answers with what a function says.
pub(crate) struct Answers<F>(pub(crate) F);

impl<F: Fn(&str) -> std::io::Result<Vec<IpAddr>> + Send + Sync + 'static> Resolve for Answers<F> {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let answer = (self.0)(name);
        Box::pin(async move { answer })
    }
}

pub(crate) fn ips(list: &str) -> Vec<IpAddr> {
    list.split_whitespace().map(|ip| ip.parse().unwrap()).collect()
}
