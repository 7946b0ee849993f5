//! Whether an endpoint may be asked now: attempts at a time, attempts a second, and whether it is up at all.
//!
//! What may not go is held, which is no attempt. It is woken when a place is free or the endpoint is up again; the time that
//! it is given is for the case that nobody wakes it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mailrail_mailbox::Hold;
use mailrail_policy::{Breaker, BreakerOptions, Rate, RateUse, Signal};
use mailrail_types::{
    Attempt, DeadReason, Endpoint, EndpointId, HoldReason, MailboxKey, Outcome, RetryReason, TenantId,
    Timestamp,
};
use tokio::sync::mpsc;

/// Mailboxes that wait to be woken by one endpoint. Whoever is beyond it asks again when its time comes.
const WAITERS_MAX: usize = 1000;
/// Endpoints that are remembered; beyond it those that nothing is known of are forgotten.
const ENDPOINTS_MAX: usize = 10_000;
/// When a mailbox that waits for a place asks again, should nobody wake it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Where a partition hears that one of its mailboxes may ask again.
#[derive(Debug, Clone)]
pub(crate) struct Waker(pub(crate) mpsc::Sender<MailboxKey>);

type Key = (TenantId, EndpointId);

#[derive(Default)]
struct Gate {
    in_flight: u32,
    used: RateUse,
    breaker: Breaker,
    waiting: VecDeque<(Waker, MailboxKey)>,
}

impl Gate {
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty() && self.breaker.is_fresh()
    }

    fn wait(&mut self, waker: &Waker, mailbox: &MailboxKey) {
        if self.waiting.len() < WAITERS_MAX {
            self.waiting.push_back((waker.clone(), mailbox.clone()));
        }
    }

    /// Wakes the first that is still there to be woken.
    fn wake_one(&mut self) {
        while let Some((waker, mailbox)) = self.waiting.pop_front() {
            if waker.0.try_send(mailbox).is_ok() {
                return;
            }
        }
    }

    fn wake_all(&mut self) {
        for (waker, mailbox) in self.waiting.drain(..) {
            // One that is gone, or is behind with what it was told, asks again when its time comes.
            let _ = waker.0.try_send(mailbox);
        }
    }
}

/// The gates of a process.
pub(crate) struct Gates {
    gates: Mutex<HashMap<Key, Gate>>,
    options: BreakerOptions,
}

/// A right to ask an endpoint once. Dropped, its place is free again: on every path.
pub(crate) struct Pass {
    gates: Arc<Gates>,
    key: Key,
}

impl Gates {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        Self { gates: Mutex::default(), options }
    }

    /// Goes through the gate of an endpoint.
    ///
    /// # Errors
    /// What the mailbox waits for. `waker` hears when it may ask again.
    pub(crate) fn enter(
        self: &Arc<Self>,
        tenant: &TenantId,
        endpoint: &Endpoint,
        mailbox: &MailboxKey,
        waker: &Waker,
        now: Timestamp,
    ) -> Result<Pass, Hold> {
        let key = (tenant.clone(), endpoint.id.clone());
        let mut gates = self.lock();
        if gates.len() >= ENDPOINTS_MAX && !gates.contains_key(&key) {
            gates.retain(|_, gate| !gate.is_idle());
        }
        let gate = gates.entry(key.clone()).or_default();
        if endpoint.max_in_flight.is_some_and(|max| gate.in_flight >= max) {
            gate.wait(waker, mailbox);
            return Err(Hold { reason: HoldReason::Concurrency, until: now.plus(ASK_AGAIN) });
        }
        if let Err(until) = gate.breaker.enter(now) {
            gate.wait(waker, mailbox);
            return Err(Hold { reason: HoldReason::Circuit, until });
        }
        let rate = endpoint.rate_per_second.map(Rate::per_second);
        if let Some(Err(until)) = rate.map(|rate| gate.used.take(rate, now)) {
            gate.breaker.report(Signal::Nothing, self.options, now, 0.0);
            return Err(Hold { reason: HoldReason::Rate, until });
        }
        gate.in_flight += 1;
        drop(gates);
        Ok(Pass { gates: self.clone(), key })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Takes what the attempt said about its endpoint. `random` in `0.0..1.0`.
    pub(crate) fn report(&self, attempt: &Attempt, now: Timestamp, random: f64) {
        let mut gates = self.gates.lock();
        let Some(gate) = gates.get_mut(&self.key) else { return };
        if gate.breaker.report(signal(attempt), self.gates.options, now, random) {
            gate.wake_all();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get_mut(&self.key) {
            gate.in_flight = gate.in_flight.saturating_sub(1);
            gate.wake_one();
        }
    }
}

/// What an attempt says about its endpoint.
fn signal(attempt: &Attempt) -> Signal {
    match attempt.outcome {
        Outcome::Delivered => Signal::Success,
        Outcome::Retry { reason: RetryReason::Throttled, .. } => Signal::Nothing,
        Outcome::Retry { .. } | Outcome::Dead(DeadReason::Exhausted | DeadReason::HeadMaxAge) => {
            Signal::Failure
        }
        Outcome::Dead(DeadReason::Rejected | DeadReason::Gone) => Signal::Refusal,
        Outcome::Dead(_) | Outcome::Cancelled(_) => Signal::Nothing,
    }
}
