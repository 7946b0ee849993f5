//! Attempts that were cut off with their owner: their requests may still be at work where they went (I12).
//!
//! An owner that ends because the journal fenced it is followed by another in the same process, a moment later. Until what it
//! had sent is over, a strict mailbox sends nothing beside it. Across processes the hand-over says the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mailrail_types::{MailboxKey, Timestamp};

/// Mailboxes that are remembered before those whose time is over are forgotten.
const REMEMBERED: usize = 1024;

/// When the attempts that were cut are over at the latest.
#[derive(Debug, Default)]
pub(crate) struct CutAttempts(Mutex<HashMap<MailboxKey, Timestamp>>);

impl CutAttempts {
    /// An attempt of this mailbox was cut; it is over by `until`.
    pub(crate) fn note(&self, mailbox: MailboxKey, until: Timestamp, now: Timestamp) {
        let mut cut = self.lock();
        if cut.len() >= REMEMBERED {
            cut.retain(|_, until| *until > now);
        }
        cut.insert(mailbox, until);
    }

    /// Until when an attempt of this mailbox may still run, if one may.
    pub(crate) fn runs_until(&self, mailbox: &MailboxKey, now: Timestamp) -> Option<Timestamp> {
        let mut cut = self.lock();
        let until = *cut.get(mailbox)?;
        if until <= now {
            cut.remove(mailbox);
            return None;
        }
        Some(until)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MailboxKey, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i12_a_cut_attempt_holds_its_mailbox_until_it_is_over() {
        let cut = CutAttempts::default();
        let (mailbox, other) = (MailboxKey::from_text("a"), MailboxKey::from_text("b"));
        cut.note(mailbox.clone(), Timestamp(100), Timestamp(0));
        assert_eq!(cut.runs_until(&mailbox, Timestamp(99)), Some(Timestamp(100)));
        assert_eq!(cut.runs_until(&other, Timestamp(99)), None);
        assert_eq!(cut.runs_until(&mailbox, Timestamp(100)), None);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let cut = CutAttempts::default();
        for n in 0..10 * REMEMBERED {
            let now = Timestamp(i64::try_from(n).expect("small"));
            cut.note(
                MailboxKey::from_text(&n.to_string()),
                now.plus(std::time::Duration::from_millis(5)),
                now,
            );
        }
        assert!(cut.lock().len() <= REMEMBERED);
    }
}
