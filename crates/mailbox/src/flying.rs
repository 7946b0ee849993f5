//! Attempts that run, mailbox by mailbox: how many, and about what. Here is what lets another one of a mailbox start beside
//! them (I12, I12b).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mailrail_types::{MailboxKey, Timestamp};

use crate::entry::Source;

/// What a delivery is about: a hash of its ordering key. Two that share one are never attempted at a time by one owner; two
/// keys that share a hash merely wait for each other.
pub type OrderKey = u64;

/// Attempts of one mailbox.
#[derive(Debug, Default)]
struct OfMailbox {
    /// When each of them started, by its delivery, and what it is about.
    running: BTreeMap<Source, (Timestamp, Option<OrderKey>)>,
    /// How many of them are about a key, and since when the last. More than one only without the rule.
    keys: BTreeMap<OrderKey, (usize, Timestamp)>,
    /// Deliveries aside whose time has come, and that wait for one of the attempts to end.
    waiting: VecDeque<Source>,
    /// The last one that started was of a delivery aside.
    aside_last: bool,
}

/// All attempts that run. As large as they are many.
#[derive(Debug, Default)]
pub(crate) struct Flying(BTreeMap<MailboxKey, OfMailbox>);

impl Flying {
    /// An attempt starts; `aside`: of a delivery beside its mailbox.
    pub(crate) fn start(
        &mut self,
        mailbox: &MailboxKey,
        source: Source,
        key: Option<OrderKey>,
        aside: bool,
        now: Timestamp,
    ) {
        let of = self.0.entry(mailbox.clone()).or_default();
        of.running.insert(source, (now, key));
        of.aside_last = aside;
        if let Some(key) = key {
            let running = of.keys.entry(key).or_insert((0, now));
            *running = (running.0 + 1, now);
        }
    }

    /// An attempt is over. Gives the delivery aside that waited for that, and all of them when nothing runs any more; and
    /// whether they go before what their mailbox has: they take turns.
    pub(crate) fn end(&mut self, mailbox: &MailboxKey, source: Source) -> (Vec<Source>, bool) {
        let Some(of) = self.0.get_mut(mailbox) else { return (Vec::new(), false) };
        if let Some((_, Some(key))) = of.running.remove(&source)
            && let Some((count, _)) = of.keys.get_mut(&key)
        {
            *count -= 1;
            if *count == 0 {
                of.keys.remove(&key);
            }
        }
        let first = !of.aside_last;
        if of.running.is_empty() {
            let all = self.0.remove(mailbox).unwrap_or_default().waiting;
            return (all.into(), first);
        }
        (of.waiting.pop_front().into_iter().collect(), first)
    }

    /// A delivery aside waits until an attempt of its mailbox is over.
    pub(crate) fn wait(&mut self, mailbox: &MailboxKey, source: Source) {
        let waiting = &mut self.0.entry(mailbox.clone()).or_default().waiting;
        if !waiting.contains(&source) {
            waiting.push_back(source);
        }
    }

    /// How many run.
    pub(crate) fn count(&self, mailbox: &MailboxKey) -> usize {
        self.0.get(mailbox).map_or(0, |of| of.running.len())
    }

    /// Whether one about this runs (I12b).
    pub(crate) fn has(&self, mailbox: &MailboxKey, key: Option<OrderKey>) -> bool {
        key.is_some_and(|key| self.0.get(mailbox).is_some_and(|of| of.keys.contains_key(&key)))
    }

    /// Whether every one has run for so long.
    pub(crate) fn all_for(&self, mailbox: &MailboxKey, long: Duration, now: Timestamp) -> bool {
        let of = self.0.get(mailbox).filter(|of| !of.running.is_empty());
        of.is_some_and(|of| of.running.values().all(|(started, _)| now.since(*started) >= long))
    }

    /// What those are about that have run for so long.
    pub(crate) fn keys_for(
        &self,
        mailbox: &MailboxKey,
        long: Duration,
        now: Timestamp,
    ) -> impl Iterator<Item = OrderKey> {
        let keys = self.0.get(mailbox).map(|of| &of.keys);
        let long = keys.into_iter().flatten().filter(move |(_, (_, started))| now.since(*started) >= long);
        long.map(|(key, _)| *key)
    }

    /// Deliveries aside that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.0.values().map(|of| of.waiting.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i12b_a_key_is_taken_until_its_attempt_is_over_and_those_aside_take_turns() {
        let (m, n) = (MailboxKey::from_text("m"), MailboxKey::from_text("n"));
        let mut flying = Flying::default();
        flying.start(&m, 0, Some(7), false, Timestamp(10));
        flying.start(&m, 1, None, false, Timestamp(20));
        assert!(flying.has(&m, Some(7)) && !flying.has(&m, Some(8)) && !flying.has(&n, Some(7)));
        assert!(!flying.has(&m, None), "what has no key is in nobody's way");
        let (long, at) = (Duration::from_millis(15), Timestamp(30));
        let keys = |at| flying.keys_for(&m, long, at).collect::<Vec<_>>();
        assert_eq!((keys(Timestamp(20)), keys(at)), (vec![], vec![7]));
        assert!(!flying.all_for(&m, long, at));
        assert!(flying.all_for(&m, long, Timestamp(35)));
        flying.wait(&m, 5);
        flying.wait(&m, 5);
        assert_eq!((flying.count(&m), flying.waiting()), (2, 1));
        assert_eq!(flying.end(&m, 0), (vec![5], true), "the one before was of the mailbox");
        flying.start(&m, 5, Some(7), true, Timestamp(30));
        for source in 6..9 {
            flying.wait(&m, source);
        }
        assert_eq!(flying.end(&m, 1), (vec![6], false), "the one before was one aside");
        assert_eq!(flying.end(&m, 5).0, [7, 8], "nothing runs that they could wait for");
        assert_eq!((flying.count(&m), flying.has(&m, Some(7))), (0, false));
        assert!(flying.0.is_empty());
    }
}
