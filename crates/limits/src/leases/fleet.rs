//! What a process knows of the others: how many they are, and whether the store can be believed.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Terms;

/// Counts of processes that are remembered: more than there are signs of life in the time that one lasts.
const SEEN_MAX: usize = 16;

/// How things stand at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Processes that take leases, this one counted; `None`: not known.
    pub(super) processes: Option<u32>,
    /// The store did not answer a moment ago.
    pub(super) is_away: bool,
    /// The store may not know of all leases that are in use.
    pub(super) is_in_doubt: bool,
    /// The store was away not long ago: for others it may still be.
    pub(super) is_back: bool,
}

impl Standing {
    /// What this process may have of a limit when the store does not say. At least 1: a recipient would wait for the end
    /// of the outage otherwise. With fewer leases than processes that is more than the limit: one for each process.
    pub(super) fn share(self, limit: u32) -> u32 {
        self.processes.map_or(1, |processes| (limit / processes.max(1)).max(1))
    }

    pub(super) fn is_alone(self) -> bool {
        self.processes == Some(1)
    }
}

pub(super) struct Fleet {
    terms: Terms,
    is_shared: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Processes as counted, the oldest count first.
    seen: VecDeque<(Instant, u32)>,
    /// When the first count was made.
    began: Option<Instant>,
    failed_at: Option<Instant>,
    doubt_until: Option<Instant>,
    back_until: Option<Instant>,
}

impl Fleet {
    pub(super) fn new(is_shared: bool, terms: Terms) -> Self {
        Self { terms, is_shared, state: Mutex::default() }
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        if !self.is_shared {
            return Standing { processes: Some(1), is_away: false, is_in_doubt: false, is_back: false };
        }
        let state = self.lock();
        // The others need as long as that to find the store again, and to be in the count.
        let known = state.began.is_some_and(|began| now >= began + 2 * self.terms.retry_after);
        let processes = known.then(|| state.seen.iter().map(|(_, count)| *count).max()).flatten();
        let failing = state.failed_at.is_some_and(|at| now < at + 2 * self.terms.retry_after);
        let doubted = state.doubt_until.is_none_or(|until| now < until);
        let back = state.failed_at.is_some() || state.back_until.is_some_and(|until| now < until);
        Standing {
            processes,
            is_away: failing,
            is_in_doubt: doubted || state.failed_at.is_some(),
            is_back: back,
        }
    }

    /// Whether the store does not answer, as far as is known.
    pub(super) fn is_failing(&self) -> bool {
        self.lock().failed_at.is_some()
    }

    /// The store counted the processes. The largest count of the time that a sign of life lasts is believed: right after
    /// the store lost everything most of them are not in it yet.
    pub(super) fn counted(&self, processes: u32, now: Instant) {
        let mut state = self.lock();
        state.began.get_or_insert(now);
        state.doubt_until.get_or_insert(now + self.terms.term);
        state.seen.push_back((now, processes.max(1)));
        while state.seen.len() > SEEN_MAX
            || state.seen.front().is_some_and(|(at, _)| *at + self.terms.alive_for <= now)
        {
            state.seen.pop_front();
        }
    }

    /// The store did not answer; `true` when it did before.
    pub(super) fn failed(&self, now: Instant) -> bool {
        self.lock().failed_at.replace(now).is_none()
    }

    /// The store answered; `true` when it did not before. What was known of the others is as good as new, and until they
    /// have had the time to say what they have in use the store is not believed alone.
    pub(super) fn answered(&self, now: Instant) -> bool {
        let mut state = self.lock();
        if state.failed_at.take().is_none() {
            return false;
        }
        if let Some(most) = state.seen.iter().map(|(_, count)| *count).max() {
            state.seen.clear();
            state.seen.push_back((now, most));
        }
        state.doubt_until = Some(now + self.terms.term);
        state.back_until = state.doubt_until;
        true
    }

    /// The store forgot leases.
    pub(super) fn doubt(&self, now: Instant) {
        self.lock().doubt_until = Some(now + self.terms.term);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_process_that_has_seen_nobody_has_one() {
        let (fleet, now) = (Fleet::new(true, Terms::default()), Instant::now());
        assert_eq!(fleet.standing(now).share(100), 1);
        fleet.counted(1, now);
        assert_eq!(fleet.standing(now).share(100), 1, "the others may not have been counted yet");
        assert_eq!(fleet.standing(now + 2 * SECOND).share(100), 100);
        assert!(
            fleet.standing(now + 14 * SECOND).is_in_doubt && !fleet.standing(now + 15 * SECOND).is_in_doubt
        );
    }

    #[tokio::test]
    async fn the_share_is_the_limit_over_the_most_processes_seen_lately() {
        let (fleet, now) = (Fleet::new(true, Terms::default()), Instant::now());
        for (second, count) in [(0, 4), (5, 4), (10, 1)] {
            fleet.counted(count, now + second * SECOND);
        }
        let standing = fleet.standing(now + 10 * SECOND);
        assert_eq!([40, 7, 3].map(|limit| standing.share(limit)), [10, 1, 1], "rounded down, at least 1");
        fleet.counted(1, now + 20 * SECOND);
        assert_eq!(
            fleet.standing(now + 20 * SECOND).share(40),
            40,
            "three are gone for as long as they last"
        );
    }

    #[tokio::test]
    async fn after_an_outage_the_others_are_believed_to_be_there() {
        let (fleet, now) = (Fleet::new(true, Terms::default()), Instant::now());
        fleet.counted(4, now);
        assert!(fleet.failed(now + 5 * SECOND) && !fleet.failed(now + 100 * SECOND));
        assert!(fleet.standing(now + 101 * SECOND).is_away);
        assert_eq!(fleet.standing(now + 101 * SECOND).share(40), 10, "as last seen");
        let back = now + 102 * SECOND;
        assert!(fleet.answered(back) && !fleet.answered(back));
        fleet.counted(1, back);
        let standing = fleet.standing(back + 14 * SECOND);
        assert_eq!((standing.share(40), standing.is_in_doubt, standing.is_away), (10, true, false));
        assert!(!fleet.standing(back + 15 * SECOND).is_in_doubt);
    }
}
