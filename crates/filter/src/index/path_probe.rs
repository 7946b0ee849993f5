//! What is looked up for the values of one path, beside equality.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::probes::{Affixes, AffixesBuilder, Edge, Grams, GramsBuilder, Interval, Intervals};
use crate::fold::Case;
use crate::ir::{ADDRESS_MAX_CHARS, Bound, TextTest};
use crate::moment::{Moment, read_moment};
use crate::number::Decimal;

/// What is asked of a path, as bits.
pub(crate) mod flag {
    use crate::index::hash::Tag;

    /// Equal texts.
    pub(crate) const TEXT: u8 = 1;
    /// Equal numbers.
    pub(crate) const NUMBER: u8 = 2;
    /// `null`, `true`, `false`.
    pub(crate) const WORD: u8 = 4;
    /// Texts that are equal when folded.
    pub(crate) const FOLD: u8 = 8;
    /// Texts that are equal but for the case of `A-Z`.
    pub(crate) const FOLD_ASCII: u8 = 16;
    /// The path has a [`PathProbe`](super::PathProbe).
    pub(crate) const OTHER: u8 = 32;

    pub(crate) fn of(tag: Tag) -> u8 {
        match tag {
            Tag::Null | Tag::True | Tag::False => WORD,
            Tag::Number => NUMBER,
            Tag::Text => TEXT,
            Tag::Fold => FOLD,
            Tag::FoldAscii => FOLD_ASCII,
        }
    }
}

/// The end of a text that an operand stands at, and which letters are the same.
type Side = (End, Case);

/// An end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Start,
    /// Operands and texts are compared backwards.
    Back,
}

/// Collects operands of one path.
#[derive(Debug, Default)]
pub(crate) struct PathProbeBuilder {
    pub(crate) present: Vec<u32>,
    pub(crate) ranges: Vec<Interval<Bound>>,
    pub(crate) networks: Vec<Interval<IpAddr>>,
    pub(crate) moments: Vec<Interval<Moment>>,
    any_text: Vec<u32>,
    affixes: Vec<(Side, AffixesBuilder)>,
    grams: GramsBuilder,
}

/// The structures of one path.
#[derive(Debug, Default)]
pub(crate) struct PathProbe {
    present: Vec<u32>,
    any_text: Vec<u32>,
    affixes: Vec<(Side, Affixes)>,
    grams: Grams,
    ranges: Intervals<Bound>,
    networks: Intervals<IpAddr>,
    moments: Intervals<Moment>,
}

impl PathProbeBuilder {
    /// Adds a test of texts other than equality.
    pub(crate) fn text(&mut self, test: &TextTest, conjunction: u32) {
        match test {
            TextTest::Starts(case, operand) => self.affix((End::Start, *case), operand, conjunction),
            TextTest::Ends(case, operand) => self.affix((End::Back, *case), operand, conjunction),
            TextTest::Equals(..) => self.any_text.push(conjunction),
            TextTest::Like(glob) => match glob.pieces.as_slice() {
                [first, ..] if !first.is_empty() => {
                    self.affix((End::Start, glob.case), first, conjunction);
                }
                [.., last] if !last.is_empty() => self.affix((End::Back, glob.case), last, conjunction),
                pieces => {
                    if glob.case != Case::Sensitive
                        || !self.grams.add(pieces.iter().map(|piece| piece.as_bytes()), conjunction)
                    {
                        self.any_text.push(conjunction);
                    }
                }
            },
        }
    }

    fn affix(&mut self, side: Side, operand: &str, conjunction: u32) {
        if operand.is_empty() {
            self.any_text.push(conjunction);
            return;
        }
        let at = self.affixes.iter().position(|(known, _)| *known == side).unwrap_or_else(|| {
            self.affixes.push((side, AffixesBuilder::default()));
            self.affixes.len() - 1
        });
        let bytes: Vec<u8> = match side.0 {
            End::Start => operand.bytes().collect(),
            End::Back => operand.bytes().rev().collect(),
        };
        self.affixes[at].1.add(bytes, conjunction);
    }

