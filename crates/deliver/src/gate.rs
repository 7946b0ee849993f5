//! Whether an endpoint may be asked now: attempts at a time, attempts a second, and whether it is up at all.
//!
//! What may not go is held, which is no attempt. It is woken when a place is free or the endpoint is up again; the time that
//! it is given is for the case that nobody wakes it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailrail_limits::{Admission, Lease, Leases, Recipient};
use mailrail_mailbox::Hold;
use mailrail_policy::{Breaker, BreakerOptions, Rate, RateUse, Signal};
use mailrail_types::{
    Attempt, DeadReason, Endpoint, HoldReason, MailboxKey, Outcome, RetryReason, TenantId, Timestamp,
};
use tokio::sync::mpsc;

/// Mailboxes that wait to be woken by one endpoint. Whoever is beyond it asks again when its time comes.
const WAITERS_MAX: usize = 1000;
/// Endpoints that are remembered; beyond it those that nothing is known of are forgotten.
const ENDPOINTS_MAX: usize = 10_000;

/// Where a partition hears that one of its mailboxes may ask again.
#[derive(Debug, Clone)]
pub(crate) struct Waker(pub(crate) mpsc::Sender<MailboxKey>);

/// Who asks, and where it is woken.
type Asking<'a> = (&'a MailboxKey, &'a Waker);

#[derive(Default)]
struct Gate {
    in_flight: u32,
    used: RateUse,
    breaker: Breaker,
    /// Those that wait, in the order in which they came.
    waiting: BTreeMap<Ticket, (Waker, MailboxKey)>,
    /// Their tickets: each is there once.
    listed: HashMap<MailboxKey, Ticket>,
    /// The next ticket.
    tickets: Ticket,
}

/// A place among those that wait; those who came later have a larger one.
type Ticket = u64;

impl Gate {
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty() && self.breaker.is_fresh()
    }

    /// Gives the ticket that a mailbox takes here, if it has none.
    fn wait(&mut self, (mailbox, waker): Asking<'_>) -> Option<Ticket> {
        if self.waiting.len() >= WAITERS_MAX || self.listed.contains_key(mailbox) {
            return None;
        }
        let ticket = self.tickets;
        self.tickets += 1;
        self.listed.insert(mailbox.clone(), ticket);
        self.waiting.insert(ticket, (waker.clone(), mailbox.clone()));
        Some(ticket)
    }

    /// A delivery of a mailbox went through that asked when `next` was the next ticket, and took `own`. Listed on, the mailbox
    /// would be called in place of another one that waits. Where it was listed since, another delivery of it waits.
    fn went(&mut self, mailbox: &MailboxKey, next: Ticket, own: Option<Ticket>) {
        let listed = self.listed.get(mailbox).copied();
        if let Some(ticket) = listed.filter(|ticket| *ticket < next || Some(*ticket) == own) {
            self.listed.remove(mailbox);
            self.waiting.remove(&ticket);
        }
    }

    /// Wakes the first that are still there to be woken.
    fn wake(&mut self, mut count: usize) {
        while count > 0
            && let Some((_, (waker, mailbox))) = self.waiting.pop_first()
        {
            self.listed.remove(&mailbox);
            // One that is gone, or is behind with what it was told, asks again when its time comes.
            count -= usize::from(waker.0.try_send(mailbox).is_ok());
        }
    }

    /// Whether the endpoint is up. Takes nothing of it.
    fn look(&mut self, asking: Asking<'_>, now: Timestamp) -> Result<(), Hold> {
        let mut breaker = self.breaker;
        breaker.enter(now).map_err(|until| {
            self.wait(asking);
            Hold { reason: HoldReason::Circuit, until }
        })
    }

    /// Goes through, at most `per_second` times where this process counts for itself.
    fn go(&mut self, per_second: Option<u32>, asking: Asking<'_>, now: Timestamp) -> Result<(), Hold> {
        self.look(asking, now)?;
        if let Some(Err(until)) = per_second.map(|rate| self.used.take(Rate::per_second(rate), now)) {
            return Err(Hold { reason: HoldReason::Rate, until });
        }
        // It was just looked at.
        let _ = self.breaker.enter(now);
        self.in_flight += 1;
        Ok(())
    }
}

/// The gates of a process.
pub(crate) struct Gates {
    gates: Mutex<HashMap<Recipient, Gate>>,
    /// Limits of endpoints, over all processes.
    leases: Leases,
    options: BreakerOptions,
}

/// A right to ask an endpoint once. Dropped, its place is free again: on every path.
pub(crate) struct Pass {
    gates: Arc<Gates>,
    recipient: Recipient,
    /// Where attempts at a time are limited; wakes the next when it is free.
    lease: Option<Lease>,
    /// Its place was given back.
    left: bool,
}

