//! The load: connections that each send the next request when the one before is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::BAR_STEP;
use crate::events::Requests;
use crate::http::Connection;

/// Who is sent to, and as whom.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) token: Arc<str>,
}

/// What a turn took.
pub(super) struct Taken {
    pub(super) accepted: u64,
    pub(super) elapsed: Duration,
    /// Of every request, from before it was written until its answer was complete; in microseconds.
    pub(super) latencies: Vec<u32>,
}

/// Sends all requests. Anything but 202 is an error.
pub(super) async fn run(
    target: &Target,
    connections: u32,
    requests: Requests,
    bar: &ProgressBar,
) -> Result<Taken> {
    let next = Arc::new(AtomicU32::new(0));
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(target.address).await?);
    }
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in open {
        let sender = Sender {
            connection,
            token: Arc::clone(&target.token),
            requests: requests.clone(),
            next: Arc::clone(&next),
            bar: bar.clone(),
        };
        tasks.spawn(sender.run());
    }
    let mut latencies = Vec::with_capacity(requests.count as usize);
    while let Some(ended) = tasks.join_next().await {
        latencies.extend(ended.context("a connection's task")??);
    }
    Ok(Taken { accepted: latencies.len() as u64, elapsed: began.elapsed(), latencies })
}

/// One connection and its share of the requests: whoever is free takes the next.
struct Sender {
    connection: Connection,
    token: Arc<str>,
    requests: Requests,
    next: Arc<AtomicU32>,
    bar: ProgressBar,
}

impl Sender {
    async fn run(mut self) -> Result<Vec<u32>> {
        let (mut latencies, mut request) = (Vec::new(), Vec::new());
        let mut undrawn = 0;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.requests.count {
                self.bar.inc(u64::from(undrawn));
                return Ok(latencies);
            }
            self.requests.write(index, &mut request, &self.token);
            let began = Instant::now();
            let answer = self.connection.ask(&request).await?;
            latencies.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
            ensure!(answer.status == 202, "an event was answered {}: {}", answer.status, answer.shown());
            undrawn += 1;
            if undrawn == BAR_STEP {
                self.bar.inc(u64::from(undrawn));
                undrawn = 0;
            }
        }
    }
}
