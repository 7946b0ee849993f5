//! The floor of deliver: a bare hyper client that posts the same bodies with headers of the same size.
//!
//! It reads no log, computes no signature, records nothing. Each connection has one request under way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::events::{Bodies, SOURCE, event_id};

/// The headers of a delivery beside `ce-id`, as deliver sends them; ids and signature are of somebody else, and as long.
const HEADERS: [(&str, &str); 11] = [
    ("user-agent", "mailrail/0.1.0"),
    ("ce-specversion", "1.0"),
    ("ce-source", SOURCE),
    ("ce-type", "com.example.order.changed.e0000"),
    ("content-type", "application/json"),
    ("webhook-id", "dlv_019a0000000070008000000000000000"),
    ("webhook-timestamp", "1700000000"),
    ("webhook-signature", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ("mailrail-event-id", "evt_019a0000000070008000000000000000"),
    ("mailrail-attempt", "1"),
    ("mailrail-sequence", "1;epoch=\"63.0.0\";offset=1000"),
];

/// What the bare client is told by `deliver`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to.
    #[arg(long)]
    address: SocketAddr,
    /// Number of the first event.
    #[arg(long)]
    first: u64,
    /// How many.
    #[arg(long)]
    count: u64,
    /// Connections.
    #[arg(long)]
    connections: u32,
    /// Decides what the bodies say.
    #[arg(long)]
    seed: u64,
}

/// Posts everything, and stays until the process is killed.
pub(crate) async fn run(args: Args) -> Result<()> {
    let (next, bodies) = (Arc::new(AtomicU64::new(args.first)), Bodies::new(args.seed));
    let end = args.first + args.count;
    let mut tasks = JoinSet::new();
    for _ in 0..args.connections {
        tasks.spawn(post(args.address, Arc::clone(&next), end, bodies.clone()));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a connection's task")??;
    }
    std::future::pending().await
}

async fn post(address: SocketAddr, next: Arc<AtomicU64>, end: u64, bodies: Bodies) -> Result<()> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let host = address.to_string();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return Ok(());
        }
        let mut request = Request::post("/e0000").header("host", &host).header("ce-id", event_id(number));
        for (name, value) in HEADERS {
            request = request.header(name, value);
        }
        let answer = sender.send_request(request.body(Full::new(bodies.of(number).clone()))?).await?;
        ensure!(answer.status() == 200, "answered {}", answer.status());
        let body: Bytes = answer.into_body().collect().await?.to_bytes();
        ensure!(body.is_empty(), "an answer with a body");
        sender.ready().await?;
    }
}