impl Gates {
    pub(crate) fn new(options: BreakerOptions, leases: Leases) -> Arc<Self> {
        let gates = Arc::new(Self { gates: Mutex::default(), leases, options });
        let woken = Arc::downgrade(&gates);
        gates.leases.on_free(Box::new(move |recipient, count| {
            if let Some(gates) = woken.upgrade() {
                gates.wake(recipient, count);
            }
        }));
        gates
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Goes through the gate of an endpoint. Waits for the store of limits when the endpoint has a limit of attempts at a time and
    /// this process has no free lease, or a limit of attempts a second: 50 ms at most for each.
    ///
    /// # Errors
    /// What the mailbox waits for. `waker` hears when it may ask again.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        tenant: &TenantId,
        endpoint: &Endpoint,
        mailbox: &MailboxKey,
        waker: &Waker,
        now: Timestamp,
    ) -> Result<Pass, Hold> {
        let recipient = Recipient { tenant: tenant.clone(), endpoint: endpoint.id.clone() };
        let asking = (mailbox, waker);
        let mut next = None;
        if endpoint.max_in_flight.is_some() || endpoint.rate_per_second.is_some() {
            // Nothing is taken while the endpoint is down.
            next = Some(self.with_gate(&recipient, |gate| gate.look(asking, now).map(|()| gate.tickets))?);
        }
        let (lease, own) = match endpoint.max_in_flight {
            None => (None, None),
            Some(max) => {
                self.lease(&recipient, max, asking, now).await.map(|(lease, own)| (Some(lease), own))?
            }
        };
        let per_second = match endpoint.rate_per_second {
            None => None,
            Some(rate) => self.admit(&recipient, rate, now).await?,
        };
        if lease.as_ref().is_some_and(|lease| !lease.holds()) {
            // This task was stopped for longer than a lease lasts.
            return Err(Hold { reason: HoldReason::Concurrency, until: now });
        }
        self.with_gate(&recipient, |gate| {
            gate.go(per_second, asking, now)?;
            // Without a limit it waited nowhere on its way. Where its mailbox is listed, another delivery of it found the endpoint
            // down, and is called when that is up.
            if let Some(next) = next {
                gate.went(mailbox, next, own);
            }
            Ok(())
        })?;
        Ok(Pass { gates: self.clone(), recipient, lease, left: false })
    }

    /// Whether an endpoint is up, as [`Gates::enter`] would find it. Takes nothing.
    ///
    /// # Errors
    /// What the mailbox waits for. `waker` hears when it may ask again.
    pub(crate) fn look(
        &self,
        tenant: &TenantId,
        endpoint: &Endpoint,
        mailbox: &MailboxKey,
        waker: &Waker,
        now: Timestamp,
    ) -> Result<(), Hold> {
        let recipient = Recipient { tenant: tenant.clone(), endpoint: endpoint.id.clone() };
        self.with_gate(&recipient, |gate| gate.look((mailbox, waker), now))
    }

    /// The rate that this process counts for itself; `None` when it was counted for all.
    async fn admit(&self, recipient: &Recipient, rate: u32, now: Timestamp) -> Result<Option<u32>, Hold> {
        match self.leases.admit(recipient, rate).await {
            Admission::Go => Ok(None),
            Admission::Share(rate) => Ok(Some(rate)),
            Admission::Wait(wait) => Err(Hold { reason: HoldReason::Rate, until: now.plus(wait) }),
        }
    }

    /// Also gives the ticket that was taken, where the lease came only then.
    async fn lease(
        &self,
        recipient: &Recipient,
        max: u32,
        asking: Asking<'_>,
        now: Timestamp,
    ) -> Result<(Lease, Option<Ticket>), Hold> {
        let refused = match self.leases.take(recipient, max).await {
            Ok(lease) => return Ok((lease, None)),
            Err(refused) => refused,
        };
        let ticket = self.with_gate(recipient, |gate| gate.wait(asking));
        // One that came free before this was listed woke nobody.
        let until = now.plus(refused.ask_again);
        let lease = self.leases.try_take(recipient, max);
        lease.map(|lease| (lease, ticket)).map_err(|_| Hold { reason: HoldReason::Concurrency, until })
    }

    fn with_gate<T>(&self, recipient: &Recipient, change: impl FnOnce(&mut Gate) -> T) -> T {
        let mut gates = self.lock();
        if gates.len() >= ENDPOINTS_MAX && !gates.contains_key(recipient) {
            gates.retain(|_, gate| !gate.is_idle());
        }
        change(gates.entry(recipient.clone()).or_default())
    }

    /// So many that wait for the endpoint may ask again.
    fn wake(&self, recipient: &Recipient, count: usize) {
        if let Some(gate) = self.lock().get_mut(recipient) {
            gate.wake(count);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Recipient, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Takes what the attempt said about its endpoint, whose place is free again then. `random` in `0.0..1.0`.
    pub(crate) fn report(mut self, attempt: &Attempt, now: Timestamp, random: f64) {
        let gates = self.gates.clone();
        let mut gates = gates.lock();
        let Some(gate) = gates.get_mut(&self.recipient) else { return };
        if gate.breaker.report(signal(attempt), self.gates.options, now, random) {
            gate.wake(usize::MAX);
        }
        self.leave(gate);
    }

    /// Its place is free again.
    fn leave(&mut self, gate: &mut Gate) {
        self.left = true;
        gate.in_flight = gate.in_flight.saturating_sub(1);
        if self.lease.is_none() {
            gate.wake(1);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let gates = self.gates.clone();
        if let Some(gate) = gates.lock().get_mut(&self.recipient) {
            self.leave(gate);
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
