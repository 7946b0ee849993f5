//! The writer's side: adding and removing filters, one snapshot after another.
//!
//! Filters live in segments that never change. What was added last is a small segment, built anew by each change; when it
//! is full it is sealed. Sealed segments are merged, small ones often and large ones seldom, so that a filter is indexed
//! again only a logarithmic number of times. Merging needs no access to the index: it can happen on another thread while
//! changes go on ([`Index::plan_merge`]).

use std::collections::HashSet;
use std::sync::Arc;

use super::FilterId;
use super::dead::Dead;
use super::error::IndexError;
use super::merge::{MergeJob, Merged, copy};
use super::names::{Names, Path, PathId, Registry};
use super::prefilter::Prefilter;
use super::scan::Trie;
use super::segment::{Segment, SegmentBuilder};
use super::snapshot::{IndexSnapshot, Live};
use crate::filter::Filter;
use crate::ir::{Program, Want};
use crate::limits::{INDEX_FILTERS_MAX, INDEX_FRESH_MAX, INDEX_SEGMENTS_MAX};

/// A change of an index.
#[derive(Debug, Clone, Copy)]
pub enum Change<'f> {
    /// The filter is in the index from now on, in place of the one with this id.
    Put(FilterId, &'f Filter),
    /// There is no filter with this id from now on.
    Remove(FilterId),
}

/// How an index is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexOptions {
    /// Whether bodies may be ruled out by a search for literals, in indexes of few filters.
    pub prefilter: bool,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { prefilter: true }
    }
}

/// Counts of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Filters, without removed ones.
    pub filters: usize,
    /// Different filters, as far as that is known; removed ones may be counted until their segment is merged.
    pub entries: usize,
    /// Conjunctions of the entries.
    pub conjunctions: usize,
    /// Conjunctions that are evaluated for every event: nothing leads to them. Worth a limit.
    pub always: usize,
    /// Conjunctions that are evaluated for every event that has a value at one path. Worth a limit, too.
    pub broad: usize,
    /// Segments.
    pub segments: usize,
    /// Different paths, of removed filters too.
    pub paths: usize,
    /// Bytes on the heap, without operands other than lone strings.
    pub heap_bytes: usize,
}

/// An index of the filters of one (tenant, event type). Readers use its [`IndexSnapshot`]s.
#[derive(Debug, Default)]
pub struct Index {
    options: IndexOptions,
    registry: Registry,
    sealed: Vec<Live>,
    fresh: Option<Live>,
    snapshot: Arc<IndexSnapshot>,
    /// Counts planned merges: only the last one can be installed.
    merge: u64,
    /// Filters that were removed since that one was planned.
    removed: Vec<FilterId>,
}

