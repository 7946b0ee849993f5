//! Merging segments: what is left of them, indexed together.

use std::collections::HashMap;

use super::names::{Names, PathId, Registry};
use super::segment::{Segment, SegmentBuilder};
use super::snapshot::Live;
use super::writer::sort_by_path;
use crate::ir::{ClauseId, Want};

/// A merge that was planned. Holds what it needs: run it on any thread.
#[derive(Debug)]
pub struct MergeJob {
    pub(super) merge: u64,
    pub(super) inputs: Vec<Live>,
}

/// A merge that was run; give it to [`Index::install`](super::Index::install).
#[derive(Debug)]
pub struct Merged {
    pub(super) merge: u64,
    pub(super) inputs: Vec<Live>,
    pub(super) segment: Segment,
}

impl MergeJob {
    /// How many filters will be indexed again: about a second for a million.
    #[must_use]
    pub fn filters(&self) -> usize {
        self.inputs.iter().map(|live| live.segment.len() - live.dead.len()).sum()
    }

    /// Merges.
    #[must_use]
    pub fn run(self) -> Merged {
        let mut builder = SegmentBuilder::default();
        for live in &self.inputs {
            copy(live, &mut builder);
        }
        Merged { merge: self.merge, inputs: self.inputs, segment: builder.finish() }
    }
}

/// Conjunctions of an entry.
fn conjunctions(segment: &Segment) -> impl Iterator<Item = (u32, std::ops::Range<u32>)> {
    let mut next = 0;
    (0..segment.entries() as u32).map(move |entry| {
        let start = next;
        while (next as usize) < segment.conjunctions() && segment.entry(next) == entry {
            next += 1;
        }
        (entry, start..next)
    })
}

/// Adds what is left of a segment to another one of the same index.
pub(super) fn copy(live: &Live, to: &mut SegmentBuilder) {
    let segment = &live.segment;
    let mut renumbered: Vec<Option<ClauseId>> = vec![None; segment.clauses.len()];
    for (entry, range) in conjunctions(segment) {
        let mut left = segment.places(entry).filter(|place| !live.dead.contains(*place)).peekable();
        if left.peek().is_none() {
            continue;
        }
        let lists: Vec<Vec<ClauseId>> = range
            .map(|conjunction| {
                let ids = segment.clauses_of(conjunction).iter();
                ids.map(|id| {
                    *renumbered[*id as usize].get_or_insert_with(|| {
                        to.clause(segment.clauses.path(*id), segment.clauses.want(*id))
                    })
                })
                .collect()
            })
            .collect();
        for place in left {
            to.add(segment.filter(place), lists.clone(), segment.ruled(entry));
        }
    }
}

/// As [`copy`], to an index with other names.
pub(super) fn copy_renamed(live: &Live, old: &Names, registry: &mut Registry, to: &mut SegmentBuilder) {
    let segment = &live.segment;
    let mut paths: HashMap<PathId, PathId> = HashMap::new();
    for (entry, range) in conjunctions(segment) {
        let mut left = segment.places(entry).filter(|place| !live.dead.contains(*place)).peekable();
        if left.peek().is_none() {
            continue;
        }
        let mut lists: Vec<Vec<ClauseId>> = Vec::new();
        for conjunction in range {
            let mut list: Vec<(PathId, Want<'_>)> = Vec::new();
            for id in segment.clauses_of(conjunction) {
                let path = segment.clauses.path(*id);
                let path = *paths.entry(path).or_insert_with(|| registry.adopt(old, path));
                list.push((path, segment.clauses.want(*id)));
            }
            sort_by_path(&registry.names, &mut list);
            lists.push(list.into_iter().map(|(path, want)| to.clause(path, want)).collect());
        }
        for place in left {
            to.add(segment.filter(place), lists.clone(), segment.ruled(entry));
        }
    }
}
