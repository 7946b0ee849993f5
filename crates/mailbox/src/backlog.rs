//! What is parked of one mailbox, as the journal tells it.

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::{Cursor, Drained, Head, Link, Park, Place, Source};
use crate::rules::Rules;

/// What is parked of one mailbox.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Backlog {
    /// Stretches of its deliveries, ascending. The mailbox is blocked while there is one.
    pub stretches: Vec<Stretch>,
    /// The delivery at the head, as far as it is known to wait.
    pub head: Option<Head>,
    /// Deliveries further back that were tried when they stood at the head: an older one came in front of them since. What is
    /// known of them counts again when they are the head again (I13).
    pub tried: BTreeMap<Source, Head>,
    /// Deliveries beside it, each on its own time.
    pub asides: BTreeMap<Source, SetAside>,
    /// Deliveries of the stretches that stood aside and have ended, before those in front of them have: the backlog passes
    /// over them.
    pub passed: BTreeSet<Source>,
    /// How many deliveries of the stretches have not ended, as far as it was written.
    pub owed: u64,
}

/// Parked deliveries of a mailbox, from `first` through `last`, each chained to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The first delivery of it.
    pub first: Source,
    /// The last delivery of it.
    pub last: Source,
    /// Ended through here.
    pub drained: Option<Source>,
    /// Where the next one is.
    pub next: Cursor,
}

/// A delivery beside its mailbox.
#[derive(Debug, Clone, PartialEq)]
pub struct SetAside {
    /// Place of its content.
    pub content: Place,
    /// How it stands.
    pub head: Head,
}

impl Stretch {
    /// Whether it holds `source`, ended or not.
    #[must_use]
    pub fn covers(&self, source: Source) -> bool {
        (self.first..=self.last).contains(&source)
    }

    /// Whether it may still hold `source`, not ended.
    #[must_use]
    pub fn owes(&self, source: Source) -> bool {
        self.covers(source) && self.drained.is_none_or(|drained| drained < source)
    }

    /// Whether all of it has ended.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drained == Some(self.last)
    }
}

impl Backlog {
    /// Whether new records of the mailbox must stand behind it.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.stretches.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stretches.is_empty() && self.asides.is_empty()
    }

    /// First place of the journal that it still needs.
    pub(crate) fn pin(&self) -> Option<Place> {
        let stretches = self.stretches.iter().filter(|s| !s.is_drained()).map(|s| s.next.at);
        stretches.chain(self.asides.values().map(|a| a.content)).min()
    }

    /// Takes a parked delivery; `false` when it does not continue the chain.
    pub(crate) fn park(&mut self, park: &Park, place: Place, epoch: Place, rules: Rules) -> bool {
        let source = park.source;
        let fresh = Stretch { first: source, last: source, drained: None, next: Cursor { at: place, epoch } };
        match park.link {
            Link::First if self.stretches.is_empty() => self.stretches.push(fresh),
            Link::Before(first)
                if source < first && self.stretches.first().is_some_and(|s| s.first == first) =>
            {
                self.stretches.insert(0, fresh);
            }
            Link::After(last) => {
                let at = self.stretches.iter().position(|s| s.last == last && source > last);
                let below =
                    at.and_then(|at| self.stretches.get(at + 1)).is_none_or(|next| source < next.first);
                match at.filter(|_| below) {
                    Some(at) => {
                        let stretch = &mut self.stretches[at];
                        if stretch.is_drained() {
                            // What was before it may have been trimmed away since.
                            stretch.next = fresh.next;
                        }
                        stretch.last = source;
                    }
                    None => return !rules.chain && self.park_unchained(fresh),
                }
            }
            Link::First | Link::Before(_) => return !rules.chain && self.park_unchained(fresh),
        }
        true
    }

    /// What a reader without the chain rule does: it takes the delivery wherever it seems to fit.
    fn park_unchained(&mut self, fresh: Stretch) -> bool {
        if self.stretches.iter().any(|s| s.covers(fresh.first)) {
            return false;
        }
        match self.stretches.last_mut() {
            Some(last) if fresh.first > last.last => last.last = fresh.first,
            Some(_) => self.stretches.insert(0, fresh),
            None => self.stretches.push(fresh),
        }
        true
    }

    pub(crate) fn advance(&mut self, drained: Drained) {
        let Some(lowest) = self.stretches.first_mut() else { return };
        if lowest.covers(drained.through) && lowest.drained < Some(drained.through) {
            lowest.drained = Some(drained.through);
            lowest.next = drained.next;
        }
        // One that was worked off before an older one came in front of it goes with that.
        while self.stretches.len() > 1 && self.stretches[0].is_drained() {
            self.stretches.remove(0);
        }
        let lowest = self.stretches.first().map_or(Source::MAX, |lowest| lowest.first);
        self.passed.retain(|passed| *passed > drained.through && *passed >= lowest);
        self.owed = self.owed.saturating_sub(u64::from(drained.count));
        if self.head.as_ref().is_some_and(|head| head.source <= drained.through) {
            self.head = None;
        }
        self.tried.retain(|tried, _| *tried > drained.through);
        if self.head.is_none()
            && let Some(next) = self.tried.first_entry()
            && self.stretches.first().is_some_and(|lowest| lowest.owes(*next.key()))
        {
            self.head = Some(next.remove());
        }
    }

    /// A delivery is at the head and waits.
    pub(crate) fn set_head(&mut self, head: Head) {
        self.tried.remove(&head.source);
        if let Some(before) = self.head.replace(head)
            && before.history.is_some()
            && self.head.as_ref().is_some_and(|head| head.source < before.source)
        {
            self.tried.insert(before.source, before);
        }
    }
}
