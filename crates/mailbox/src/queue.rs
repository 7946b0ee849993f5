//! What the window holds of one mailbox, oldest first, and which of it is next.
//!
//! Deliveries of one ordering key go one at a time. So of those that wait only the oldest of each key is looked at: as many are
//! passed over as attempts run, however many wait behind them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::entry::Source;
use crate::flying::OrderKey;

/// Deliveries of a mailbox that are in the window and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// All of them, oldest first, with what they are about.
    all: VecDeque<(Source, Option<OrderKey>)>,
    /// Those that wait for their turn, as far as one may be the next: what has no key, and of each key the oldest.
    heads: BTreeSet<Source>,
    /// Those that wait, by key.
    keys: BTreeMap<OrderKey, BTreeSet<Source>>,
}

impl Queue {
    /// One more comes, younger than all others. `key`: what it is about.
    pub(crate) fn push(&mut self, source: Source, key: Option<OrderKey>) {
        debug_assert!(self.all.back().is_none_or(|(last, _)| *last < source), "{source} is not the youngest");
        self.all.push_back((source, key));
        self.wait(source, key);
    }

    /// The oldest that waits and that `may_go`. Asks of one delivery of each key.
    pub(crate) fn next(&self, may_go: impl FnMut(&Source) -> bool) -> Option<Source> {
        self.heads.iter().copied().find(may_go)
    }

    /// Its attempt starts.
    pub(crate) fn start(&mut self, source: Source) {
        if let Some(at) = self.place(source) {
            self.go(source, self.all[at].1);
        }
    }

    /// Its attempt came to nothing: it waits for its turn again.
    pub(crate) fn wait_again(&mut self, source: Source) {
        if let Some(at) = self.place(source) {
            self.wait(source, self.all[at].1);
        }
    }

    /// It ended, or stands aside.
    pub(crate) fn leave(&mut self, source: Source) {
        let Some(at) = self.place(source) else { return };
        if let Some((_, key)) = self.all.remove(at) {
            self.go(source, key);
        }
    }

    /// Takes all of them out, oldest first.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Source> + use<> {
        std::mem::take(self).all.into_iter().map(|(source, _)| source)
    }

    /// The oldest.
    pub(crate) fn front(&self) -> Option<Source> {
        self.all.front().map(|(source, _)| *source)
    }

    /// Whether some wait for their turn.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.heads.is_empty()
    }

    /// Whether some wait that are about this.
    pub(crate) fn has_waiting_of(&self, key: OrderKey) -> bool {
        self.keys.contains_key(&key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    fn wait(&mut self, source: Source, key: Option<OrderKey>) {
        if let Some(key) = key {
            let line = self.keys.entry(key).or_default();
            let oldest = line.first().copied();
            line.insert(source);
            match oldest {
                Some(oldest) if oldest < source => return,
                Some(oldest) => drop(self.heads.remove(&oldest)),
                None => {}
            }
        }
        self.heads.insert(source);
    }

    /// It does not wait any more; the next of its key may be looked at.
    fn go(&mut self, source: Source, key: Option<OrderKey>) {
        self.heads.remove(&source);
        let Some(key) = key else { return };
        let Some(line) = self.keys.get_mut(&key) else { return };
        line.remove(&source);
        match line.first() {
            Some(oldest) => drop(self.heads.insert(*oldest)),
            None => drop(self.keys.remove(&key)),
        }
    }

    /// Where it stands. Mostly it is the oldest.
    fn place(&self, source: Source) -> Option<usize> {
        match self.all.front() {
            Some((first, _)) if *first == source => Some(0),
            _ => self.all.binary_search_by_key(&source, |(source, _)| *source).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// Works a queue off with so many attempts at a time, none of a key beside another. Gives the order of the starts, and how
    /// many deliveries were looked at for it.
    fn work_off(keys: &[Option<OrderKey>], threads: usize) -> (Vec<Source>, usize) {
        let mut queue = Queue::default();
        for (source, key) in (0..).zip(keys) {
            queue.push(source, *key);
        }
        let (looked, mut order, mut running) = (Cell::new(0), Vec::new(), VecDeque::<Source>::new());
        let key_of = |source: Source| keys[usize::try_from(source).expect("small")];
        loop {
            let flies = |source: &Source| {
                looked.set(looked.get() + 1);
                let key = key_of(*source);
                key.is_none() || running.iter().all(|running| key_of(*running) != key)
            };
            let next = if running.len() < threads { queue.next(flies) } else { None };
            if let Some(source) = next {
                queue.start(source);
                running.push_back(source);
                order.push(source);
            } else if let Some(ended) = running.pop_front() {
                queue.leave(ended);
            } else {
                assert!(queue.is_empty() && !queue.has_waiting() && queue.keys.is_empty());
                return (order, looked.get());
            }
        }
    }

    /// L5: the work for a delivery does not grow with how many of its key wait.
    #[test]
    fn a_hot_key_costs_as_many_looks_as_it_has_deliveries() {
        for (count, others) in [(2000, 0), (2000, 3), (8000, 3)] {
            let keys: Vec<_> = (0..count).map(|n| Some(if n < others { n } else { 99 })).collect();
            let (order, looked) = work_off(&keys, 8);
            assert!(order.is_sorted(), "one at a time, oldest first");
            let most = 3 * keys.len();
            assert!(looked <= most, "{looked} looks for {count} deliveries");
        }
        let hot_and_free: Vec<_> = (0..2000).map(|n| (n % 2 == 0).then_some(7)).collect();
        let (order, looked) = work_off(&hot_and_free, 8);
        assert_eq!(order.len(), 2000);
        assert!(looked <= 3 * 2000, "{looked}");
    }

    proptest! {
        /// As a search through all of them would find it.
        #[test]
        fn the_oldest_that_may_go_is_next(
            keys in proptest::collection::vec(proptest::option::of(0u64..4), 1..40),
            steps in proptest::collection::vec((0u8..4, 0usize..40), 0..120),
            free in proptest::collection::vec(any::<bool>(), 4),
        ) {
            let (mut queue, mut plain) = (Queue::default(), BTreeMap::<Source, bool>::new());
            for (source, key) in (0..).zip(&keys) {
                queue.push(source, *key);
                plain.insert(source, true);
            }
            let key_of = |source: Source| keys[usize::try_from(source).expect("small")];
            let may_go = |source: &Source| key_of(*source).is_none_or(|key| free[usize::try_from(key).expect("small")]);
            for (step, at) in steps {
                let source = (at % keys.len()) as u64;
                let known = plain.get(&source).copied();
                match (step, known) {
                    (0, Some(true)) => { queue.start(source); plain.insert(source, false); }
                    (1, Some(false)) => { queue.wait_again(source); plain.insert(source, true); }
                    (2, _) => { queue.leave(source); plain.remove(&source); }
                    _ => {}
                }
                let waiting = || plain.iter().filter(|(_, waits)| **waits).map(|(source, _)| *source);
                prop_assert_eq!(queue.next(may_go), waiting().find(|source| may_go(source)));
                prop_assert_eq!(queue.has_waiting(), waiting().next().is_some());
                for key in 0..4 {
                    prop_assert_eq!(queue.has_waiting_of(key), waiting().any(|source| key_of(source) == Some(key)));
                }
                prop_assert_eq!((queue.len(), queue.front()), (plain.len(), plain.keys().next().copied()));
            }
            prop_assert_eq!(queue.take().collect::<Vec<_>>(), plain.into_keys().collect::<Vec<_>>());
            prop_assert!(queue.is_empty() && !queue.has_waiting());
        }
    }
}
