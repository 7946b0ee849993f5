//! Access predicates: the one clause of a conjunction that leads to it.
//!
//! A conjunction is looked at only when its access clause *may* hold; the others are verified then. A clause that accepts
//! absence leads nowhere. Equality is preferred to everything else, and of two equal ones the rarer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::hash::{Tag, key, number_hash, text_hash};
use super::names::PathId;
use super::path_probe::{PathProbe, PathProbeBuilder, flag};
use super::probes::{Equality, EqualityBuilder, GRAM_BYTES, Interval};
use crate::fold::Case;
use crate::ir::{Range, TextTest, ValueSet, Want, Wanted};

/// How telling a clause is: less is better. `None`: it leads nowhere.
pub(crate) fn rank(want: Want<'_>) -> Option<u8> {
    match want {
        Want::Text(_) => Some(0),
        Want::Full(wanted) if wanted.absent => None,
        Want::Full(wanted) if takes_any_leaf(wanted) => Some(5),
        Want::Full(wanted) => Some(leading_sets(wanted).map(rank_of_set).max().unwrap_or(0)),
    }
}

/// The sets of values of which a match has one. Of a list that must have several, the most telling leads to it.
fn leading_sets(wanted: &Wanted) -> impl Iterator<Item = &ValueSet> {
    let best = |sets: &'_ Vec<ValueSet>| {
        sets.iter().enumerate().min_by_key(|(_, set)| rank_of_set(set)).map(|(i, _)| i)
    };
    let of_lists = wanted.all_of.iter().filter_map(move |sets| best(sets).and_then(|i| sets.get(i)));
    std::iter::once(&wanted.any_of).chain(of_lists)
}

fn rank_of_set(set: &ValueSet) -> u8 {
    let texts = set.texts.iter().map(|test| match test {
        TextTest::Equals(..) => 0,
        TextTest::Starts(_, text) | TextTest::Ends(_, text) if text.is_empty() => 5,
        TextTest::Starts(..) | TextTest::Ends(..) => 1,
        TextTest::Like(glob) => match glob.pieces.as_slice() {
            [first, .., last] if !first.is_empty() || !last.is_empty() => 1,
            pieces
                if glob.case == Case::Sensitive && pieces.iter().any(|piece| piece.len() >= GRAM_BYTES) =>
            {
                3
            }
            _ => 5,
        },
    });
    let bounded = |both: bool| if both { 2 } else { 4 };
    let ranges = set.ranges.iter().map(|range| bounded(range.lower.is_some() && range.upper.is_some()));
    let moments = set.moments.iter().map(|time| bounded(time.lower.is_some() && time.upper.is_some()));
    let networks = set.networks.iter().map(|_| 2);
    // With nothing to accept it never holds, and equality with nothing leads nowhere, as it should.
    texts.chain(ranges).chain(moments).chain(networks).max().unwrap_or(0)
}

fn takes_any_leaf(wanted: &Wanted) -> bool {
    wanted.present || !wanted.other_than.is_empty() || !wanted.none_of.is_empty()
}

/// The key of the only value that a clause accepts, when it is one.
pub(crate) fn only_key(path: PathId, want: Want<'_>) -> Option<u64> {
    let wanted = match want {
        Want::Text(text) => return Some(key(path, Tag::Text, text_hash(text.as_bytes()))),
        Want::Full(wanted) => wanted,
    };
    let ValueSet { null, yes, no, strings, numbers, texts, ranges, networks, moments } = &wanted.any_of;
    if wanted.absent
        || takes_any_leaf(wanted)
        || !wanted.all_of.is_empty()
        || !moments.is_empty()
        || !strings.is_empty()
        || !texts.is_empty()
        || !ranges.is_empty()
        || !networks.is_empty()
    {
        return None;
    }
    match (null, yes, no, numbers.as_slice()) {
        (false, false, false, [number]) => Some(key(path, Tag::Number, number_hash(&number.as_decimal()))),
        (true, false, false, []) => Some(key(path, Tag::Null, 0)),
        (false, true, false, []) => Some(key(path, Tag::True, 0)),
        (false, false, true, []) => Some(key(path, Tag::False, 0)),
        _ => None,
    }
}

/// Collects what leads to conjunctions.
#[derive(Debug, Default)]
pub(crate) struct AccessBuilder {
    equality: EqualityBuilder,
    paths: BTreeMap<PathId, PathProbeBuilder>,
    flags: BTreeMap<PathId, u8>,
}

