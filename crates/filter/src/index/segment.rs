//! A segment: filters that were indexed together. Never changes; identical filters share one entry.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::FilterId;
use super::access::{Access, AccessBuilder, only_key, rank};
use super::clauses::{ClauseTable, Interned};
use super::names::PathId;
use super::path_probe::flag;
use crate::ir::{ClauseId, Program, Want};

/// An immutable set of indexed filters.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    pub(crate) clauses: ClauseTable,
    /// By conjunction: where its clauses begin; one more at the end.
    clause_starts: Vec<u32>,
    /// Attributes first, then by path.
    clause_ids: Vec<ClauseId>,
    /// By conjunction: its entry.
    entries: Vec<u32>,
    /// By conjunction: the key of a second value that it needs, 0 when there is none.
    pub(crate) second: Vec<u64>,
    /// By entry: where its filters begin in `filters`; one more at the end.
    filter_starts: Vec<u32>,
    filters: Vec<FilterId>,
    /// Places in `filters`, sorted by id.
    by_id: Vec<u32>,
    pub(crate) access: Access,
    /// Conjunctions that nothing leads to: looked at for every event.
    pub(crate) always: Vec<u32>,
    /// Conjunctions that any value at their path leads to.
    pub(crate) broad: usize,
    /// By entry: the filter, of those whose rule decides. Their conjunctions only lead to them.
    rules: HashMap<u32, Arc<Program>>,
}

impl Segment {
    /// The filter of an entry whose rule decides.
    pub(crate) fn ruled(&self, entry: u32) -> Option<&Arc<Program>> {
        if self.rules.is_empty() { None } else { self.rules.get(&entry) }
    }

    /// Filters whose rule decides, without those that are the same.
    pub(crate) fn ruled_entries(&self) -> impl Iterator<Item = &Program> {
        self.rules.values().map(|program| &**program)
    }

    /// How many filters there are, removed ones too.
    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }

    pub(crate) fn conjunctions(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> usize {
        self.filter_starts.len().saturating_sub(1)
    }

    pub(crate) fn entry(&self, conjunction: u32) -> u32 {
        self.entries[conjunction as usize]
    }

    pub(crate) fn clauses_of(&self, conjunction: u32) -> &[ClauseId] {
        let at = conjunction as usize;
        &self.clause_ids[self.clause_starts[at] as usize..self.clause_starts[at + 1] as usize]
    }

    /// Places of an entry's filters.
    pub(crate) fn places(&self, entry: u32) -> std::ops::Range<u32> {
        self.filter_starts[entry as usize]..self.filter_starts[entry as usize + 1]
    }

    pub(crate) fn filter(&self, place: u32) -> FilterId {
        self.filters[place as usize]
    }

    /// The place of a filter.
    pub(crate) fn place(&self, id: FilterId) -> Option<u32> {
        let found = self.by_id.binary_search_by_key(&id, |place| self.filters[*place as usize]).ok()?;
        Some(self.by_id[found])
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let words = [
            &self.clause_starts,
            &self.clause_ids,
            &self.entries,
            &self.filter_starts,
            &self.by_id,
            &self.always,
        ];
        words.iter().map(|list| list.capacity() * 4).sum::<usize>()
            + self.filters.capacity() * size_of::<FilterId>()
            + self.second.capacity() * 8
            + self.clauses.heap_bytes()
            + self.access.heap_bytes()
            + self.rules.capacity() * size_of::<(u32, Arc<Program>)>()
    }
}

/// Collects filters for a segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentBuilder {
    clauses: ClauseTable,
    interned: Interned,
    clause_starts: Vec<u32>,
    clause_ids: Vec<ClauseId>,
    entries: Vec<u32>,
    /// By entry: its first conjunction; they stand together.
    first_conjunctions: Vec<u32>,
    entry_ids: HashMap<u64, u32>,
    filters: Vec<(u32, FilterId)>,
    rules: HashMap<u32, Arc<Program>>,
}

