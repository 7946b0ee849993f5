//! Whose turn it is: the more urgent first, and never the less urgent never; and who has to let others pass.

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

    /// Before all others of its priority: it had its turn before.
    fn push_first(&mut self, priority: u8, item: Item) {
        self.len += 1;
        // That was no turn.
        self.turns = self.turns.saturating_sub(1);
        self.classes.entry(priority).or_default().push_front(item);
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        self.classes.values().flatten()
    }

    /// Whose turn it is, with its priority.
    pub(crate) fn pop(&mut self) -> Option<(u8, Item)> {
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
        item.map(|item| (class, item))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What is ready and had to let others pass, because its recipient has what it may have: by recipient, each in the order of its turns.
/// What becomes ready of such a recipient stands behind it.
#[derive(Debug, Default)]
pub(crate) struct PassedOver(BTreeMap<Box<str>, OfRecipient>);

#[derive(Debug, Default)]
struct OfRecipient {
    waiting: Ready,
    /// The one that was called and was not asked about yet: refused again, it is the first again.
    called: Option<Item>,
}

impl PassedOver {
    /// It may not go.
    pub(crate) fn put(&mut self, recipient: &str, priority: u8, item: Item) {
        let Some(of) = self.0.get_mut(recipient) else {
            self.0.entry(recipient.into()).or_default().waiting.push(priority, item);
            return;
        };
        if of.called.take_if(|called| *called == item).is_some() {
            of.waiting.push_first(priority, item);
        } else {
            of.waiting.push(priority, item);
        }
    }

    /// It may go, or has nothing to start. Says whether it was the one that was called: the next one is to be called then.
    pub(crate) fn went(&mut self, recipient: &str, item: &Item) -> bool {
        let Some(of) = self.0.get_mut(recipient) else { return false };
        let was_called = of.called.take_if(|called| called == item).is_some();
        self.forget_if_done(recipient);
        was_called
    }

    /// There is nothing to ask about any more, and nobody knows whose it was. Gives the recipient of which it was the one that was
    /// called: the next one is to be called then.
    pub(crate) fn is_gone(&mut self, item: &Item) -> Option<Box<str>> {
        let of = self.0.iter().find(|(_, of)| of.called.as_ref() == Some(item));
        let recipient = of.map(|(recipient, _)| recipient.clone())?;
        self.went(&recipient, item);
        Some(recipient)
    }

    /// Where what becomes ready of the recipient stands, when it has to wait.
    pub(crate) fn behind(&mut self, recipient: &str) -> Option<&mut Ready> {
        self.0.get_mut(recipient).map(|of| &mut of.waiting)
    }

    /// The recipient's first, which is passed over no longer; none while the one before is not asked about yet.
    pub(crate) fn call(&mut self, recipient: &str) -> Option<(u8, Item)> {
        let of = self.0.get_mut(recipient).filter(|of| of.called.is_none())?;
        let first = of.waiting.pop();
        of.called = first.as_ref().map(|(_, item)| item.clone());
        self.forget_if_done(recipient);
        first
    }

    fn forget_if_done(&mut self, recipient: &str) {
        if self.0.get(recipient).is_some_and(|of| of.waiting.is_empty() && of.called.is_none()) {
            self.0.remove(recipient);
        }
    }

    /// What waits for those recipients.
    pub(crate) fn items_of(&self, mut is_one: impl FnMut(&str) -> bool) -> impl Iterator<Item = &Item> {
        let of = self.0.iter().filter(move |(recipient, _)| is_one(recipient));
        of.flat_map(|(_, of)| of.waiting.items())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(|of| of.waiting.len).sum()
    }

    pub(crate) fn recipients(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|recipient| &**recipient)
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
            Some((_, Item::Aside(source))) => Some(source / 10_000),
            _ => None,
        })
        .collect();
        assert_eq!(order.len(), 3000);
        let first = &order[..800];
        let count = |class| first.iter().filter(|c| **c == class).count();
        assert_eq!((count(1), count(5), count(10)), (700, 50, 50));
        assert!(ready.is_empty());
    }

    #[test]
    fn who_was_passed_over_keeps_its_turn_and_its_priority() {
        let mut passed = PassedOver::default();
        passed.put("a", 5, Item::Aside(1));
        passed.put("a", 5, Item::Aside(2));
        passed.behind("a").expect("it waits").push(1, Item::Aside(3));
        assert!(passed.behind("b").is_none() && passed.call("b").is_none());
        assert_eq!(passed.call("a"), Some((1, Item::Aside(3))));
        assert_eq!(passed.call("a"), None, "the one before was not asked about yet");
        passed.went("a", &Item::Aside(3));
        for _ in 0..3 {
            assert_eq!(passed.call("a"), Some((5, Item::Aside(1))));
            passed.put("a", 5, Item::Aside(1));
        }
        assert_eq!(passed.recipients().collect::<Vec<_>>(), ["a"]);
        assert_eq!(passed.call("a"), Some((5, Item::Aside(1))));
        assert_eq!(passed.is_gone(&Item::Aside(2)), None, "it was not called");
        assert_eq!(
            passed.is_gone(&Item::Aside(1)).as_deref(),
            Some("a"),
            "the next of that one is to be called"
        );
        assert_eq!(passed.call("a"), Some((5, Item::Aside(2))));
        assert!(passed.behind("a").is_some(), "what comes now stands behind the one that is asked about");
        assert!(!passed.went("a", &Item::Aside(1)) && passed.went("a", &Item::Aside(2)));
        assert!(passed.is_empty());
        passed.put("b", 5, Item::Aside(4));
        assert_eq!(passed.items_of(|recipient| recipient == "b").collect::<Vec<_>>(), [&Item::Aside(4)]);
        assert_eq!(passed.items_of(|recipient| recipient == "a").count(), 0);
        assert!(passed.call("b").is_some() && passed.is_gone(&Item::Aside(4)).is_some());
        assert!(passed.is_empty(), "a recipient that nothing waits for is forgotten");
    }
}
