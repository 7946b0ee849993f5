//! The leases that this process has of one recipient. Decides; does no I/O.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::fleet::Standing;
use super::port::{Exchange, Exchanged, Token};
use super::{Answer, Terms};
use crate::Error;

/// Leases asked for at once: what is beyond it is asked for next.
const TAKES_MAX: usize = 100;

/// Leases of a recipient that wait to be given back. Beyond it they are left to their expiry.
const GIVES_MAX: usize = 2_000;

/// A lease that this process has.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Since when it goes from one delivery to the next.
    since: Instant,
    /// Until when the store keeps it for us, at least.
    until: Instant,
    /// Whether the store knows of it; begun during an outage it does not.
    is_registered: bool,
}

#[derive(Debug)]
struct Kept {
    token: Token,
    held: Held,
    since: Instant,
}

/// What is found for a delivery that asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// A lease that was kept.
    Kept(Token),
    /// A lease of this process' share, while the store is away.
    OfShare(Token),
    /// None can be had now.
    Refused,
    /// The store has to say.
    Ask,
}

/// What is to happen outside of the lock.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// To these deliveries; a lease among them comes back by itself when its delivery is gone.
    pub(super) answers: Vec<(oneshot::Sender<Answer>, Option<Token>, &'static str)>,
    /// So many that wait may try now.
    pub(super) wake: usize,
    /// There is something for the store.
    pub(super) exchange: bool,
}

/// An exchange that is under way.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) exchange: Exchange,
    began: Instant,
    callers: Vec<oneshot::Sender<Answer>>,
    /// Renewed ones that the store cannot know.
    unregistered: u32,
}

