//! Whose turn it is: the more urgent first, and never the less urgent never.

use std::collections::{BTreeMap, VecDeque};

use mailrail_types::MailboxKey;

use crate::entry::Source;

/// Of this many turns one goes to a mailbox that is not of the most urgent class waiting (S32).
pub const TURNS_FOR_OTHERS: u64 = 8;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// The mailbox's next delivery.
    Mailbox(MailboxKey),
    /// A delivery beside its mailbox.
    Aside(Source),
}

/// What may start, by priority, first come first served within one.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    classes: BTreeMap<u8, VecDeque<Item>>,
    turns: u64,
    len: usize,
}

impl Ready {
    pub(crate) fn push(&mut self, priority: u8, item: Item) {
        self.len += 1;
        self.classes.entry(priority).or_default().push_back(item);
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let waiting = self.classes.len();
        let first = *self.classes.keys().next()?;
        self.turns += 1;
        let round = self.turns / TURNS_FOR_OTHERS;
        let class = if waiting > 1 && self.turns.is_multiple_of(TURNS_FOR_OTHERS) {
            let others = waiting - 1;
            let pick = usize::try_from(round % others as u64).unwrap_or(0) + 1;
            self.classes.keys().nth(pick).copied().unwrap_or(first)
        } else {
            first
        };
        let queue = self.classes.get_mut(&class)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            self.classes.remove(&class);
        }
        self.len -= usize::from(item.is_some());
        item
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S32: of three classes that are due, the most urgent goes first, and each other one gets its share.
    #[test]
    fn s32_the_urgent_go_first_and_each_other_class_goes_on() {
        let mut ready = Ready::default();
        for n in 0..1000 {
            for class in [10, 1, 5] {
                ready.push(class, Item::Aside(u64::from(class) * 10_000 + n));
            }
        }
        let order: Vec<u64> = std::iter::from_fn(|| match ready.pop() {
            Some(Item::Aside(source)) => Some(source / 10_000),
            _ => None,
        })
        .collect();
        assert_eq!(order.len(), 3000);
        let first = &order[..800];
        let count = |class| first.iter().filter(|c| **c == class).count();
        assert_eq!((count(1), count(5), count(10)), (700, 50, 50));
        assert!(ready.is_empty());
    }
}
