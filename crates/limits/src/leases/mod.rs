//! Leases: how many requests are open at an endpoint, over all processes.
//!
//! [`Leases::take`] gives an owned right to have one request open. The store gives leases out, one atomic step at a time; a
//! process keeps those it has for its next deliveries for a moment, renews what is in use, and gives back the rest. A lease
//! counts from the grant until it was given back or has expired, also while it is only kept: so there are never more of them
//! in use than the limit says, as long as the store is there and remembers.
//!
//! When it is not, each process keeps to its share: the limit over the processes last seen alive.
//!
//! [`Leases::admit`] counts requests a second in the same store, with the same share.

mod fleet;
mod keeping;
mod late;
mod lease;
mod local;
mod pool;
mod port;
mod rate;
mod redis;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mailrail_telemetry::{LimitsMetrics, OutcomeLabels};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use self::fleet::Fleet;
use self::late::Lates;
pub use self::lease::Lease;
pub use self::local::LocalLeases;
use self::pool::{Offer, Pool};
pub use self::port::{Exchange, Exchanged, LeaseStore, Recipient, Token};
pub use self::rate::Admission;
pub use self::redis::RedisLeases;
pub use self::terms::Terms;

/// What a delivery that waits for the store hears.
type Answer = Option<Lease>;

/// Hears that so many deliveries to a recipient may try now.
pub type OnFree = Box<dyn Fn(&Recipient, usize) + Send + Sync>;

/// No lease is to be had now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// When to ask again, should [`OnFree`] not say so before.
    pub ask_again: Duration,
}

/// The leases of a process. A cheap clone; one for each store and process.
///
/// Someone must run [`Leases::run`].
#[derive(Clone)]
pub struct Leases {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn LeaseStore>,
    terms: Terms,
    process: u64,
    numbers: AtomicU64,
    fleet: Fleet,
    /// Those that something is known of. One that nothing is known of is forgotten: there are about as many as requests are
    /// open and deliveries wait.
    pools: Mutex<HashMap<Recipient, Pool>>,
    /// Answers about rates that come late.
    lates: Mutex<Lates>,
    on_free: OnceLock<OnFree>,
    metrics: LimitsMetrics,
    logged_at: Mutex<Option<Instant>>,
    is_closed: AtomicBool,
}

impl Leases {
    /// The leases of this process over `store`.
    #[must_use]
    pub fn new(store: Arc<dyn LeaseStore>, terms: Terms, metrics: LimitsMetrics) -> Self {
        let fleet = Fleet::new(store.is_shared(), terms);
        Self {
            inner: Arc::new(Inner {
                store,
                terms,
                process: rand::random(),
                numbers: AtomicU64::new(0),
                fleet,
                pools: Mutex::default(),
                lates: Mutex::default(),
                on_free: OnceLock::new(),
                metrics,
                logged_at: Mutex::default(),
                is_closed: AtomicBool::new(false),
            }),
        }
    }

    /// Names who hears of free leases. The first one stays.
    pub fn on_free(&self, on_free: OnFree) {
        let _ = self.inner.on_free.set(on_free);
    }

    /// Takes one of `limit` leases. Waits for the store at most [`Terms::ask_budget`], mostly not at all.
    ///
    /// # Errors
    /// [`Refused`] when none is to be had now. [`OnFree`] hears when one may be.
    pub async fn take(&self, recipient: &Recipient, limit: u32) -> Result<Lease, Refused> {
        let (caller, answer) = oneshot::channel();
        match self.offer(recipient, limit, Some(caller)) {
            Ok(Some(lease)) => return Ok(lease),
            Ok(None) => self.start_exchange(recipient),
            Err(refused) => return Err(refused),
        }
        if let Ok(Ok(Some(lease))) = timeout(self.inner.terms.ask_budget, answer).await {
            return Ok(lease);
        }
        // Not to be had, or not in time: then it is kept for whoever is woken when it comes.
        let refused = self.refused();
        if let Some(pool) = self.pools().get_mut(recipient) {
            pool.want(Instant::now());
        }
        Err(refused)
    }

    /// As [`Leases::take`], of what this process has already. For whoever was refused and has just made sure that it hears of
    /// free leases: one may have come in between.
    ///
    /// # Errors
    /// [`Refused`]: nothing is there.
    pub fn try_take(&self, recipient: &Recipient, limit: u32) -> Result<Lease, Refused> {
        self.offer(recipient, limit, None)?.ok_or_else(|| self.refused())
    }

    /// A lease, or `None` when the store has to be asked; `caller` hears its answer.
    fn offer(
        &self,
        recipient: &Recipient,
        limit: u32,
        caller: Option<oneshot::Sender<Answer>>,
    ) -> Result<Option<Lease>, Refused> {
        let now = Instant::now();
        let standing = self.inner.fleet.standing(now);
        let mut pools = self.pools();
        let pool = pools.entry(recipient.clone()).or_insert_with(|| Pool::new(self.inner.terms, now));
        let (token, how) = match (pool.offer(limit, now, standing, || self.fresh()), caller) {
            (Offer::Kept(token), _) => (token, "kept"),
            (Offer::OfShare(token), _) => (token, "share"),
            (Offer::Ask, Some(caller)) => {
                pool.ask(caller);
                return Ok(None);
            }
            (Offer::Ask, None) => return Err(self.refused()),
            (Offer::Refused, caller) => {
                if caller.is_some() {
                    pool.want(now);
                    drop(pools);
                    self.count("refused");
                }
                return Err(self.refused());
            }
        };
        drop(pools);
        self.count(how);
        Ok(Some(Lease::new(self.clone(), recipient.clone(), token)))
    }

    fn holds(&self, recipient: &Recipient, token: Token) -> bool {
        self.pools().get(recipient).is_some_and(|pool| pool.holds(token, Instant::now()))
    }

    /// A lease is not used any more.
    fn put(&self, recipient: &Recipient, token: Token) {
        let now = Instant::now();
        let standing = self.inner.fleet.standing(now);
        let effects = self.pools().get_mut(recipient).map(|pool| {
            let mut effects = pool.put(token, now, standing);
            if self.inner.is_closed.load(Ordering::Relaxed) {
                pool.close(now);
                effects.exchange = true;
            }
            effects
        });
        if effects.is_some_and(|effects| self.carry_out(recipient, effects)) {
            self.start_exchange(recipient);
        }
    }

    fn fresh(&self) -> Token {
        Token { process: self.inner.process, number: self.inner.numbers.fetch_add(1, Ordering::Relaxed) }
    }

    fn refused(&self) -> Refused {
        Refused { ask_again: self.inner.terms.ask_again }
    }

    fn count(&self, outcome: &'static str) {
        self.inner.metrics.asks.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    fn lates(&self) -> MutexGuard<'_, Lates> {
        self.inner.lates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pools(&self) -> MutexGuard<'_, HashMap<Recipient, Pool>> {
        // A panic in here leaves numbers, and leases expire: a poisoned table goes on.
        self.inner.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").field("process", &self.inner.process).finish_non_exhaustive()
    }
}