impl SegmentBuilder {
    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }

    /// The number of a clause.
    pub(crate) fn clause(&mut self, path: PathId, want: Want<'_>) -> ClauseId {
        self.interned.intern(&mut self.clauses, path, want)
    }

    /// Adds a filter: its conjunctions as numbers of clauses, attributes first, then sorted by path; and itself, when its
    /// rule decides.
    pub(crate) fn add(
        &mut self,
        id: FilterId,
        mut conjunctions: Vec<Vec<ClauseId>>,
        ruled: Option<&Arc<Program>>,
    ) {
        conjunctions.sort_unstable();
        conjunctions.dedup();
        let mut hasher = DefaultHasher::new();
        conjunctions.hash(&mut hasher);
        ruled.map(|program| &program.text).hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(entry) = self.entry_ids.get(&hash).copied()
            && self.is_entry(entry, &conjunctions)
            && self.rules.get(&entry).map(|program| &program.text) == ruled.map(|program| &program.text)
        {
            self.filters.push((entry, id));
            return;
        }
        let entry = self.first_conjunctions.len() as u32;
        self.first_conjunctions.push(self.entries.len() as u32);
        for conjunction in &conjunctions {
            self.clause_starts.push(self.clause_ids.len() as u32);
            self.clause_ids.extend_from_slice(conjunction);
            self.entries.push(entry);
        }
        if let Some(program) = ruled {
            self.rules.insert(entry, program.clone());
        }
        // Another filter with this hash keeps its place: the two just do not share.
        self.entry_ids.entry(hash).or_insert(entry);
        self.filters.push((entry, id));
    }

    fn is_entry(&self, entry: u32, conjunctions: &[Vec<ClauseId>]) -> bool {
        let first = self.first_conjunctions[entry as usize] as usize;
        let end =
            self.first_conjunctions.get(entry as usize + 1).map_or(self.entries.len(), |next| *next as usize);
        end - first == conjunctions.len()
            && conjunctions.iter().enumerate().all(|(i, ids)| self.clauses_at(first + i) == ids.as_slice())
    }

    fn clauses_at(&self, conjunction: usize) -> &[ClauseId] {
        let start = self.clause_starts[conjunction] as usize;
        let end =
            self.clause_starts.get(conjunction + 1).map_or(self.clause_ids.len(), |next| *next as usize);
        &self.clause_ids[start..end]
    }

    /// Builds the segment.
    pub(crate) fn finish(mut self) -> Segment {
        let (filter_starts, filters, by_id) = self.fan_out();
        self.clauses.shrink();
        let Chosen { access, second, always, broad } = self.choose();
        self.clause_starts.push(self.clause_ids.len() as u32);
        let mut segment = Segment {
            access: access.finish(&second),
            clauses: self.clauses,
            clause_starts: self.clause_starts,
            clause_ids: self.clause_ids,
            entries: self.entries,
            second,
            filter_starts,
            filters,
            by_id,
            always,
            broad,
            rules: self.rules,
        };
        segment.shrink();
        segment
    }

    /// Chooses what leads to each conjunction, and the second value that it needs.
    fn choose(&self) -> Chosen {
        let mut uses = vec![0_u32; self.clauses.len()];
        for id in &self.clause_ids {
            uses[*id as usize] += 1;
        }
        let ranks: Vec<Option<u8>> =
            (0..self.clauses.len() as u32).map(|id| rank(self.clauses.want(id))).collect();
        let mut chosen = Chosen::default();
        for conjunction in 0..self.entries.len() {
            let ids = self.clauses_at(conjunction);
            let telling =
                ids.iter().filter_map(|id| ranks[*id as usize].map(|rank| (rank, uses[*id as usize], *id)));
            // Of equally good ones the first: clauses on attributes come first.
            let Some((rank, _, first)) = telling.clone().min_by_key(|(rank, uses, _)| (*rank, *uses)) else {
                chosen.second.push(0);
                chosen.always.push(conjunction as u32);
                continue;
            };
            chosen.broad += usize::from(rank == BROAD);
            chosen.access.add(self.clauses.path(first), self.clauses.want(first), conjunction as u32);
            let others = telling.filter(|(rank, _, id)| *rank == 0 && *id != first);
            let keys = others.filter_map(|(_, uses, id)| {
                only_key(self.clauses.path(id), self.clauses.want(id)).map(|key| (uses, key, id))
            });
            let second = keys.min();
            if let Some((_, _, id)) = second {
                let is_text = matches!(self.clauses.want(id), Want::Text(_));
                let what = if is_text { flag::TEXT } else { flag::NUMBER | flag::WORD };
                chosen.access.ask(self.clauses.path(id), what);
            }
            chosen.second.push(second.map_or(0, |(_, key, _)| key));
        }
        chosen
    }

    /// Filters by entry, and their places by id.
    fn fan_out(&mut self) -> (Vec<u32>, Vec<FilterId>, Vec<u32>) {
        self.filters.sort_unstable();
        let mut starts = Vec::with_capacity(self.first_conjunctions.len() + 1);
        let mut filters = Vec::with_capacity(self.filters.len());
        for (entry, id) in self.filters.drain(..) {
            while starts.len() <= entry as usize {
                starts.push(filters.len() as u32);
            }
            filters.push(id);
        }
        starts.push(filters.len() as u32);
        let mut by_id: Vec<u32> = (0..filters.len() as u32).collect();
        by_id.sort_unstable_by_key(|place| filters[*place as usize]);
        (starts, filters, by_id)
    }
}

/// What leads to the conjunctions of a segment.
#[derive(Debug, Default)]
struct Chosen {
    access: AccessBuilder,
    /// By conjunction.
    second: Vec<u64>,
    always: Vec<u32>,
    broad: usize,
}

/// The rank of a clause that any value may satisfy.
const BROAD: u8 = 5;

impl Segment {
    fn shrink(&mut self) {
        self.clause_starts.shrink_to_fit();
        self.clause_ids.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.second.shrink_to_fit();
        self.always.shrink_to_fit();
        self.rules.shrink_to_fit();
    }
}