/// What leads to conjunctions.
#[derive(Debug, Default)]
pub(crate) struct Access {
    pub(crate) equality: Equality,
    /// Sorted by path.
    pub(crate) probes: Vec<(PathId, PathProbe)>,
    /// What is asked of each path, sorted.
    pub(crate) flags: Vec<(PathId, u8)>,
}

impl AccessBuilder {
    /// A value at this path is looked up, or remembered.
    pub(crate) fn ask(&mut self, path: PathId, what: u8) {
        *self.flags.entry(path).or_insert(0) |= what;
    }

    fn equal(&mut self, path: PathId, tag: Tag, hash: u64, conjunction: u32) {
        self.ask(path, flag::of(tag));
        self.equality.add(key(path, tag, hash), conjunction);
    }

    /// Leads to the conjunction from everything that the clause accepts.
    pub(crate) fn add(&mut self, path: PathId, want: Want<'_>, conjunction: u32) {
        let wanted = match want {
            Want::Text(text) => return self.equal(path, Tag::Text, text_hash(text.as_bytes()), conjunction),
            Want::Full(wanted) => wanted,
        };
        if takes_any_leaf(wanted) {
            self.ask(path, flag::OTHER);
            self.paths.entry(path).or_default().present.push(conjunction);
            return;
        }
        for set in leading_sets(wanted) {
            self.set(path, set, conjunction);
        }
    }

    fn set(&mut self, path: PathId, set: &ValueSet, conjunction: u32) {
        let ValueSet { null, yes, no, strings, numbers, texts, ranges, networks, moments } = set;
        for (word, tag) in [(null, Tag::Null), (yes, Tag::True), (no, Tag::False)] {
            if *word {
                self.equal(path, tag, 0, conjunction);
            }
        }
        for text in strings {
            self.equal(path, Tag::Text, text_hash(text.as_bytes()), conjunction);
        }
        for number in numbers {
            self.equal(path, Tag::Number, number_hash(&number.as_decimal()), conjunction);
        }
        for test in texts {
            self.text(path, test, conjunction);
        }
        for range in ranges {
            self.ask(path, flag::OTHER);
            let Range { lower, upper } = range.clone();
            self.paths.entry(path).or_default().ranges.push(Interval { lower, upper, conjunction });
        }
        for time in moments {
            self.ask(path, flag::OTHER);
            let interval = Interval { lower: time.lower, upper: time.upper, conjunction };
            self.paths.entry(path).or_default().moments.push(interval);
        }
        for network in networks {
            self.ask(path, flag::OTHER);
            let (lower, upper): (IpAddr, IpAddr) = (network.network(), network.broadcast());
            let interval = Interval { lower: Some(lower), upper: Some(upper), conjunction };
            self.paths.entry(path).or_default().networks.push(interval);
        }
    }

    fn text(&mut self, path: PathId, test: &TextTest, conjunction: u32) {
        if let TextTest::Equals(case, text) = test {
            let tag = match case {
                Case::Sensitive => Tag::Text,
                Case::Fold => Tag::Fold,
                Case::FoldAscii => Tag::FoldAscii,
            };
            return self.equal(path, tag, text_hash(text.as_bytes()), conjunction);
        }
        self.ask(path, flag::OTHER);
        self.paths.entry(path).or_default().text(test, conjunction);
    }

    /// Builds everything. `second`: see [`EqualityBuilder::finish`].
    pub(crate) fn finish(self, second: &[u64]) -> Access {
        Access {
            equality: self.equality.finish(second, super::hash::pair),
            probes: self.paths.into_iter().map(|(path, builder)| (path, builder.finish())).collect(),
            flags: self.flags.into_iter().collect(),
        }
    }
}

impl Access {
    /// The structures of a path, when it has more than equality.
    pub(crate) fn probe(&self, path: PathId) -> Option<&PathProbe> {
        let found = self.probes.binary_search_by_key(&path, |(path, _)| *path).ok()?;
        Some(&self.probes[found].1)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.equality.heap_bytes()
            + self
                .probes
                .iter()
                .map(|(_, probe)| probe.heap_bytes() + size_of::<PathProbe>() + 4)
                .sum::<usize>()
            + self.flags.len() * 8
    }
}
