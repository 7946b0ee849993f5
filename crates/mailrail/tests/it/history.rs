//! Whether a whole history is right: what was owed, what a receiver saw, what the log says became of it.
//!
//! Each test of the delivery protocol ends in [`History::check`], whatever was done to the processes meanwhile. The checker
//! is pure, and is checked itself: each planted fault is found, as what it is.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mailrail_types::DeliveryId;

/// A delivery that the log acknowledged: from there on it is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) id: DeliveryId,
    pub(crate) endpoint: String,
    pub(crate) key: String,
    /// Its place among those of its endpoint and key.
    pub(crate) sequence: u64,
    /// Whether its endpoint was promised that order.
    pub(crate) strict: bool,
}

/// A request as the receiver saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    /// Good signature and a 2xx.
    pub(crate) accepted: bool,
    pub(crate) verified: bool,
}

/// How a delivery ended, as the attempts and the dead letters say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Delivered,
    Dead,
    Cancelled,
}

/// Everything that was recorded of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) owed: Vec<Owed>,
    /// In order of arrival, over all endpoints.
    pub(crate) seen: Vec<Seen>,
    pub(crate) ends: HashMap<DeliveryId, BTreeSet<End>>,
    /// Offsets that the group had committed, as they were looked at, by partition.
    pub(crate) commits: BTreeMap<u32, Vec<u64>>,
}

/// How many requests beyond the first a receiver may take, by what brings them about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget(Vec<(&'static str, u64)>);

impl Budget {
    /// Nothing happened that may repeat a request.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// `count` times something happened after which at most `each` requests are repeated.
    pub(crate) fn and(mut self, cause: &'static str, count: u64, each: u64) -> Self {
        self.0.push((cause, count * each));
        self
    }

    fn most(&self) -> u64 {
        self.0.iter().map(|(_, most)| most).sum()
    }
}

/// What is wrong with a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Neither received nor ended.
    Lost(DeliveryId),
    /// Received, and the log does not say so.
    Unrecorded(DeliveryId),
    /// The log says that it was delivered, and nobody got it.
    NotReceived(DeliveryId),
    /// Two stories about one delivery.
    TwoEnds(DeliveryId),
    /// It came, or was taken, for the first time after a later one of its endpoint and key.
    OutOfOrder { endpoint: String, key: String, sequence: u64, after: u64 },
    /// Nobody owed it.
    Phantom(String),
    /// Requests that the receiver could not verify.
    BadSignatures(u64),
    /// More repeated requests than what happened explains.
    Duplicates { seen: u64, most: u64 },
    /// A committed offset went back.
    CommitWentBack { partition: u32, from: u64, to: u64 },
}

/// What a history comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) owed: u64,
    pub(crate) received: u64,
    pub(crate) duplicates: u64,
    /// The same, by endpoint.
    pub(crate) duplicates_of: BTreeMap<String, u64>,
    pub(crate) faults: Vec<Fault>,
}

/// Highest place of a key that came, and that was taken.
#[derive(Default)]
struct Heads {
    arrived: Option<u64>,
    accepted: Option<u64>,
}

impl History {
    /// Every rule, on the whole history.
    pub(crate) fn check(&self, budget: &Budget) -> Verdict {
        let mut verdict = Verdict { owed: self.owed.len() as u64, ..Verdict::default() };
        let accepted = self.check_receipts(&mut verdict);
        verdict.received = accepted.len() as u64;
        self.check_ends(&accepted, &mut verdict.faults);
        self.check_commits(&mut verdict.faults);
        if verdict.duplicates > budget.most() {
            verdict.faults.push(Fault::Duplicates { seen: verdict.duplicates, most: budget.most() });
        }
        verdict
    }

