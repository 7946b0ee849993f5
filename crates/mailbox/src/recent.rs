//! The ids seen lately: absorbs the duplicates that a restarted match leaves in the deliveries topic.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// The last `capacity` distinct ids, oldest forgotten first.
#[derive(Debug)]
pub struct RecentIds<T> {
    capacity: usize,
    order: VecDeque<T>,
    known: HashSet<T>,
}

impl<T: Hash + Eq + Copy> RecentIds<T> {
    /// Remembers at most `capacity` ids (at least one).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), order: VecDeque::new(), known: HashSet::new() }
    }

    /// Notes `id`; `false` when it was known already.
    pub fn insert(&mut self, id: T) -> bool {
        if !self.known.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a19_a_repeated_id_is_known_until_it_is_the_oldest() {
        let mut recent = RecentIds::new(2);
        assert!(recent.insert(1));
        assert!(!recent.insert(1));
        assert!(recent.insert(2));
        assert!(recent.insert(3), "1 is forgotten now");
        assert!(!recent.insert(2));
        assert!(recent.insert(1));
    }
}
