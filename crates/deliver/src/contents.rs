//! The deliveries that a partition has at hand: those of its window, and parked ones whose turn is near.

use std::sync::Arc;

use mailrail_mailbox::Source;
use mailrail_types::{Attempt, DeadLetter, Delivery, History, HoldReason, MailboxClass, MailboxKey};

use crate::numbers::ByNumber;

/// A delivery at hand, with what was tried by this owner.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) delivery: Arc<Delivery>,
    /// Its mailbox, made out once.
    pub(crate) mailbox: MailboxKey,
    /// The last attempts, newest last; at most as many as a dead letter keeps.
    pub(crate) attempts: Vec<Attempt>,
    /// Something of its recipient's held it back, as far as this owner and the journal know.
    pub(crate) waited_for_recipient: bool,
    /// That of its mailbox when it was read; `None`: what it belongs to was not set up any more.
    pub(crate) class: Option<Arc<MailboxClass>>,
}

impl Held {
    pub(crate) fn new(delivery: Delivery) -> Self {
        Self {
            mailbox: delivery.mailbox.key(),
            delivery: Arc::new(delivery),
            attempts: Vec::new(),
            waited_for_recipient: false,
            class: None,
        }
    }

    /// Notes that it was not sent when its turn had come, or was parked, for this reason.
    pub(crate) fn hold_back(&mut self, reason: HoldReason) {
        // Those four: the rail itself was not ready, or had more than it could look at.
        self.waited_for_recipient |= !matches!(
            reason,
            HoldReason::Lease | HoldReason::Unfinished | HoldReason::Setup | HoldReason::Overflow
        );
    }

    /// Notes an attempt, and the history that follows from it.
    pub(crate) fn note(&mut self, attempt: Attempt) {
        let known = &self.delivery.history;
        if attempt.number > known.attempts {
            let history = History {
                attempts: attempt.number,
                first_attempt_at: known.first_attempt_at.or(Some(attempt.started_at)),
                last_attempt_at: Some(attempt.started_at),
                last_status: attempt.result.status,
                redrives: known.redrives,
            };
            self.set_history(history);
        }
        // Nearly always it is the only one.
        self.attempts.reserve_exact(1);
        self.attempts.push(attempt);
        if self.attempts.len() > DeadLetter::ATTEMPTS_MAX {
            self.attempts.remove(0);
        }
    }

    /// The journal knows more attempts than the content that it holds.
    pub(crate) fn set_history(&mut self, history: History) {
        // The body is shared; what is copied are a few short texts, and only for a delivery that failed.
        Arc::make_mut(&mut self.delivery).history = history;
    }
}

/// Deliveries at hand, by where they stand.
#[derive(Debug, Default)]
pub(crate) struct Contents(ByNumber<Source, Held>);

impl Contents {
    pub(crate) fn insert(&mut self, source: Source, held: Held) {
        self.0.insert(source, held);
    }

    pub(crate) fn get(&self, source: Source) -> Option<&Held> {
        self.0.get(&source)
    }

    pub(crate) fn get_mut(&mut self, source: Source) -> Option<&mut Held> {
        self.0.get_mut(&source)
    }

    pub(crate) fn forget(&mut self, sources: Vec<Source>) {
        for source in sources {
            self.0.remove(&source);
        }
    }
}
