//! Positions on their way to a commit, each bound to the assignment it was made under.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Committed;

/// Where the owner of a partition puts positions to be committed. Of no effect once the partition was released or lost.
#[derive(Debug, Clone)]
pub struct Position {
    partition: u32,
    sequence: u64,
    positions: Positions,
}

impl Position {
    /// Replaces the position that the next commit takes.
    pub fn set(&self, position: Committed) {
        let mut state = self.positions.lock();
        if let Some(owned) = state.get_mut(&self.partition).filter(|owned| owned.sequence == self.sequence) {
            owned.latest = Some(position);
            owned.waits = true;
        }
    }

    /// Asks for a commit now instead of at the next tick. A takeover's first commit proves that we are a member: nothing
    /// may start before it was accepted.
    pub fn commit_soon(&self) {
        self.positions.soon.notify_one();
    }

    /// The last position that was put down under this assignment. A task that failed goes on from it, so that no later
    /// commit goes back behind it.
    pub(super) fn latest(&self) -> Option<Committed> {
        let state = self.positions.lock();
        state.get(&self.partition).filter(|owned| owned.sequence == self.sequence)?.latest.clone()
    }
}

/// The positions of all owned partitions. One of an earlier assignment is never committed: another member may have gone
/// further meanwhile, and a commit must not go back.
#[derive(Debug, Clone, Default)]
pub(super) struct Positions {
    owned: Arc<Mutex<HashMap<u32, OwnedPosition>>>,
    soon: Arc<Notify>,
}

#[derive(Debug)]
struct OwnedPosition {
    sequence: u64,
    latest: Option<Committed>,
    /// Not in a commit yet.
    waits: bool,
}

impl Positions {
    pub(super) fn grant(&self, partition: u32, sequence: u64) -> Position {
        self.lock().insert(partition, OwnedPosition { sequence, latest: None, waits: false });
        Position { partition, sequence, positions: self.clone() }
    }

    /// Somebody asked for a commit now, since the last time. Cancel safe.
    pub(super) async fn wanted_soon(&self) {
        self.soon.notified().await;
    }

    /// What waits, with the assignment it belongs to.
    pub(super) fn take(&self) -> Vec<(u32, u64, Committed)> {
        self.take_where(|owned| owned.waits)
    }

    /// The latest of every partition, also what was committed before.
    pub(super) fn take_all(&self) -> Vec<(u32, u64, Committed)> {
        self.take_where(|_| true)
    }

    fn take_where(&self, wanted: impl Fn(&OwnedPosition) -> bool) -> Vec<(u32, u64, Committed)> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        for (partition, owned) in state.iter_mut().filter(|(_, owned)| wanted(owned)) {
            owned.waits = false;
            taken.extend(owned.latest.clone().map(|position| (*partition, owned.sequence, position)));
        }
        taken
    }

    /// Ends the ownership; the last position comes back.
    pub(super) fn revoke(&self, partition: u32) -> Option<Committed> {
        self.lock().remove(&partition)?.latest
    }

    /// Lets what a failed commit carried wait again, or what came after it, unless the partition left meanwhile.
    pub(super) fn put_back(&self, failed: Vec<(u32, u64, Committed)>) {
        let mut state = self.lock();
        for (partition, sequence, _) in failed {
            if let Some(owned) = state.get_mut(&partition).filter(|owned| owned.sequence == sequence) {
                owned.waits = true;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, OwnedPosition>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Committed {
        Committed { offset, metadata: String::new() }
    }

    #[test]
    fn i11_a_position_of_an_earlier_assignment_is_never_committed() {
        let positions = Positions::default();
        let first = positions.grant(0, 1);
        first.set(at(5));
        let failed = positions.take();
        assert_eq!(failed, [(0, 1, at(5))]);
        assert_eq!(positions.revoke(0), Some(at(5)), "goes into the release");

        let second = positions.grant(0, 2);
        first.set(at(6));
        positions.put_back(failed);
        assert_eq!(positions.take(), [], "neither a late word nor a failed commit of the first owner");
        second.set(at(9));
        assert_eq!(positions.take(), [(0, 2, at(9))]);
        assert_eq!((first.latest(), second.latest()), (None, Some(at(9))));
    }

    #[test]
    fn a_failed_commit_is_tried_again_with_what_came_after() {
        let positions = Positions::default();
        let position = positions.grant(3, 1);
        position.set(at(1));
        let failed = positions.take();
        assert_eq!(positions.take(), [], "once");
        position.set(at(2));
        positions.put_back(failed);
        assert_eq!(positions.take(), [(3, 1, at(2))]);
    }

    #[test]
    fn all_positions_are_taken_again_for_a_renewal() {
        let positions = Positions::default();
        positions.grant(0, 1);
        positions.grant(1, 1).set(at(4));
        assert_eq!(positions.take(), [(1, 1, at(4))]);
        assert_eq!(positions.take_all(), [(1, 1, at(4))], "nothing was put down for the other");
        assert_eq!(positions.take(), []);
    }
}
