//! The counters that are known, in stripes so that callers seldom wait for each other, each with a bound.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::{DefaultHashBuilder, LruCache};
use mailrail_policy::SizingOptions;
use mailrail_types::Timestamp;

use super::tracked::{Look, Tracked};
use crate::Counter;

/// Locks. More than there are cores in the machines that run a door.
const STRIPES: usize = 32;

pub(super) struct Table {
    stripes: Vec<Mutex<Stripe>>,
    hasher: DefaultHashBuilder,
    stripe_max: usize,
}

struct Stripe {
    counters: LruCache<Counter, Tracked>,
    /// Those with something to write, each once, the longest waiting first. Never more than `counters`, but for names
    /// that were evicted since; the next flush takes those out.
    listed: VecDeque<Counter>,
}

impl Table {
    pub(super) fn new(counters_max: usize) -> Self {
        let stripe = || Mutex::new(Stripe { counters: LruCache::new_unbounded(), listed: VecDeque::new() });
        Self {
            stripes: std::iter::repeat_with(stripe).take(STRIPES).collect(),
            hasher: DefaultHashBuilder::default(),
            stripe_max: counters_max.div_ceil(STRIPES).max(1),
        }
    }

    fn stripe(&self, counter: &Counter) -> MutexGuard<'_, Stripe> {
        let stripes = u64::try_from(self.stripes.len()).unwrap_or(1);
        let at = usize::try_from(self.hasher.hash_one(counter) % stripes).unwrap_or(0);
        // A panic in here leaves numbers, not promises: a poisoned stripe goes on.
        self.stripes[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one payload; answers how many counts were dropped.
    pub(super) fn count(&self, counter: &Counter, now: Timestamp) -> u64 {
        let mut stripe = self.stripe(counter);
        let evicted = stripe.make_room(counter, self.stripe_max);
        let tracked = stripe.counters.entry(counter.clone()).or_insert_with(Tracked::default);
        let dropped = tracked.count(now);
        let list = !std::mem::replace(&mut tracked.listed, true);
        if list {
            stripe.list(counter.clone(), self.stripe_max);
        }
        evicted + dropped
    }

    /// What is known of a counter, which is known from now on; also answers how many counts were dropped.
    pub(super) fn look(&self, counter: &Counter, now: Timestamp, options: &SizingOptions) -> (Look, u64) {
        let mut stripe = self.stripe(counter);
        let evicted = stripe.make_room(counter, self.stripe_max);
        let tracked = stripe.counters.entry(counter.clone()).or_insert_with(Tracked::default);
        let look = tracked.look(now, options);
        if tracked.is_dirty(now) && !std::mem::replace(&mut tracked.listed, true) {
            stripe.list(counter.clone(), self.stripe_max);
        }
        (look, evicted)
    }

    /// Changes a counter if it is known.
    pub(super) fn change<T>(&self, counter: &Counter, change: impl FnOnce(&mut Tracked) -> T) -> Option<T> {
        self.stripe(counter).counters.peek_mut(counter).map(change)
    }

    /// Empties the lists of counters with something to write.
    pub(super) fn take_listed(&self) -> Vec<Counter> {
        let mut all = Vec::new();
        for stripe in &self.stripes {
            let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            let listed = std::mem::take(&mut stripe.listed);
            for counter in listed {
                if let Some(tracked) = stripe.counters.peek_mut(&counter)
                    && std::mem::take(&mut tracked.listed)
                {
                    all.push(counter);
                }
            }
        }
        all
    }

    /// Puts a counter at the end of its list, if it has something to write.
    pub(super) fn list_again(&self, counter: &Counter, now: Timestamp) {
        let mut stripe = self.stripe(counter);
        let Some(tracked) = stripe.counters.peek_mut(counter) else { return };
        if tracked.is_dirty(now) && !std::mem::replace(&mut tracked.listed, true) {
            stripe.list(counter.clone(), self.stripe_max);
        }
    }

    /// Takes out what was not written and will not be; answers how many counts.
    pub(super) fn take_pending(&self) -> u64 {
        let of_stripe = |stripe: &Mutex<Stripe>| {
            let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            stripe.counters.iter_mut().map(|(_, tracked)| tracked.take_pending()).sum::<u64>()
        };
        self.stripes.iter().map(of_stripe).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.stripes.iter().map(|it| it.lock().unwrap_or_else(PoisonError::into_inner).counters.len()).sum()
    }
}

impl Stripe {
    /// Evicts what was not used for longest if `counter` would be one too many; answers how many counts go with it.
    fn make_room(&mut self, counter: &Counter, max: usize) -> u64 {
        if self.counters.len() < max || self.counters.contains_key(counter) {
            return 0;
        }
        self.counters.remove_lru().map_or(0, |(_, tracked)| tracked.pending())
    }

    fn list(&mut self, counter: Counter, max: usize) {
        // Names of evicted counters make up the rest once it is longer than all counters together.
        if self.listed.len() >= max.saturating_mul(2) {
            let Self { counters, listed } = self;
            listed.retain(|it| counters.contains_key(it));
        }
        self.listed.push_back(counter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(number: usize) -> Counter {
        Counter::new("n", &[&number.to_string()])
    }

    /// S24: any number of names takes bounded room in the process.
    #[test]
    fn s24_any_number_of_names_takes_bounded_room() {
        let table = Table::new(64);
        let mut dropped = 0;
        for number in 0..10_000 {
            dropped += table.count(&counter(number), Timestamp::ZERO);
        }
        let kept = table.len();
        assert!(kept <= 64 + STRIPES, "{kept}");
        let listed: usize = table.stripes.iter().map(|it| it.lock().expect("lock").listed.len()).sum();
        assert!(listed <= 4 * 64, "{listed}");
        let kept = u64::try_from(kept).expect("small");
        assert_eq!(dropped + kept, 10_000, "every count is kept or counted as dropped");
        assert_eq!(table.take_listed().len(), table.len(), "evicted names are not flushed");
        assert!(table.take_listed().is_empty());
    }

    #[test]
    fn a_counter_is_listed_once_until_it_is_taken() {
        let table = Table::new(64);
        for _ in 0..3 {
            table.count(&counter(1), Timestamp::ZERO);
        }
        assert_eq!(table.take_listed(), [counter(1)]);
        table.list_again(&counter(1), Timestamp::ZERO);
        table.list_again(&counter(1), Timestamp::ZERO);
        assert_eq!(table.take_listed(), [counter(1)]);
        table.list_again(&counter(2), Timestamp::ZERO);
        assert!(table.take_listed().is_empty(), "an unknown one has nothing to write");
    }
}