impl Index {
    /// An empty index.
    #[must_use]
    pub fn new(options: IndexOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// An index of many filters, built in one piece; ids are different. Filters are needed one at a time.
    ///
    /// Returns the filters that were not taken, too, with the reason.
    pub fn load(
        options: IndexOptions,
        filters: impl IntoIterator<Item = (FilterId, Filter)>,
    ) -> (Self, Vec<(FilterId, IndexError)>) {
        let mut index = Self::new(options);
        let mut added = SegmentBuilder::default();
        let mut refused = Vec::new();
        for (id, filter) in filters {
            match index.lower(&filter.program) {
                Ok(_) if added.len() >= INDEX_FILTERS_MAX => refused.push((id, IndexError::TooManyFilters)),
                Ok(conjunctions) => add(&mut added, id, conjunctions, &filter.program),
                Err(error) => refused.push((id, error)),
            }
        }
        index.take_in(added);
        index.publish(false);
        (index, refused)
    }

    /// The filters at this moment. Costs nothing; keep it as long as it is to be valid.
    #[must_use]
    pub fn snapshot(&self) -> Arc<IndexSnapshot> {
        self.snapshot.clone()
    }

    /// Makes changes, of which readers see all or none. Of several changes of one id the last counts.
    ///
    /// Returns the filters that were not taken, with the reason: what was under their id stays.
    pub fn apply(&mut self, changes: &[Change<'_>]) -> Vec<(FilterId, IndexError)> {
        let mut refused = Vec::new();
        let mut seen = HashSet::with_capacity(changes.len());
        let mut added = SegmentBuilder::default();
        for change in changes.iter().rev() {
            match change {
                Change::Remove(id) if seen.insert(*id) => self.forget(*id),
                Change::Put(id, filter) if seen.insert(*id) => match self.lower(&filter.program) {
                    Ok(conjunctions) if self.len() + added.len() < INDEX_FILTERS_MAX => {
                        self.forget(*id);
                        add(&mut added, *id, conjunctions, &filter.program);
                    }
                    Ok(_) => refused.push((*id, IndexError::TooManyFilters)),
                    Err(error) => refused.push((*id, error)),
                },
                _ => {}
            }
        }
        self.take_in(added);
        self.publish(false);
        refused
    }

    fn len(&self) -> usize {
        self.live().map(|live| live.segment.len() - live.dead.len()).sum()
    }

    fn live(&self) -> impl Iterator<Item = &Live> {
        self.sealed.iter().chain(&self.fresh)
    }

    /// Clauses with their paths, attributes first, then sorted by path.
    fn lower<'p>(&mut self, program: &'p Program) -> Result<Vec<Vec<(PathId, Want<'p>)>>, IndexError> {
        let mut conjunctions = Vec::with_capacity(program.conjunctions.len());
        for conjunction in &program.conjunctions {
            let ids = conjunction.attributes.iter().chain(&conjunction.body);
            let mut list = Vec::with_capacity(conjunction.attributes.len() + conjunction.body.len());
            for id in ids {
                let clause = &program.clauses[*id as usize];
                list.push((self.registry.path(program, &clause.subject)?, Want::Full(&clause.wanted)));
            }
            sort_by_path(&self.registry.names, &mut list);
            conjunctions.push(list);
        }
        Ok(conjunctions)
    }

    fn forget(&mut self, id: FilterId) {
        for live in self.sealed.iter_mut().chain(&mut self.fresh) {
            if let Some(place) = live.segment.place(id)
                && !live.dead.contains(place)
            {
                Arc::make_mut(&mut live.dead).insert(place);
                self.removed.push(id);
            }
        }
    }

    /// Puts new filters together with the fresh ones, or seals both.
    fn take_in(&mut self, mut added: SegmentBuilder) {
        if added.len() == 0 {
            return;
        }
        if let Some(fresh) = self.fresh.take() {
            copy(&fresh, &mut added);
        }
        let live = Live { segment: Arc::new(added.finish()), dead: Arc::default() };
        if live.segment.len() < INDEX_FRESH_MAX {
            self.fresh = Some(live);
            return;
        }
        self.sealed.push(live);
        if self.sealed.len() > INDEX_SEGMENTS_MAX {
            self.merge_smallest();
        }
    }

    /// Nobody merged in the background: the two smallest segments are merged here, at the cost of this change.
    fn merge_smallest(&mut self) {
        self.sealed.sort_by_key(|live| std::cmp::Reverse(live.segment.len()));
        let inputs = self.sealed[self.sealed.len() - 2..].to_vec();
        let job = self.start_merge(inputs);
        let installed = self.install(job.run());
        debug_assert!(installed, "nothing came between");
    }

    /// A merge that is worth it, if any. Run it wherever, and [install](Index::install) what it gives. Planning again makes
    /// an earlier plan void.
    pub fn plan_merge(&mut self) -> Option<MergeJob> {
        self.sealed.sort_by_key(|live| live.segment.len());
        let mut together = 0;
        let mut sum = 0;
        for live in &self.sealed {
            if together > 0 && live.segment.len() > MERGE_FACTOR * sum {
                break;
            }
            sum += live.segment.len();
            together += 1;
        }
        let inputs = if together > 1 {
            self.sealed[..together].to_vec()
        } else {
            let wasteful = |live: &&Live| live.dead.len() * 4 > live.segment.len();
            self.sealed.iter().filter(wasteful).take(1).cloned().collect()
        };
        (!inputs.is_empty()).then(|| self.start_merge(inputs))
    }

    fn start_merge(&mut self, inputs: Vec<Live>) -> MergeJob {
        self.merge += 1;
        self.removed.clear();
        MergeJob { merge: self.merge, inputs }
    }

    /// Puts the result of the last planned merge in place of what was merged. False, and nothing happens, when it is not
    /// from the last plan.
    pub fn install(&mut self, merged: Merged) -> bool {
        if merged.merge != self.merge {
            return false;
        }
        self.merge += 1;
        self.sealed
            .retain(|live| !merged.inputs.iter().any(|input| Arc::ptr_eq(&live.segment, &input.segment)));
        let mut dead = Dead::default();
        for id in self.removed.drain(..) {
            if let Some(place) = merged.segment.place(id) {
                dead.insert(place);
            }
        }
        self.sealed.push(Live { segment: Arc::new(merged.segment), dead: Arc::new(dead) });
        self.publish(false);
        true
    }

    /// Builds everything anew, names too: paths that only removed filters used are gone afterwards.
    pub fn compact(&mut self) {
        let mut registry = Registry::default();
        let mut builder = SegmentBuilder::default();
        let old = self.registry.names.clone();
        for live in self.live() {
            super::merge::copy_renamed(live, &old, &mut registry, &mut builder);
        }
        self.registry = registry;
        self.fresh = None;
        self.merge += 1;
        self.sealed = vec![Live { segment: Arc::new(builder.finish()), dead: Arc::default() }];
        self.publish(true);
    }

    /// Counts.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let mut stats = IndexStats { paths: self.registry.names.paths.len(), ..IndexStats::default() };
        for Live { segment, dead } in self.live() {
            stats.filters += segment.len() - dead.len();
            stats.entries += segment.entries();
            stats.conjunctions += segment.conjunctions();
            stats.always += segment.always.len();
            stats.broad += segment.broad;
            stats.segments += 1;
            stats.heap_bytes += segment.heap_bytes() + size_of::<Segment>() + dead.heap_bytes();
        }
        stats
    }

