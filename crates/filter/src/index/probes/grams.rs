//! Three bytes that a text must hold somewhere: what finds wildcards without a literal end. One look per position, however
//! many patterns there are; nothing is ever merged into an automaton.

use std::collections::HashMap;

/// Bytes that are looked for.
pub(crate) const GRAM_BYTES: usize = 3;

/// Words of the filter in front.
const FILTER_WORDS: usize = 64;

/// The grams of one path.
#[derive(Debug, Default)]
pub(crate) struct Grams {
    filter: Vec<u64>,
    /// Sorted.
    grams: Vec<u32>,
    /// By gram: where its conjunctions begin; one more at the end.
    starts: Vec<u32>,
    members: Vec<u32>,
}

/// Collects patterns.
#[derive(Debug, Default)]
pub(crate) struct GramsBuilder {
    pairs: Vec<(u32, u32)>,
    used: HashMap<u32, u32>,
}

fn gram(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |gram, byte| gram << 8 | u32::from(*byte))
}

#[inline]
fn filter_place(gram: u32) -> (usize, u64) {
    let hash = gram.wrapping_mul(0x9e37_79b1) >> 20;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

impl GramsBuilder {
    /// Adds a pattern by the gram of its pieces that the fewest others stand behind. False when no piece is long enough.
    pub(crate) fn add<'p>(&mut self, pieces: impl Iterator<Item = &'p [u8]>, conjunction: u32) -> bool {
        let grams = pieces.flat_map(|piece| piece.windows(GRAM_BYTES)).map(gram);
        let Some(rarest) = grams.min_by_key(|gram| self.used.get(gram).copied().unwrap_or(0)) else {
            return false;
        };
        *self.used.entry(rarest).or_insert(0) += 1;
        self.pairs.push((rarest, conjunction));
        true
    }

    pub(crate) fn finish(mut self) -> Grams {
        if self.pairs.is_empty() {
            return Grams::default();
        }
        self.pairs.sort_unstable();
        self.pairs.dedup();
        let mut built = Grams { filter: vec![0; FILTER_WORDS], ..Grams::default() };
        for group in self.pairs.chunk_by(|a, b| a.0 == b.0) {
            let (word, bit) = filter_place(group[0].0);
            built.filter[word] |= bit;
            built.grams.push(group[0].0);
            built.starts.push(built.members.len() as u32);
            built.members.extend(group.iter().map(|(_, conjunction)| *conjunction));
        }
        built.starts.push(built.members.len() as u32);
        built
    }
}

impl Grams {
    pub(crate) fn is_empty(&self) -> bool {
        self.grams.is_empty()
    }

    /// Gives the conjunctions behind every gram of `text`, each gram once. `seen` is memory to work in.
    pub(crate) fn find(&self, text: &[u8], seen: &mut Vec<u64>, mut found: impl FnMut(&[u32])) {
        seen.clear();
        for window in text.windows(GRAM_BYTES) {
            let gram = gram(window);
            let (word, bit) = filter_place(gram);
            if self.filter[word] & bit == 0 {
                continue;
            }
            let Ok(at) = self.grams.binary_search(&gram) else { continue };
            if seen.is_empty() {
                seen.resize(self.grams.len().div_ceil(64), 0);
            }
            let mark = 1 << (at & 63);
            if seen[at >> 6] & mark == 0 {
                seen[at >> 6] |= mark;
                found(&self.members[self.starts[at] as usize..self.starts[at + 1] as usize]);
            }
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.filter.capacity() * 8
            + (self.grams.capacity() + self.starts.capacity() + self.members.capacity()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_when_its_gram_is_there() {
        let mut builder = GramsBuilder::default();
        assert!(builder.add(["ab".as_bytes(), b"cdef"].into_iter(), 1));
        assert!(builder.add([b"cdef".as_slice()].into_iter(), 2));
        assert!(!builder.add([b"ab".as_slice(), b""].into_iter(), 3));
        let grams = builder.finish();
        let find = |text: &str| {
            let mut found = Vec::new();
            grams.find(text.as_bytes(), &mut Vec::new(), |list| found.extend_from_slice(list));
            found.sort_unstable();
            found
        };
        assert_eq!(find("xcdefx"), [1, 2], "one gram each, and not the same");
        assert_eq!(find(&"cdef".repeat(1000)), [1, 2]);
        assert_eq!(find("cdx"), [0; 0]);
        assert_eq!(find(""), [0; 0]);
    }
}
