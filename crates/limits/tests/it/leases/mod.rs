//! Leases on real Redis servers: how many requests are open at an endpoint, over all processes.

mod cluster;
mod contract;
mod failures;
mod processes;
mod proxy;
mod wires;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mailrail_limits::{Leases, Recipient, RedisLeases, Terms};
use mailrail_telemetry::{LimitsMetrics, Metrics};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bench::PREFIX;
use crate::servers::PATIENCE;

pub(crate) fn recipient(name: &str) -> Recipient {
    Recipient { tenant: "acme".parse().expect("id"), endpoint: name.parse().expect("id") }
}

/// As in production, but that less is waited for.
pub(crate) fn quick() -> Terms {
    Terms {
        term: Duration::from_secs(3),
        renew_every: Duration::from_millis(500),
        retry_after: Duration::from_millis(200),
        beat_every: Duration::from_millis(200),
        alive_for: Duration::from_secs(3),
        ask_again: Duration::from_millis(200),
        ..Terms::default()
    }
}

/// As [`quick`], for a machine that may be busy: nothing but the server's end counts as an outage.
pub(crate) fn patient() -> Terms {
    let long = Duration::from_secs(10);
    Terms { term: long, answer_within: long, ask_budget: Duration::from_secs(5), ..quick() }
}

/// What one process has: its leases and what keeps them.
pub(crate) struct Client {
    pub(crate) leases: Leases,
    pub(crate) metrics: LimitsMetrics,
    pub(crate) free: Arc<Notify>,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

impl Client {
    pub(crate) fn start(urls: &[String], prefix: &str, terms: Terms) -> Self {
        let store = RedisLeases::new(urls, &format!("{PREFIX}{prefix}")).expect("urls");
        let metrics = Metrics::new().limits;
        let leases = Leases::new(Arc::new(store), terms, metrics.clone());
        let free = Arc::new(Notify::new());
        let woken = free.clone();
        leases.on_free(Box::new(move |_, count| (0..count.min(100)).for_each(|_| woken.notify_one())));
        let stop = CancellationToken::new();
        let (kept, stopped) = (leases.clone(), stop.clone());
        let run = tokio::spawn(async move { kept.run(stopped).await });
        Self { leases, metrics, free, stop, run }
    }

    /// So many that know of each other.
    pub(crate) async fn fleet(count: i64, urls: &[String], prefix: &str, terms: Terms) -> Vec<Self> {
        let fleet: Vec<Self> = (0..count).map(|_| Self::start(urls, prefix, terms)).collect();
        for client in &fleet {
            until("all are known", || client.metrics.processes.get() == count).await;
        }
        fleet
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.run.await.expect("ended");
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Requests that are open, as the endpoint sees it.
#[derive(Default)]
pub(crate) struct Open {
    now: AtomicU64,
    most: AtomicU64,
}

impl Open {
    pub(crate) fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }

    /// The most since it was asked last.
    pub(crate) fn take_most(&self) -> u64 {
        self.most.swap(self.now.load(Ordering::SeqCst), Ordering::SeqCst)
    }
}

/// More deliveries than may go, from each of a fleet, all the time.
pub(crate) struct Load {
    pub(crate) open: Arc<Open>,
    done: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(fleet: &[Client], recipient: &Recipient, limit: u32, takes: Duration) -> Self {
        let (open, stop) = (Arc::new(Open::default()), Arc::new(AtomicBool::new(false)));
        let done: Vec<Arc<AtomicU64>> = fleet.iter().map(|_| Arc::default()).collect();
        let mut workers = Vec::new();
        for (client, done) in fleet.iter().zip(&done) {
            for _ in 0..2 * limit {
                let (leases, free, recipient) =
                    (client.leases.clone(), client.free.clone(), recipient.clone());
                let (open, stop, done) = (open.clone(), stop.clone(), done.clone());
                workers.push(tokio::spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        if let Ok(lease) = leases.take(&recipient, limit).await {
                            open.enter();
                            tokio::time::sleep(takes).await;
                            open.leave();
                            drop(lease);
                            done.fetch_add(1, Ordering::Relaxed);
                        } else {
                            let _ = tokio::time::timeout(Duration::from_millis(200), free.notified()).await;
                        }
                    }
                }));
            }
        }
        Self { open, done, stop, workers }
    }

    pub(crate) fn done(&self) -> Vec<u64> {
        self.done.iter().map(|done| done.load(Ordering::Relaxed)).collect()
    }

    /// Each of the fleet gets so many more through.
    pub(crate) async fn goes_on(&self, more: u64) {
        let before = self.done();
        until("each process goes on", || {
            self.done().iter().zip(&before).all(|(now, then)| *now >= then + more)
        })
        .await;
    }

    pub(crate) async fn end(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.done();
        for worker in self.workers {
            worker.await.expect("worker");
        }
        done
    }
}
