//! The clauses of a segment: each once, a lone string in a shared arena, everything else as it was compiled.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::names::{Names, PathId};
use crate::ir::{ClauseId, Clauses, StepId, ValueSet, Want, Wanted};

/// What a clause wants, in eight bytes.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// `start`, `length` in the arena.
    Text(u32, u32),
    /// A place in `full`.
    Full(u32),
}

/// Clauses of a segment.
#[derive(Debug, Default)]
pub(crate) struct ClauseTable {
    paths: Vec<PathId>,
    contents: Vec<Content>,
    arena: String,
    full: Vec<Wanted>,
}

/// The only string that is wanted, when nothing else is.
pub(crate) fn only_text(wanted: &Wanted) -> Option<&str> {
    let Wanted { absent: false, present: false, any_of, other_than, none_of, all_of } = wanted else {
        return None;
    };
    let ValueSet { null: false, yes: false, no: false, strings, numbers, texts, ranges, networks, moments } =
        any_of
    else {
        return None;
    };
    let alone = other_than.is_empty()
        && none_of.is_empty()
        && all_of.is_empty()
        && moments.is_empty()
        && numbers.is_empty()
        && texts.is_empty()
        && ranges.is_empty()
        && networks.is_empty();
    match strings.as_slice() {
        [only] if alone => Some(only),
        _ => None,
    }
}

impl ClauseTable {
    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn path(&self, id: ClauseId) -> PathId {
        self.paths[id as usize]
    }

    pub(crate) fn want(&self, id: ClauseId) -> Want<'_> {
        match self.contents[id as usize] {
            Content::Text(start, length) => {
                Want::Text(&self.arena[start as usize..start as usize + length as usize])
            }
            Content::Full(at) => Want::Full(&self.full[at as usize]),
        }
    }

    /// Gives memory back that growing took.
    pub(crate) fn shrink(&mut self) {
        self.paths.shrink_to_fit();
        self.contents.shrink_to_fit();
        self.arena.shrink_to_fit();
        self.full.shrink_to_fit();
    }

    /// Bytes on the heap; of clauses that are not lone strings only their heads.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.paths.capacity() * 4
            + self.contents.capacity() * size_of::<Content>()
            + self.arena.capacity()
            + self.full.capacity() * size_of::<Wanted>()
    }

    fn push(&mut self, path: PathId, want: Want<'_>) -> ClauseId {
        let content = match want {
            Want::Text(text) => {
                let start = self.arena.len() as u32;
                self.arena.push_str(text);
                Content::Text(start, text.len() as u32)
            }
            Want::Full(wanted) => {
                self.full.push(wanted.clone());
                Content::Full(self.full.len() as u32 - 1)
            }
        };
        self.paths.push(path);
        self.contents.push(content);
        self.paths.len() as ClauseId - 1
    }
}

/// Finds clauses that are there already. Lives as long as a segment is built.
#[derive(Debug, Default)]
pub(crate) struct Interned {
    by_hash: HashMap<u64, ClauseId>,
}

impl Interned {
    /// The number of the clause; made when it is new.
    pub(crate) fn intern(&mut self, table: &mut ClauseTable, path: PathId, want: Want<'_>) -> ClauseId {
        let want = match want {
            Want::Full(wanted) => only_text(wanted).map_or(want, Want::Text),
            Want::Text(_) => want,
        };
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        match want {
            Want::Text(text) => text.hash(&mut hasher),
            Want::Full(wanted) => wanted.hash(&mut hasher),
        }
        match self.by_hash.entry(hasher.finish()) {
            Entry::Occupied(known) => {
                let id = *known.get();
                // Two contents with one hash are not shared: that costs memory, and nothing else.
                if table.path(id) == path && same(table.want(id), want) { id } else { table.push(path, want) }
            }
            Entry::Vacant(free) => *free.insert(table.push(path, want)),
        }
    }
}

fn same(left: Want<'_>, right: Want<'_>) -> bool {
    match (left, right) {
        (Want::Text(left), Want::Text(right)) => left == right,
        (Want::Full(left), Want::Full(right)) => left == right,
        (Want::Text(_), Want::Full(_)) | (Want::Full(_), Want::Text(_)) => false,
    }
}

/// A segment's clauses with the names of its index: what the evaluator asks.
pub(crate) struct NamedClauses<'s> {
    pub(crate) table: &'s ClauseTable,
    pub(crate) names: &'s Names,
}

impl Clauses for NamedClauses<'_> {
    fn attribute(&self, id: ClauseId) -> Option<&str> {
        self.names.attribute(self.table.path(id))
    }

    fn steps(&self, id: ClauseId) -> &[StepId] {
        self.names.steps(self.table.path(id))
    }

    fn wanted(&self, id: ClauseId) -> Want<'_> {
        self.table.want(id)
    }

    fn key(&self, id: StepId) -> &str {
        &self.names.keys[id as usize]
    }
}
