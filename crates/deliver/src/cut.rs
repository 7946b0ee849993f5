//! Attempts that were cut off with their owner: their requests may still be at work where they went (I12).
//!
//! An owner that ends because the journal fenced it is followed by another in the same process, a moment later, which takes over
//! what is noted here as it takes over what a last word says. A partition whose last word could not be said is released only when
//! what is noted here is over: no other process can know of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mailrail_mailbox::Unfinished;
use mailrail_types::Timestamp;

/// Cut attempts by partition, until they are over at the latest.
#[derive(Debug, Default)]
pub(crate) struct CutAttempts(Mutex<HashMap<u32, Vec<Unfinished>>>);

impl CutAttempts {
    /// Attempts of a partition were cut. As many as run at a time, for as long as one may take: so many are remembered at most
    /// with each start of the partition within that time.
    pub(crate) fn note(&self, partition: u32, cut: Vec<Unfinished>) {
        if !cut.is_empty() {
            self.lock().entry(partition).or_default().extend(cut);
        }
    }

    /// Everything noted of the partition is in a last word.
    pub(crate) fn said(&self, partition: u32) {
        self.lock().remove(&partition);
    }

    /// The attempts of a partition that may still run. Forgets the others.
    pub(crate) fn of(&self, partition: u32, now: Timestamp) -> Vec<Unfinished> {
        let mut cut = self.lock();
        let Some(noted) = cut.get_mut(&partition) else { return Vec::new() };
        noted.retain(|left| left.until > now);
        let left = noted.clone();
        if left.is_empty() {
            cut.remove(&partition);
        }
        left
    }

    /// When all of a partition's are over, if one may still run.
    pub(crate) fn over_by(&self, partition: u32, now: Timestamp) -> Option<Timestamp> {
        self.of(partition, now).iter().map(|left| left.until).max()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Vec<Unfinished>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use mailrail_types::MailboxKey;

    use super::*;

    fn left(source: u64, until: i64) -> Unfinished {
        Unfinished { mailbox: MailboxKey::from_text(&source.to_string()), source, until: Timestamp(until) }
    }

    #[test]
    fn i12_a_cut_attempt_is_known_until_it_is_over_or_said() {
        let cut = CutAttempts::default();
        cut.note(3, vec![left(1, 100), left(2, 200)]);
        cut.note(3, vec![left(3, 150)]);
        assert_eq!(cut.over_by(3, Timestamp(99)), Some(Timestamp(200)));
        assert_eq!(cut.of(3, Timestamp(100)), [left(2, 200), left(3, 150)]);
        assert_eq!(cut.of(4, Timestamp(0)), []);
        assert_eq!(cut.over_by(3, Timestamp(200)), None);
        assert!(cut.lock().is_empty(), "what is over is forgotten");
        cut.note(3, vec![left(4, 300)]);
        cut.said(3);
        assert_eq!(cut.over_by(3, Timestamp(0)), None);
    }
}