    /// Order, phantoms, signatures and duplicates. Gives the deliveries that were taken.
    fn check_receipts(&self, verdict: &mut Verdict) -> HashSet<DeliveryId> {
        let owed: HashMap<DeliveryId, &Owed> = self.owed.iter().map(|owed| (owed.id, owed)).collect();
        let mut heads: HashMap<(&str, &str), Heads> = HashMap::new();
        let (mut arrived, mut accepted) = (HashSet::new(), HashSet::new());
        let bad = self.seen.iter().filter(|seen| !seen.verified).count() as u64;
        if bad > 0 {
            verdict.faults.push(Fault::BadSignatures(bad));
        }
        for seen in self.seen.iter().filter(|seen| seen.verified) {
            let id = seen.id.parse::<DeliveryId>().ok();
            let Some(owed) = id.and_then(|id| owed.get(&id)) else {
                verdict.faults.push(Fault::Phantom(seen.id.clone()));
                continue;
            };
            let first = arrived.insert(owed.id);
            let taken = seen.accepted && accepted.insert(owed.id);
            if seen.accepted && !taken {
                verdict.duplicates += 1;
                *verdict.duplicates_of.entry(owed.endpoint.clone()).or_default() += 1;
            }
            if owed.strict {
                let heads = heads.entry((&owed.endpoint, &owed.key)).or_default();
                let late = [(first, &mut heads.arrived), (taken, &mut heads.accepted)];
                let late = late.into_iter().filter(|(news, _)| *news);
                let late = late.fold(None, |found, (_, head)| passes(head, owed.sequence).or(found));
                verdict.faults.extend(late.map(|after| out_of_order(owed, after)));
            }
        }
        accepted
    }

    fn check_ends(&self, accepted: &HashSet<DeliveryId>, faults: &mut Vec<Fault>) {
        for Owed { id, .. } in &self.owed {
            match (accepted.contains(id), self.ends.get(id)) {
                (false, None) => faults.push(Fault::Lost(*id)),
                (true, None) => faults.push(Fault::Unrecorded(*id)),
                (_, Some(ends)) if ends.len() > 1 => faults.push(Fault::TwoEnds(*id)),
                (false, Some(ends)) if ends.contains(&End::Delivered) => {
                    faults.push(Fault::NotReceived(*id));
                }
                (_, Some(_)) => {}
            }
        }
    }

    fn check_commits(&self, faults: &mut Vec<Fault>) {
        for (partition, offsets) in &self.commits {
            let back = offsets.windows(2).filter(|pair| pair[1] < pair[0]);
            faults.extend(back.map(|pair| Fault::CommitWentBack {
                partition: *partition,
                from: pair[0],
                to: pair[1],
            }));
        }
    }
}

fn out_of_order(owed: &Owed, after: u64) -> Fault {
    let (endpoint, key, sequence) = (owed.endpoint.clone(), owed.key.clone(), owed.sequence);
    Fault::OutOfOrder { endpoint, key, sequence, after }
}

/// The later one that was there before, if one was.
fn passes(head: &mut Option<u64>, sequence: u64) -> Option<u64> {
    let before = head.filter(|head| *head > sequence);
    *head = Some(head.map_or(sequence, |head| head.max(sequence)));
    before
}

#[cfg(test)]
mod tests {
    use mailrail_types::{EventId, SubscriptionId, TenantId};

    use super::*;

    fn id(key: &str, sequence: u64) -> DeliveryId {
        let tenant = TenantId::new("acme").expect("valid");
        let event = EventId::derive(&tenant, "/it", &format!("{key}-{sequence}"));
        DeliveryId::derive(&event, &tenant, &SubscriptionId::new("all").expect("valid"))
    }

    /// Two keys of a strict endpoint, ten deliveries each, all received once, in turn, and recorded.
    fn good() -> History {
        let mut history = History::default();
        for sequence in 0..10 {
            for key in ["a", "b"] {
                let id = id(key, sequence);
                let (endpoint, key) = ("shop".to_owned(), key.to_owned());
                history.owed.push(Owed { id, endpoint, key, sequence, strict: true });
                history.seen.push(Seen { id: id.to_string(), accepted: true, verified: true });
                history.ends.insert(id, BTreeSet::from([End::Delivered]));
            }
        }
        history.commits.insert(0, vec![0, 0, 7, 20]);
        history
    }

