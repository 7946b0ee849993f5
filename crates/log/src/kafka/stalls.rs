//! Partitions that stand still although the log has more for them.
//!
//! A client that hears for a moment that a partition has no leader may never fetch it again, and says nothing
//! (confluentinc/librdkafka#5430, in every version up to 2.14.1 at least). After a disturbance somebody must look.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::readers::Key;
use crate::Offset;

/// How long partitions are looked at after the last sign of a disturbance.
const DISTURBED: Duration = Duration::from_secs(60);
/// Between two looks. A partition that stands still is found by the third.
const LOOK_PAUSE: Duration = Duration::from_secs(3);
/// Partitions whose end is asked for in one look: the thread that asks reads nothing meanwhile.
const ASKED_MAX: usize = 64;

/// Where a partition was at the last look.
struct Seen {
    next: Offset,
    /// It had not moved then, and the log had more.
    behind: bool,
}

/// What is known of the partitions of a client.
#[derive(Default)]
pub(super) struct Stalls {
    /// Signs of a disturbance that the client has given.
    signs: u64,
    until: Option<Instant>,
    next_look: Option<Instant>,
    seen: HashMap<Key, Seen>,
    /// Whom the next look asks about first.
    turn: usize,
}

impl Stalls {
    /// Whether it is time to look. `signs`: how many the client has given.
    pub(super) fn is_due(&mut self, signs: u64, now: Instant) -> bool {
        if std::mem::replace(&mut self.signs, signs) != signs {
            self.until = Some(now + DISTURBED);
        }
        if self.until.is_none_or(|until| until <= now) {
            self.seen.clear();
            return false;
        }
        let due = self.next_look.is_none_or(|at| at <= now);
        if due {
            self.next_look = Some(now + LOOK_PAUSE);
        }
        due
    }

    /// Nothing is known of what another client reads.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }

    /// One look. `read`: partitions that could move, and the offset that is next. `end` asks where a partition ends; `None`: nobody
    /// says, and nothing more is asked in this look. Gives a partition that stands still, if there is one.
    pub(super) fn look(
        &mut self,
        read: Vec<(Key, Offset)>,
        mut end: impl FnMut(&Key) -> Option<Offset>,
    ) -> Option<Key> {
        let mut seen = HashMap::with_capacity(read.len());
        let mut unmoved = Vec::new();
        for (key, next) in read {
            let behind = match self.seen.get(&key) {
                Some(seen) if seen.next == next && seen.behind => return Some(key),
                Some(seen) if seen.next == next => {
                    unmoved.push((key.clone(), next));
                    false
                }
                _ => false,
            };
            seen.insert(key, Seen { next, behind });
        }
        self.seen = seen;
        let first = self.turn.checked_rem(unmoved.len()).unwrap_or(0);
        self.turn = self.turn.wrapping_add(ASKED_MAX);
        unmoved.rotate_left(first);
        for (key, next) in unmoved.into_iter().take(ASKED_MAX) {
            let Some(end) = end(&key) else { break };
            if end > next
                && let Some(seen) = self.seen.get_mut(&key)
            {
                seen.behind = true;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition: u32) -> Key {
        ("t".to_owned(), partition)
    }

    #[test]
    fn only_what_does_not_move_and_has_more_stands_still() {
        let mut stalls = Stalls::default();
        let ends = |key: &Key| Some(if key.1 == 2 { 5 } else { 9 });
        assert_eq!(stalls.look(vec![(key(0), 5), (key(1), 5), (key(2), 5)], ends), None, "seen first");
        assert_eq!(stalls.look(vec![(key(0), 5), (key(1), 6), (key(2), 5)], ends), None, "asked");
        assert_eq!(stalls.look(vec![(key(1), 6), (key(2), 5), (key(0), 5)], ends), Some(key(0)));
    }

    #[test]
    fn what_is_read_anew_or_moved_is_no_stall() {
        let mut stalls = Stalls::default();
        for next in [5, 5, 6, 6] {
            assert_eq!(stalls.look(vec![(key(0), next)], |_| Some(9)), None, "{next}");
        }
        assert_eq!(stalls.look(Vec::new(), |_| Some(9)), None);
        assert_eq!(stalls.look(vec![(key(0), 6)], |_| Some(9)), None, "read again");
    }

    /// A broker that is away is asked once in a look, and many partitions are asked about in turns.
    #[test]
    fn questions_of_a_look_are_bounded() {
        let mut stalls = Stalls::default();
        let read = || (0..1_000).map(|partition| (key(partition), 5)).collect::<Vec<_>>();
        assert_eq!(stalls.look(read(), |_| unreachable!("none is known yet")), None);
        let mut asked = 0;
        assert_eq!(
            stalls.look(read(), |_| {
                asked += 1;
                None
            }),
            None
        );
        assert_eq!(asked, 1);
        let mut about = std::collections::HashSet::new();
        for _ in 0..16 {
            let before = about.len();
            assert_eq!(
                stalls.look(read(), |key| {
                    about.insert(key.clone());
                    Some(5)
                }),
                None
            );
            assert!(about.len() - before <= ASKED_MAX);
        }
        assert_eq!(about.len(), 1_000, "each had its turn");
    }

    #[test]
    fn looks_begin_with_a_sign_and_end_a_while_after_the_last() {
        let mut stalls = Stalls::default();
        let start = Instant::now();
        assert!(!stalls.is_due(0, start));
        assert!(stalls.is_due(1, start));
        assert!(!stalls.is_due(1, start + LOOK_PAUSE / 2));
        assert!(stalls.is_due(2, start + LOOK_PAUSE));
        assert!(stalls.is_due(2, start + DISTURBED));
        assert!(!stalls.is_due(2, start + LOOK_PAUSE + DISTURBED));
    }
}
