//! Leases over a store that fails as told, in virtual time.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailrail_telemetry::{LimitsMetrics, Metrics, OutcomeLabels};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Error;

mod holding;
mod outages;

/// How the store behaves.
#[derive(Debug, Clone)]
enum Mode {
    Sound,
    /// Does nothing and fails.
    Failing(Error),
    /// Does what it is asked, and fails.
    Unheard,
    /// Answers after this long.
    Late(Duration),
    Hanging,
    Panicking,
}

struct Scripted {
    leases: LocalLeases,
    mode: Mutex<Mode>,
    processes: AtomicU32,
    exchanges: AtomicUsize,
    /// Requests of a rate that were asked for.
    rates: AtomicUsize,
}

impl Scripted {
    fn of(processes: u32) -> Arc<Self> {
        Arc::new(Self {
            leases: LocalLeases::new(),
            mode: Mutex::new(Mode::Sound),
            processes: AtomicU32::new(processes),
            exchanges: AtomicUsize::new(0),
            rates: AtomicUsize::new(0),
        })
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().expect("mode") = mode;
    }

    async fn behave<T>(&self, answer: T) -> Result<T, Error> {
        let mode = self.mode.lock().expect("mode").clone();
        match mode {
            Mode::Sound => Ok(answer),
            Mode::Failing(error) => Err(error),
            Mode::Unheard => Err(Error::NoAnswer("lost".to_owned())),
            Mode::Late(after) => {
                sleep(after).await;
                Ok(answer)
            }
            Mode::Hanging => std::future::pending().await,
            Mode::Panicking => panic!("the client is broken"),
        }
    }
}

#[async_trait]
impl LeaseStore for Scripted {
    async fn exchange(&self, recipient: &Recipient, exchange: &Exchange) -> Result<Exchanged, Error> {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        let does = matches!(*self.mode.lock().expect("mode"), Mode::Sound | Mode::Unheard | Mode::Late(_));
        let answer =
            if does { self.leases.exchange(recipient, exchange).await? } else { Exchanged::default() };
        self.behave(answer).await
    }

    async fn take_rate(&self, _recipient: &Recipient, per_second: u32) -> Result<Duration, Error> {
        self.rates.fetch_add(1, Ordering::Relaxed);
        self.behave(Duration::from_secs(u64::from(per_second == 1))).await
    }

    async fn beat(&self, _process: u64, _lasts: Duration) -> Result<u32, Error> {
        self.behave(self.processes.load(Ordering::Relaxed)).await
    }

    async fn leave(&self, _process: u64) -> Result<(), Error> {
        self.behave(()).await
    }

    fn is_shared(&self) -> bool {
        true
    }
}

fn endpoint() -> Recipient {
    Recipient { tenant: "acme".parse().expect("id"), endpoint: "main".parse().expect("id") }
}

/// A process over the store.
struct Process {
    leases: Leases,
    metrics: LimitsMetrics,
    freed: Arc<AtomicUsize>,
    stop: CancellationToken,
    run: tokio::task::JoinHandle<()>,
}

impl Process {
    /// One that is not sure of anything yet.
    fn new(store: &Arc<Scripted>) -> Self {
        let metrics = Metrics::new().limits;
        let leases = Leases::new(store.clone(), Terms::default(), metrics.clone());
        let freed = Arc::new(AtomicUsize::new(0));
        let count = freed.clone();
        leases.on_free(Box::new(move |_, free| {
            count.fetch_add(free, Ordering::Relaxed);
        }));
        let stop = CancellationToken::new();
        let (kept, stopped) = (leases.clone(), stop.clone());
        Self { leases, metrics, freed, run: tokio::spawn(async move { kept.run(stopped).await }), stop }
    }

    /// One that believes the store and knows the others.
    async fn settled(store: &Arc<Scripted>) -> Self {
        let new = Self::new(store);
        sleep(Terms::default().term + Duration::from_secs(1)).await;
        new
    }

    async fn take(&self, limit: u32) -> Option<Lease> {
        self.leases.take(&endpoint(), limit).await.ok()
    }

    /// As many as there are.
    async fn take_all(&self, limit: u32) -> Vec<Lease> {
        let mut all = Vec::new();
        while let Some(lease) = self.take(limit).await {
            all.push(lease);
        }
        all
    }

    fn asks(&self, outcome: &'static str) -> u64 {
        self.metrics.asks.get_or_create(&OutcomeLabels { outcome }).get()
    }
}

/// Longer than anything that is kept for a moment, or asked again.
async fn a_while() {
    sleep(Duration::from_secs(3)).await;
}