    /// `renamed`: numbers of names mean something else than in the snapshot before.
    fn publish(&mut self, renamed: bool) {
        let segments: Vec<Live> =
            self.live().filter(|live| live.segment.len() > live.dead.len()).cloned().collect();
        let names = self.registry.names.clone();
        let mut flags = vec![0_u8; names.paths.len()];
        for (path, what) in segments.iter().flat_map(|live| &live.segment.access.flags) {
            flags[*path as usize] |= what;
        }
        let asked = (0..flags.len() as PathId).filter(|path| flags[*path as usize] != 0);
        let (attributes, body): (Vec<_>, Vec<_>) =
            asked.partition(|path| matches!(names.path(*path), Path::Attribute(_)));
        let trie = if self.snapshot.trie.paths() == body && !renamed {
            self.snapshot.trie.clone()
        } else {
            Arc::new(Trie::new(&names, body))
        };
        let prefilter = if self.options.prefilter { Prefilter::new(&segments, &names) } else { None };
        self.snapshot = Arc::new(IndexSnapshot { names, segments, trie, attributes, flags, prefilter });
    }
}

/// Adds a filter by its clauses.
fn add(
    to: &mut SegmentBuilder,
    id: FilterId,
    conjunctions: Vec<Vec<(PathId, Want<'_>)>>,
    program: &Arc<Program>,
) {
    let numbered =
        |list: Vec<(PathId, Want<'_>)>| list.into_iter().map(|(path, want)| to.clause(path, want)).collect();
    let ids = conjunctions.into_iter().map(numbered).collect();
    to.add(id, ids, program.deciding_rule().map(|_| program));
}

/// How many times larger than all smaller ones together a segment is before it is left out of a merge.
const MERGE_FACTOR: usize = 4;

/// Attributes first, then by keys, so that clauses below one key are neighbours and a prefix comes first.
pub(super) fn sort_by_path(names: &Names, list: &mut [(PathId, Want<'_>)]) {
    list.sort_by(|(a, _), (b, _)| {
        let body = |path: PathId| names.attribute(path).is_none();
        body(*a).cmp(&body(*b)).then_with(|| names.steps(*a).cmp(names.steps(*b))).then(a.cmp(b))
    });
}
