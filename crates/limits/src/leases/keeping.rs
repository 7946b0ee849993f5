//! What goes on beside deliveries: exchanges with the store, renewals, signs of life.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use mailrail_telemetry::ReasonLabels;
use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use super::pool::Effects;
use super::port::Recipient;
use super::{Lease, Leases};
use crate::Error;

/// How often recipients are looked at for something that is due.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Recipients that are given back side by side at the end.
const CLOSED_AT_A_TIME: usize = 64;

/// Recipients of which it is remembered that deliveries wait for them, or that they are new to the store. Beyond it that is
/// forgotten: who waits asks again when its time comes.
const RECIPIENTS_MAX: usize = 10_000;

/// How often a failure of the store is logged.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

impl Leases {
    /// Renews leases, asks for those that wait and says that the process is alive, until `stop`; then gives back what is kept.
    /// Stop it after everything that has leases.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.look() => {}
            () = self.beat() => {}
        }
        self.close().await;
    }

    /// Forever.
    async fn look(&self) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let now = Instant::now();
            let all: Vec<Recipient> = {
                let mut pools = self.pools();
                let is_full = pools.len() > RECIPIENTS_MAX;
                pools.retain(|_, pool| !(pool.is_empty(now) || (is_full && pool.has_nothing())));
                let held = pools.values().map(|pool| i64::from(pool.held())).sum();
                self.inner.metrics.leases.set(held);
                let expiring = pools.values_mut().map(|pool| std::mem::take(&mut pool.expiring)).sum();
                self.inner.metrics.leases_expiring.inc_by(expiring);
                pools.keys().cloned().collect()
            };
            for recipient in all {
                self.start_exchange(&recipient);
            }
            self.lates().forget(now);
            let standing = self.inner.fleet.standing(now);
            let on_share = standing.is_in_doubt || standing.is_away;
            self.inner.metrics.on_share.set(i64::from(on_share && !standing.is_alone()));
            self.inner.metrics.processes.set(standing.processes.map_or(0, i64::from));
        }
    }

    /// Forever.
    async fn beat(&self) {
        let (inner, terms) = (&self.inner, &self.inner.terms);
        loop {
            let beat = AssertUnwindSafe(inner.store.beat(inner.process, terms.alive_for)).catch_unwind();
            let result = match timeout(terms.answer_within, beat).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(Error::Panicked),
                Err(_) => Err(Error::Timeout),
            };
            let now = Instant::now();
            self.note(result.as_ref().err(), now);
            if let Ok(processes) = result {
                inner.fleet.counted(processes, now);
            }
            let pause = if inner.fleet.is_failing() { terms.retry_after } else { terms.beat_every };
            tokio::time::sleep(pause).await;
        }
    }

    /// The store answered, or did not: the same for all recipients, but for what is of one key.
    pub(super) fn note(&self, error: Option<&Error>, now: Instant) {
        let (fleet, metrics) = (&self.inner.fleet, &self.inner.metrics);
        let Some(error) = error else {
            if fleet.answered(now) {
                tracing::info!(
                    "leases of endpoints are shared again; each process keeps to its share until all have said what they hold"
                );
            }
            return;
        };
        metrics.failures.get_or_create(&ReasonLabels { reason: error.code() }).inc();
        if !error.is_of_one_key() {
            fleet.failed(now);
        }
        let mut logged_at = self.inner.logged_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if logged_at.is_none_or(|at| now >= at + LOGGED_EVERY) {
            *logged_at = Some(now);
            tracing::warn!(%error, "leases of endpoints cannot be shared; this process keeps to its share of each limit");
        }
    }

    /// Goes to the store in the background, if there is something for it.
    pub(super) fn start_exchange(&self, recipient: &Recipient) {
        // A lease may be dropped after the runtime. It expires then.
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(plan) = self.plan(recipient) else { return };
        let (leases, recipient) = (self.clone(), recipient.clone());
        runtime.spawn(async move {
            let mut plan = Some(plan);
            while let Some(next) = plan.take() {
                if leases.exchange(&recipient, next).await {
                    plan = leases.plan(&recipient);
                }
            }
        });
    }

    fn plan(&self, recipient: &Recipient) -> Option<super::pool::Plan> {
        let now = Instant::now();
        let standing = self.inner.fleet.standing(now);
        self.pools().get_mut(recipient)?.plan(self.inner.process, now, standing, || self.fresh())
    }

    /// One exchange; answers whether there is another.
    async fn exchange(&self, recipient: &Recipient, plan: super::pool::Plan) -> bool {
        let inner = &self.inner;
        inner.metrics.exchanges.inc();
        let exchange = AssertUnwindSafe(inner.store.exchange(recipient, &plan.exchange)).catch_unwind();
        let result = match timeout(inner.terms.answer_within, exchange).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Error::Panicked),
            Err(_) => Err(Error::Timeout),
        };
        let now = Instant::now();
        self.note(result.as_ref().err(), now);
        let standing = inner.fleet.standing(now);
        let done = self
            .pools()
            .get_mut(recipient)
            .map(|pool| pool.done(plan, &result, now, standing, || self.fresh()));
        let Some((effects, lost)) = done else { return false };
        if lost > 0 {
            inner.metrics.leases_lost.inc_by(u64::from(lost));
            inner.fleet.doubt(now);
        }
        self.carry_out(recipient, effects)
    }

    /// Does what a pool decided; answers whether there is something for the store.
    pub(super) fn carry_out(&self, recipient: &Recipient, effects: Effects) -> bool {
        for (caller, token, how) in effects.answers {
            self.count(how);
            let lease = token.map(|token| Lease::new(self.clone(), recipient.clone(), token));
            // One whose delivery went away meanwhile is dropped here, which frees it.
            drop(caller.send(lease));
        }
        if effects.wake > 0
            && let Some(on_free) = self.inner.on_free.get()
        {
            on_free(recipient, effects.wake);
        }
        effects.exchange
    }

    /// Gives back what is kept, and leaves.
    async fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Relaxed);
        let now = Instant::now();
        let all: Vec<Recipient> = {
            let mut pools = self.pools();
            pools.values_mut().for_each(|pool| pool.close(now));
            pools.keys().cloned().collect()
        };
        let give = async {
            for recipients in all.chunks(CLOSED_AT_A_TIME) {
                join_all(recipients.iter().map(|recipient| async {
                    if let Some(plan) = self.plan(recipient) {
                        self.exchange(recipient, plan).await;
                    }
                }))
                .await;
            }
            let _ = self.inner.store.leave(self.inner.process).await;
        };
        // What is not given back by then expires.
        let _ = timeout(self.inner.terms.answer_within, give).await;
    }
}
