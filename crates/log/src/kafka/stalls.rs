//! Partitions that stand still although the log has more for them.
//!
//! A client that hears for a moment that a partition has no leader may never fetch it again, and says nothing
//! (confluentinc/librdkafka#5430, in every version up to 2.14.1 at least). After a disturbance somebody must look.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::readers::Key;
use crate::Offset;

/// How long partitions are looked at more often after the last sign of a disturbance.
const DISTURBED: Duration = Duration::from_secs(60);
/// Between two looks then. A partition that stands still is found by the third.
const LOOK_PAUSE: Duration = Duration::from_secs(3);
/// Between two looks otherwise: a partition may get its first record long after it was forgotten.
const QUIET_PAUSE: Duration = Duration::from_secs(60);
/// Most that looks after a replacement wait longer, each twice as long as the one before: a partition that nobody can read would
/// cost all others their client again and again.
const REPLACED_PAUSE_MAX: Duration = Duration::from_secs(600);
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
    /// The partition that the last replacement was for, and what looks then waited.
    replaced: Option<(Key, Duration)>,
}

impl Stalls {
    /// Whether it is time to look. `signs`: how many the client has given.
    pub(super) fn is_due(&mut self, signs: u64, now: Instant) -> bool {
        if std::mem::replace(&mut self.signs, signs) != signs {
            if self.until.is_none_or(|until| until <= now) {
                // The pause until now was a long one.
                self.next_look = self.next_look.map(|at| at.min(now + LOOK_PAUSE));
            }
            self.until = Some(now + DISTURBED);
        }
        self.next_look.is_none_or(|at| at <= now)
    }

    /// A look has ended.
    pub(super) fn looked(&mut self, now: Instant) {
        let is_disturbed = self.until.is_some_and(|until| until > now);
        self.next_look = Some(now + if is_disturbed { LOOK_PAUSE } else { QUIET_PAUSE });
    }

    /// There is another client, which has given `signs`. Nothing is known of what it reads.
    pub(super) fn forget(&mut self, signs: u64) {
        self.seen.clear();
        self.signs = signs;
    }

    /// The client was to be replaced for this partition.
    pub(super) fn replaced(&mut self, key: Key, now: Instant) {
        let pause = match self.replaced.take() {
            Some((before, pause)) if before == key => (pause * 2).min(REPLACED_PAUSE_MAX),
            _ => LOOK_PAUSE,
        };
        self.next_look = Some(now + pause);
        self.replaced = Some((key, pause));
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
                Some(_) => {
                    // It moves: what was done for it helped.
                    self.replaced.take_if(|(replaced, _)| *replaced == key);
                    false
                }
                None => false,
            };
            seen.insert(key, Seen { next, behind });
        }
        self.seen = seen;
        unmoved.sort();
        begin_at(&mut unmoved, self.turn);
        for (key, next) in unmoved.into_iter().take(ASKED_MAX) {
            // The next look begins behind the last one that was asked about, also when nobody answered.
            self.turn = self.turn.wrapping_add(1);
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

/// Puts the one whose turn it is first, whatever their number: who cannot be asked about everything begins elsewhere each time.
pub(super) fn begin_at<T>(all: &mut [T], turn: usize) {
    all.rotate_left(turn.checked_rem(all.len()).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    /// A broker that is away is asked once in a look; another partition comes first in the next one, whatever their number.
    #[test]
    fn questions_of_a_look_are_bounded_and_each_partition_has_its_turn() {
        for partitions in [8, 64, 1_000] {
            let mut stalls = Stalls::default();
            let read = || (0..partitions).map(|partition| (key(partition), 5)).collect::<Vec<_>>();
            assert_eq!(stalls.look(read(), |_| unreachable!("none is known yet")), None);
            let mut refused = HashSet::new();
            for _ in 0..partitions {
                stalls.look(read(), |key| {
                    refused.insert(key.clone());
                    None
                });
            }
            assert_eq!(refused.len(), partitions as usize, "{partitions}: each was asked about first once");
            let mut about = HashSet::new();
            for _ in 0..16 {
                let mut asked = 0;
                stalls.look(read(), |key| {
                    asked += 1;
                    about.insert(key.clone());
                    Some(5)
                });
                assert!(asked <= ASKED_MAX);
            }
            assert_eq!(about.len(), partitions as usize, "{partitions}");
        }
    }

    #[test]
    fn looks_are_more_frequent_for_a_while_after_a_sign_and_never_end() {
        let mut stalls = Stalls::default();
        let mut now = Instant::now();
        assert!(stalls.is_due(0, now));
        stalls.looked(now);
        assert!(!stalls.is_due(0, now + QUIET_PAUSE / 2) && stalls.is_due(0, now + QUIET_PAUSE));
        assert!(!stalls.is_due(1, now), "a sign");
        now += LOOK_PAUSE;
        assert!(stalls.is_due(1, now));
        stalls.looked(now);
        now += LOOK_PAUSE;
        assert!(stalls.is_due(1, now));
        now += DISTURBED;
        stalls.looked(now);
        assert!(!stalls.is_due(1, now + LOOK_PAUSE) && stalls.is_due(1, now + QUIET_PAUSE));
    }

    /// A partition that no client reads costs the others theirs more and more seldom.
    #[test]
    fn replacements_for_the_same_partition_become_rare() {
        let (mut stalls, now) = (Stalls::default(), Instant::now());
        let mut pause = LOOK_PAUSE;
        for _ in 0..12 {
            stalls.forget(7);
            stalls.replaced(key(0), now);
            assert!(!stalls.is_due(7, now + pause / 2) && stalls.is_due(7, now + pause), "{pause:?}");
            pause = (pause * 2).min(REPLACED_PAUSE_MAX);
        }
        assert_eq!(pause, REPLACED_PAUSE_MAX);
        stalls.look(vec![(key(0), 5)], |_| Some(9));
        stalls.look(vec![(key(0), 6)], |_| Some(9));
        stalls.replaced(key(0), now);
        assert!(stalls.is_due(7, now + LOOK_PAUSE), "it had moved since");
    }
}