pub(super) struct Pool {
    terms: Terms,
    limit: u32,
    in_use: HashMap<Token, Held>,
    /// Free ones that are kept for the next delivery, the last one first.
    kept: Vec<Kept>,
    /// On their way back, each until it has expired.
    gives: Vec<(Token, Instant)>,
    /// Deliveries that wait for the answer of the store.
    callers: VecDeque<oneshot::Sender<Answer>>,
    /// Deliveries that were held for want of a lease, until this time.
    wanted: u32,
    wanted_until: Instant,
    /// When the store may be asked again for those.
    poll_at: Instant,
    /// All that are held were taken or renewed then or later; `None`: one of them must be renewed now.
    renewed_at: Option<Instant>,
    /// The store did not answer for this recipient; it is asked again then.
    retry_at: Option<Instant>,
    doubt_until: Option<Instant>,
    is_exchanging: bool,
    /// Leases that were left to their expiry.
    pub(super) expiring: u64,
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl Pool {
    pub(super) fn new(terms: Terms, now: Instant) -> Self {
        Self {
            terms,
            limit: 1,
            in_use: HashMap::new(),
            kept: Vec::new(),
            gives: Vec::new(),
            callers: VecDeque::new(),
            wanted: 0,
            wanted_until: now,
            poll_at: now,
            renewed_at: None,
            retry_at: None,
            doubt_until: None,
            is_exchanging: false,
            expiring: 0,
        }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_empty(&self, now: Instant) -> bool {
        let is_wanted = self.wanted > 0 && now < self.wanted_until;
        self.has_nothing() && !is_wanted && self.doubt_until.is_none_or(|until| now >= until)
    }

    /// Whether no lease is in it, or on its way.
    pub(super) fn has_nothing(&self) -> bool {
        let none = self.in_use.is_empty() && self.kept.is_empty() && self.gives.is_empty();
        none && self.callers.is_empty() && !self.is_exchanging
    }

    /// Leases of this process, in use or kept.
    pub(super) fn held(&self) -> u32 {
        number(self.in_use.len() + self.kept.len())
    }

    /// Whether the store does not say, so that the share is all that may be had.
    fn is_cut_off(&self, standing: Standing) -> bool {
        standing.is_away || self.retry_at.is_some()
    }

    /// Most leases that this process may have.
    fn most(&self, now: Instant, standing: Standing) -> u32 {
        let doubted = self.doubt_until.is_some_and(|until| now < until) || standing.is_in_doubt;
        if doubted || self.is_cut_off(standing) { standing.share(self.limit) } else { self.limit }
    }

    /// What a delivery that asks gets without waiting. `fresh` makes a token.
    pub(super) fn offer(
        &mut self,
        limit: u32,
        now: Instant,
        standing: Standing,
        fresh: impl FnOnce() -> Token,
    ) -> Offer {
        self.limit = limit.max(1);
        let most = self.most(now, standing);
        while let Some(Kept { token, held, .. }) = self.kept.pop() {
            if self.held() < most && now < held.until {
                self.in_use.insert(token, held);
                return Offer::Kept(token);
            }
            self.give(token, held.until, now);
        }
        if self.is_cut_off(standing) {
            self.retry_at.get_or_insert(now + self.terms.retry_after);
            if self.held() >= most {
                return Offer::Refused;
            }
            let token = fresh();
            self.in_use.insert(token, Held { since: now, until: now, is_registered: false });
            self.renewed_at = None;
            return Offer::OfShare(token);
        }
        let asked = self.held().saturating_add(number(self.callers.len()));
        if asked >= most || (self.wanted > 0 && now < self.poll_at) { Offer::Refused } else { Offer::Ask }
    }

    /// A delivery waits for the answer of the store; `true`: there is to be an exchange.
    pub(super) fn ask(&mut self, caller: oneshot::Sender<Answer>) -> bool {
        self.callers.push_back(caller);
        !self.is_exchanging
    }

    /// A delivery is held for want of a lease.
    pub(super) fn want(&mut self, now: Instant) {
        self.wanted = if now < self.wanted_until { self.wanted.saturating_add(1) } else { 1 };
        self.wanted = self.wanted.min(self.limit);
        // Longer than it takes to ask again, so that there is no gap while it is still held.
        self.wanted_until = now + 2 * self.terms.ask_again;
    }

    /// Whether a request may begin with a lease. One that the store has not heard of is of the share.
    pub(super) fn holds(&self, token: Token, now: Instant) -> bool {
        self.in_use.get(&token).is_some_and(|held| !held.is_registered || now < held.until)
    }

    /// A delivery is over, and with it the use of its lease.
    pub(super) fn put(&mut self, token: Token, now: Instant, standing: Standing) -> Effects {
        let Some(held) = self.in_use.remove(&token) else { return Effects::default() };
        let fresh = standing.is_alone() || now < held.since + self.terms.reuse_for;
        if held.is_registered && now < held.until && fresh && self.held() < self.most(now, standing) {
            self.kept.push(Kept { token, held, since: now });
            return Effects { wake: 1, ..Effects::default() };
        }
        // One that the store has not heard of needs not be given back.
        if held.is_registered || self.is_exchanging {
            self.give(token, held.until.max(now), now);
        }
        if self.is_cut_off(standing) || self.wanted == 0 {
            return Effects { wake: 1, exchange: self.may_exchange(now), ..Effects::default() };
        }
        // Given back and asked for in one step: whoever waits elsewhere comes first.
        self.poll_at = now;
        Effects { exchange: self.may_exchange(now), ..Effects::default() }
    }

    fn give(&mut self, token: Token, until: Instant, now: Instant) {
        if self.gives.len() >= GIVES_MAX {
            self.expiring += 1;
        } else {
            self.gives.push((token, until.max(now + self.terms.term)));
        }
    }

    fn may_exchange(&self, now: Instant) -> bool {
        !self.is_exchanging && self.retry_at.is_none_or(|at| now >= at)
    }

    /// What the store is to be asked now, if anything. Until [`Pool::done`] there is no other.
    pub(super) fn plan(
        &mut self,
        process: u64,
        now: Instant,
        standing: Standing,
        mut fresh: impl FnMut() -> Token,
    ) -> Option<Plan> {
        if !self.may_exchange(now) {
            return None;
        }
        self.stop_keeping(now, standing);
        let before = self.gives.len();
        self.gives.retain(|(_, until)| *until > now);
        self.expiring += u64::from(number(before - self.gives.len()));
        let is_wanted = self.wanted > 0 && now < self.wanted_until && now >= self.poll_at;
        let asked = self.callers.len() + if is_wanted { size(self.wanted) } else { 0 };
        // For deliveries that wait for the answer the most is what it is when the store answers.
        let most = self.most(now, standing);
        let room = size(most.saturating_sub(self.held()));
        let renews_at = self.renewed_at.map(|at| at + self.terms.renew_every);
        let renews = self.held() > 0 && renews_at.is_none_or(|at| now >= at);
        let takes = asked.min(room).min(TAKES_MAX);
        if self.gives.is_empty() && !renews && takes == 0 && self.callers.is_empty() {
            return None;
        }
        let all = self.in_use.keys().chain(self.kept.iter().map(|kept| &kept.token));
        let renew: Vec<Token> = if renews { all.copied().collect() } else { Vec::new() };
        let unregistered = self.in_use.values().filter(|held| renews && !held.is_registered).count();
        let give = self.gives.drain(..).map(|(token, _)| token).collect();
        let take = (0..takes).map(|_| fresh()).collect();
        let exchange = Exchange {
            limit: self.limit,
            share: standing.share(self.limit),
            term: self.terms.term,
            queue_for: self.terms.queue_for,
            process,
            held: self.held(),
            give,
            renew,
            take,
        };
        self.is_exchanging = true;
        let callers = self.callers.drain(..).collect();
        Some(Plan { exchange, began: now, callers, unregistered: number(unregistered) })
    }

    /// Free ones that nobody came for go back.
    fn stop_keeping(&mut self, now: Instant, standing: Standing) {
        let keep = if standing.is_alone() { self.terms.keep_alone_for } else { self.terms.keep_for };
        for Kept { token, held, since } in std::mem::take(&mut self.kept) {
            if now < since + keep && now < held.until {
                self.kept.push(Kept { token, held, since });
            } else {
                self.give(token, held.until, now);
            }
        }
    }

    /// Gives up what is kept and what is wanted: the process ends.
    pub(super) fn close(&mut self, now: Instant) {
        for Kept { token, held, .. } in std::mem::take(&mut self.kept) {
            self.give(token, held.until, now);
        }
        self.wanted = 0;
    }

    /// Takes in what came of an exchange. Also answers how many leases the store had lost.
    pub(super) fn done(
        &mut self,
        plan: Plan,
        result: &Result<Exchanged, Error>,
        now: Instant,
        standing: Standing,
        fresh: impl FnMut() -> Token,
    ) -> (Effects, u32) {
        self.is_exchanging = false;
        match result {
            Ok(exchanged) => self.answered(plan, *exchanged, now),
            Err(_) => (self.failed(plan, now, standing, fresh), 0),
        }
    }

    fn answered(&mut self, plan: Plan, exchanged: Exchanged, now: Instant) -> (Effects, u32) {
        let Plan { exchange, began, callers, unregistered } = plan;
        let until = began + self.terms.term;
        self.retry_at = None;
        let lost = exchanged.unknown.saturating_sub(unregistered);
        if lost > 0 || exchanged.young {
            self.doubt_until = Some(now + self.terms.term);
        }
        self.renewed(&exchange.renew, until);
        let is_new = self.held() == 0;
        if !exchange.renew.is_empty() || is_new {
            let all = self.in_use.values().all(|held| held.is_registered);
            self.renewed_at = all.then_some(began);
        }
        let mut effects = Effects::default();
        let granted = size(exchanged.granted).min(exchange.take.len());
        let mut callers = callers.into_iter();
        let held = Held { since: now, until, is_registered: true };
        for token in &exchange.take[..granted] {
            if let Some(caller) = callers.next() {
                self.in_use.insert(*token, held);
                effects.answers.push((caller, Some(*token), "granted"));
            } else {
                self.kept.push(Kept { token: *token, held, since: now });
                self.wanted = self.wanted.saturating_sub(1);
                effects.wake += 1;
            }
        }
        if granted < exchange.take.len() {
            self.poll_at = now + self.terms.poll_every;
        }
        for caller in callers {
            effects.answers.push((caller, None, "refused"));
        }
        effects.exchange = !self.callers.is_empty() || !self.gives.is_empty();
        (effects, lost)
    }

    fn renewed(&mut self, tokens: &[Token], until: Instant) {
        for token in tokens {
            let kept = self.kept.iter_mut().find(|kept| kept.token == *token).map(|kept| &mut kept.held);
            if let Some(held) = self.in_use.get_mut(token).or(kept) {
                held.until = until;
                held.is_registered = true;
            }
        }
    }

    /// The store may have done all of it, some of it or nothing. What was wanted is given back, and who waits gets of the
    /// share.
    fn failed(
        &mut self,
        plan: Plan,
        now: Instant,
        standing: Standing,
        mut fresh: impl FnMut() -> Token,
    ) -> Effects {
        let Plan { exchange, callers, .. } = plan;
        self.retry_at = Some(now + self.terms.retry_after);
        self.renewed_at = None;
        for token in exchange.give.into_iter().chain(exchange.take) {
            self.give(token, now, now);
        }
        let mut effects = Effects::default();
        for caller in callers.into_iter().chain(std::mem::take(&mut self.callers)) {
            let (token, how) = match self.offer(self.limit, now, standing, &mut fresh) {
                Offer::Kept(token) => (Some(token), "kept"),
                Offer::OfShare(token) => (Some(token), "share"),
                Offer::Refused | Offer::Ask => (None, "refused"),
            };
            effects.answers.push((caller, token, how));
        }
        let free = self.most(now, standing).saturating_sub(self.held());
        effects.wake = size(free.min(self.wanted));
        effects
    }
}
