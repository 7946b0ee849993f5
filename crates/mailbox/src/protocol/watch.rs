//! What is seen of an owner from outside.

use std::collections::BTreeSet;

use mailrail_types::Timestamp;

use super::Protocol;
use crate::entry::{Place, Source};
use crate::fold::Fold;

/// How much an owner keeps beside its window. All of it goes when nothing is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtHand {
    /// Mailboxes that something is under way for.
    pub lanes: usize,
    /// Mailboxes that wait.
    pub holds: usize,
    /// Attempts that run, or whose end is not recorded, and deliveries aside that wait for one.
    pub flights: usize,
    /// Deliveries aside that something is under way for.
    pub asides: usize,
    /// Mailboxes, and deliveries aside, whose content is to be read.
    pub wanting: usize,
    /// Mailboxes that wait until the deliveries were read past a place.
    pub unfetched: usize,
    /// What is ready and lets others pass.
    pub passed_over: usize,
    /// Bytes of parked content.
    pub content: usize,
}

impl AtHand {
    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Protocol {
    /// Place of the claim under which this owner works.
    #[must_use]
    pub fn epoch(&self) -> Place {
        self.epoch
    }

    /// What the journal says.
    #[must_use]
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Below this offset everything is done: what [`Protocol::checkpoint`] commits, without its bitmap.
    #[must_use]
    pub fn done_below(&self) -> Source {
        self.window.floor()
    }

    /// Records of the window.
    #[must_use]
    pub fn records(&self) -> usize {
        self.window.records()
    }

    /// Bytes of the window and of the parked content at hand.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.window.bytes() + self.content
    }

    /// Since when the lowest record of the window is open.
    #[must_use]
    pub fn oldest_open(&self) -> Option<Timestamp> {
        self.window.oldest()
    }

    /// Mailboxes that something of is at hand.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// What is kept beside the window.
    #[must_use]
    pub fn at_hand(&self) -> AtHand {
        AtHand {
            lanes: self.lanes.len(),
            holds: self.holds.len() + self.held_since.len(),
            flights: self.flights.len() + self.flying.waiting(),
            asides: self.asides.len() + self.asides_sent,
            wanting: self.wanting.len() + self.wanting_asides.len(),
            unfetched: self.unfetched.values().map(BTreeSet::len).sum(),
            passed_over: self.passed_over.len(),
            content: self.content,
        }
    }

    /// Mailboxes, and deliveries aside, that could go and let others pass.
    #[must_use]
    pub fn passed_over(&self) -> usize {
        self.passed_over.len()
    }

    /// Timers that are set, those that are out of date included.
    #[must_use]
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Whether nothing is on its way to the journal: all that was to be written was read back.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.outbox.is_empty() && self.unread == 0 && !self.appending
    }

    /// Whether nothing runs, no end is still to be recorded, and nothing is on its way to the journal.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.flights.is_empty() && self.is_written()
    }
}
