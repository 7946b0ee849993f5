//! A way to a server that is slow, and that may lead to another server from some moment on, as an address does after a failover.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pieces that are on their way in a connection; more wait before it.
const PIECES_MAX: usize = 10_000;

/// Its connections end with it.
pub(crate) struct Proxy {
    port: u16,
    way: Arc<Way>,
    _accepting: JoinSet<()>,
}

struct Way {
    to: AtomicU16,
    delay_ms: AtomicU64,
    connections: AtomicUsize,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let way = Arc::new(Way {
            to: AtomicU16::new(to),
            delay_ms: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, way.clone()));
        Self { port, way, _accepting: accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// What comes from the server is on its way for so long from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.way.delay_ms.store(u64::try_from(delay.as_millis()).expect("short"), Ordering::SeqCst);
    }

    /// New connections lead there.
    pub(crate) fn leads_to(&self, port: u16) {
        self.way.to.store(port, Ordering::SeqCst);
    }

    /// How many there were.
    pub(crate) fn connections(&self) -> usize {
        self.way.connections.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, way: Arc<Way>) {
    let mut pumps = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        way.connections.fetch_add(1, Ordering::SeqCst);
        let Ok(server) = TcpStream::connect(("127.0.0.1", way.to.load(Ordering::SeqCst))).await else {
            continue;
        };
        let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
        pumps.spawn(pump(client_in, server_out, None));
        pumps.spawn(pump(server_in, client_out, Some(way.clone())));
    }
}

/// Carries bytes on, in order; with a way, as late as that says.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Option<Arc<Way>>) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let read = async move {
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            let delay = way.as_ref().map_or(0, |way| way.delay_ms.load(Ordering::SeqCst));
            let due = Instant::now() + Duration::from_millis(delay);
            if sender.send((due, bytes[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
