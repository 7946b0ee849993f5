//! Memory that matching works in, kept from event to event so that nothing is allocated once it has grown.

use std::collections::{HashMap, HashSet};

use fearless_simd::Level;

use super::FilterId;
use super::scan::Frame;
use crate::error::EvalError;
use crate::ir::ClauseId;
use crate::limits::{CANDIDATES_NOTED_MAX, INDEX_VALUES_MAX};

/// Memory of one thread that matches. Make one per thread and give it to every call; it belongs to no index.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) level: Level,
    pub(crate) frames: Vec<Frame>,
    pub(crate) key: String,
    pub(crate) work: Work,
    pub(crate) held: HashMap<ClauseId, bool>,
    pub(crate) ids: Vec<FilterId>,
    pub(crate) failed: Vec<(FilterId, EvalError)>,
}

/// What one event cost, in counts and not in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// The body was looked at beyond the search for literals.
    pub body_read: bool,
    /// The search for literals ruled the body out.
    pub ruled_out: bool,
    /// Values that were looked up.
    pub leaves: u64,
    /// Times that a conjunction was noted as a candidate.
    pub noted: u64,
    /// Conjunctions that were evaluated.
    pub evaluated: u64,
    /// Steps that evaluating took.
    pub steps: u64,
}

/// Candidates in the making.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Segment and conjunction, not sorted, maybe repeated.
    found: Vec<u64>,
    /// Length at which `found` is sorted and rid of repeats.
    tidy_at: usize,
    /// Keys of the event's values.
    pub(crate) values: Vec<u64>,
    /// There were more values than are remembered.
    pub(crate) values_left_out: bool,
    /// Segment and key whose list is told apart by second values.
    pub(crate) splits: Vec<(u32, u64)>,
    /// Lists that were noted already.
    noted: HashSet<(u32, u64)>,
    /// More was noted than is allowed: everything is a candidate.
    pub(crate) flooded: bool,
    pub(crate) effort: Effort,
    pub(crate) text: String,
    pub(crate) folded: Vec<u8>,
    pub(crate) seen: Vec<u64>,
}

/// Lists that are longer are noted once for an event, whatever leads to them again.
const SHORT_LIST: usize = 4;

/// Least length of the candidates before they are rid of repeats.
const TIDY_MIN: usize = 1_024;

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Empty memory. Looks up once what the processor can do.
    #[must_use]
    pub fn new() -> Self {
        Self {
            level: Level::new(),
            frames: Vec::new(),
            key: String::new(),
            work: Work::default(),
            held: HashMap::new(),
            ids: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// What the last event cost.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.work.effort
    }
}

impl Work {
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.tidy_at = TIDY_MIN;
        self.values.clear();
        self.values_left_out = false;
        self.splits.clear();
        if !self.noted.is_empty() {
            self.noted.clear();
        }
        self.flooded = false;
        self.effort = Effort::default();
    }

    /// Remembers a value of the event.
    #[inline]
    pub(crate) fn remember(&mut self, key: u64) {
        if self.values.len() < INDEX_VALUES_MAX {
            self.values.push(key);
        } else if !self.values.contains(&key) {
            self.values_left_out = true;
        }
    }

    /// Notes conjunctions of a segment. `list` names them within the segment: long lists are noted once.
    pub(crate) fn note(&mut self, segment: u32, list: u64, conjunctions: &[u32]) {
        if conjunctions.len() > SHORT_LIST && !self.noted.insert((segment, list)) {
            return;
        }
        self.note_each(segment, conjunctions);
    }

    /// Notes conjunctions of a segment, as often as it is called.
    pub(crate) fn note_each(&mut self, segment: u32, conjunctions: &[u32]) {
        self.effort.noted += conjunctions.len() as u64;
        if self.effort.noted > CANDIDATES_NOTED_MAX {
            self.flooded = true;
            self.found.clear();
            return;
        }
        self.found.extend(conjunctions.iter().map(|c| u64::from(segment) << 32 | u64::from(*c)));
        if self.found.len() > self.tidy_at {
            self.tidy();
            self.tidy_at = TIDY_MIN.max(2 * self.found.len());
        }
    }

    /// Notes a list that is told apart by second values, once.
    pub(crate) fn split(&mut self, segment: u32, key: u64) {
        if self.noted.insert((segment, key)) {
            self.splits.push((segment, key));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty() && !self.flooded
    }

    fn tidy(&mut self) {
        self.found.sort_unstable();
        self.found.dedup();
    }

    /// Each candidate once, by segment and conjunction. Give the list back with [`Work::put_back`].
    pub(crate) fn take(&mut self) -> Vec<u64> {
        self.tidy();
        std::mem::take(&mut self.found)
    }

    /// Returns memory.
    pub(crate) fn put_back(&mut self, found: Vec<u64>) {
        self.found = found;
    }
}