    fn faults(history: &History, budget: &Budget) -> Vec<Fault> {
        history.check(budget).faults
    }

    fn at(history: &History, id: DeliveryId) -> usize {
        history.seen.iter().position(|seen| seen.id == id.to_string()).expect("seen")
    }

    #[test]
    fn a_true_history_is_right() {
        let verdict = good().check(&Budget::none());
        assert_eq!(verdict, Verdict { owed: 20, received: 20, ..Verdict::default() });
    }

    #[test]
    fn one_that_was_lost_is_found() {
        let mut history = good();
        history.seen.remove(at(&history, id("a", 4)));
        assert_eq!(faults(&history, &Budget::none()), [Fault::NotReceived(id("a", 4))]);
        history.ends.remove(&id("a", 4));
        assert_eq!(faults(&history, &Budget::none()), [Fault::Lost(id("a", 4))]);
        history.ends.insert(id("a", 4), BTreeSet::from([End::Dead]));
        assert_eq!(faults(&history, &Budget::none()), [], "a dead letter is an end");
        history.ends.insert(id("a", 4), BTreeSet::from([End::Dead, End::Cancelled]));
        assert_eq!(faults(&history, &Budget::none()), [Fault::TwoEnds(id("a", 4))]);
    }

    #[test]
    fn one_that_is_not_recorded_is_found() {
        let mut history = good();
        history.ends.remove(&id("b", 9));
        assert_eq!(faults(&history, &Budget::none()), [Fault::Unrecorded(id("b", 9))]);
    }

    #[test]
    fn two_that_were_swapped_are_found() {
        let mut history = good();
        let (one, other) = (at(&history, id("b", 3)), at(&history, id("b", 4)));
        history.seen.swap(one, other);
        let late =
            Fault::OutOfOrder { endpoint: "shop".to_owned(), key: "b".to_owned(), sequence: 3, after: 4 };
        assert_eq!(faults(&history, &Budget::none()), [late]);
        history.owed.iter_mut().for_each(|owed| owed.strict = false);
        assert_eq!(faults(&history, &Budget::none()), [], "a tolerant endpoint was promised no order");
    }

    #[test]
    fn one_that_is_taken_after_its_successor_is_found_though_it_came_before_it() {
        let mut history = good();
        let first = at(&history, id("a", 0));
        let again = history.seen[first].clone();
        history.seen[first].accepted = false;
        history.seen.push(again);
        let late =
            Fault::OutOfOrder { endpoint: "shop".to_owned(), key: "a".to_owned(), sequence: 0, after: 9 };
        assert_eq!(faults(&history, &Budget::none()), [late]);
    }

    #[test]
    fn a_repetition_breaks_no_order_and_too_many_are_found() {
        let mut history = good();
        for sequence in 0..3 {
            history.seen.push(history.seen[at(&history, id("a", sequence))].clone());
        }
        let budget = |each| Budget::none().and("a kill", 1, each);
        assert_eq!(faults(&history, &budget(3)), []);
        assert_eq!(history.check(&budget(3)).duplicates, 3);
        assert_eq!(faults(&history, &budget(2)), [Fault::Duplicates { seen: 3, most: 2 }]);
        assert_eq!(faults(&history, &Budget::none()), [Fault::Duplicates { seen: 3, most: 0 }]);
    }

    #[test]
    fn what_nobody_owed_and_what_is_not_signed_are_found() {
        let mut history = good();
        let stranger = id("c", 0).to_string();
        history.seen.push(Seen { id: stranger.clone(), accepted: true, verified: true });
        history.seen.push(Seen { id: id("a", 1).to_string(), accepted: false, verified: false });
        assert_eq!(faults(&history, &Budget::none()), [Fault::BadSignatures(1), Fault::Phantom(stranger)]);
    }

    #[test]
    fn a_commit_that_goes_back_is_found() {
        let mut history = good();
        history.commits.insert(1, vec![3, 9, 8]);
        assert_eq!(
            faults(&history, &Budget::none()),
            [Fault::CommitWentBack { partition: 1, from: 9, to: 8 }]
        );
    }
}