    pub(crate) fn finish(self) -> PathProbe {
        PathProbe {
            present: sorted(self.present),
            any_text: sorted(self.any_text),
            affixes: self.affixes.into_iter().map(|(side, builder)| (side, builder.finish())).collect(),
            grams: self.grams.finish(),
            ranges: Intervals::new(self.ranges),
            networks: Intervals::new(self.networks),
            moments: Intervals::new(self.moments),
        }
    }
}

fn sorted(mut conjunctions: Vec<u32>) -> Vec<u32> {
    conjunctions.sort_unstable();
    conjunctions.dedup();
    conjunctions.shrink_to_fit();
    conjunctions
}

impl PathProbe {
    /// Conjunctions that any value leads to.
    pub(crate) fn present(&self) -> &[u32] {
        &self.present
    }

    /// Conjunctions that any text leads to.
    pub(crate) fn any_text(&self) -> &[u32] {
        &self.any_text
    }

    /// Conjunctions whose ranges a number lies in.
    pub(crate) fn number(&self, number: &Decimal<'_>, found: impl FnMut(u32)) {
        if self.ranges.is_empty() {
            return;
        }
        self.ranges.find(
            |lower| lower.allows(number, Ordering::Greater),
            |upper| upper.allows(number, Ordering::Less),
            found,
        );
    }

    /// Conjunctions that this text leads to, beside those of any text. `bytes` and `seen` are memory to work in.
    pub(crate) fn text(
        &self,
        text: &str,
        bytes: &mut Vec<u8>,
        seen: &mut Vec<u64>,
        mut found: impl FnMut(&[u32]),
    ) {
        for ((end, case), affixes) in &self.affixes {
            if affixes.is_empty() {
                continue;
            }
            if (*end, *case) == (End::Start, Case::Sensitive) {
                affixes.find(text.as_bytes(), &mut found);
            } else {
                write_end(text, *end, *case, affixes.longest(), bytes);
                affixes.find(bytes, &mut found);
            }
        }
        if !self.grams.is_empty() {
            self.grams.find(text.as_bytes(), seen, &mut found);
        }
        if !self.moments.is_empty()
            && let Some(moment) = read_moment(text)
        {
            self.moments.find(|l| *l <= moment, |u| moment <= *u, |conjunction| found(&[conjunction]));
        }
        if !self.networks.is_empty()
            && text.len() <= ADDRESS_MAX_CHARS
            && let Ok(address) = text.parse::<IpAddr>()
        {
            let above = |lower: &IpAddr| *lower <= address;
            let below = |upper: &IpAddr| address <= *upper;
            self.networks.find(above, below, |conjunction| found(&[conjunction]));
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.present.capacity() + self.any_text.capacity()) * 4
            + self
                .affixes
                .iter()
                .map(|(_, affixes)| affixes.heap_bytes() + size_of::<Affixes>())
                .sum::<usize>()
            + self.grams.heap_bytes()
            + self.ranges.heap_bytes()
            + self.networks.heap_bytes()
            + self.moments.heap_bytes()
    }
}

/// At least `length` bytes of an end of a text, folded, from the back when it is that end.
fn write_end(text: &str, end: End, case: Case, length: usize, bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut buffer = [0; 4];
    match end {
        End::Start => {
            for c in text.chars() {
                bytes.extend_from_slice(case.fold(c).encode_utf8(&mut buffer).as_bytes());
                if bytes.len() >= length {
                    return;
                }
            }
        }
        End::Back => {
            for c in text.chars().rev() {
                bytes.extend(case.fold(c).encode_utf8(&mut buffer).bytes().rev());
                if bytes.len() >= length {
                    return;
                }
            }
        }
    }
}

impl Edge for Bound {
    fn as_lower(&self, other: &Self) -> Ordering {
        let inclusive_first = other.inclusive.cmp(&self.inclusive);
        self.number.as_decimal().compare(&other.number.as_decimal()).then(inclusive_first)
    }

    fn as_upper(&self, other: &Self) -> Ordering {
        let inclusive_last = self.inclusive.cmp(&other.inclusive);
        self.number.as_decimal().compare(&other.number.as_decimal()).then(inclusive_last)
    }
}

impl Edge for Moment {
    fn as_lower(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }

    fn as_upper(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Edge for IpAddr {
    fn as_lower(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }

    fn as_upper(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}
