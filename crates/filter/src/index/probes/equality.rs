//! The equality table: open addressing over 64-bit keys, behind a filter of some ten bits per key that stays in the cache.

use crate::limits::INDEX_POSTING_MAX;

/// Marks an entry of `values` as the place of a [`List`].
const IS_LIST: u32 = 1 << 31;

/// Keys per slot, in tenths.
const LOAD_TENTHS: usize = 7;

/// Keys per 64-bit word of the filter.
const KEYS_PER_WORD: usize = 5;

/// Conjunctions behind one key.
#[derive(Debug, Clone, Copy)]
struct List {
    start: u32,
    end: u32,
    /// Of a list that is told apart by second values: where those without one begin. They stand last.
    rest: Option<u32>,
}

/// What stands behind a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'t> {
    /// These conjunctions are candidates.
    Candidates(&'t [u32]),
    /// Too many: `rest` are candidates, the others have a second value and stand behind the pairs with it.
    Split {
        /// All of them, for events with too many values.
        all: &'t [u32],
        /// Those without a second value.
        rest: &'t [u32],
    },
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Equality {
    filter: Box<[u64]>,
    keys: Box<[u64]>,
    values: Box<[u32]>,
    lists: Vec<List>,
    /// Conjunctions of the lists, and of single ones a place for each, so that a slice can be given.
    members: Vec<u32>,
}

/// Collects keys.
#[derive(Debug, Default)]
pub(crate) struct EqualityBuilder {
    pairs: Vec<(u64, u32)>,
}

impl EqualityBuilder {
    pub(crate) fn add(&mut self, key: u64, conjunction: u32) {
        self.pairs.push((key, conjunction));
    }

    /// Builds the table. `second` gives the key of a second value that a conjunction needs, 0 when there is none.
    pub(crate) fn finish(mut self, second: &[u64], pair: impl Fn(u64, u64) -> u64) -> Equality {
        self.pairs.sort_unstable();
        self.pairs.dedup();
        let mut split = Vec::new();
        let mut more = Vec::new();
        for group in self.pairs.chunk_by(|a, b| a.0 == b.0) {
            let told_apart = group.iter().filter(|(_, c)| second[*c as usize] != 0);
            if group.len() > INDEX_POSTING_MAX && told_apart.clone().count() * 2 > group.len() {
                split.push(group[0].0);
                more.extend(told_apart.map(|(key, c)| (pair(*key, second[*c as usize]), *c)));
            }
        }
        if !more.is_empty() {
            self.pairs.append(&mut more);
            self.pairs.sort_unstable();
            self.pairs.dedup();
        }
        let mut table = Equality::sized(self.pairs.chunk_by(|a, b| a.0 == b.0).count());
        for group in self.pairs.chunk_by(|a, b| a.0 == b.0) {
            let is_split = split.binary_search(&group[0].0).is_ok();
            table.insert(group, is_split, second);
        }
        table.members.shrink_to_fit();
        table.lists.shrink_to_fit();
        table
    }
}

impl Equality {
    fn sized(keys: usize) -> Self {
        if keys == 0 {
            return Self::default();
        }
        Self {
            filter: vec![0; keys.div_ceil(KEYS_PER_WORD)].into(),
            keys: vec![0; keys * 10 / LOAD_TENTHS + 1].into(),
            values: vec![0; keys * 10 / LOAD_TENTHS + 1].into(),
            ..Self::default()
        }
    }

    fn insert(&mut self, group: &[(u64, u32)], is_split: bool, second: &[u64]) {
        let key = group[0].0;
        let (word, bits) = self.filter_place(key);
        self.filter[word] |= bits;
        let mut slot = self.slot(key);
        while self.keys[slot] != 0 {
            slot = if slot + 1 == self.keys.len() { 0 } else { slot + 1 };
        }
        self.keys[slot] = key;
        self.values[slot] = match group {
            [(_, only)] if !is_split => *only,
            _ => {
                let start = self.members.len() as u32;
                let has_second = |c: u32| is_split && second[c as usize] != 0;
                self.members.extend(group.iter().map(|(_, c)| *c).filter(|c| has_second(*c)));
                let rest = is_split.then_some(self.members.len() as u32);
                self.members.extend(group.iter().map(|(_, c)| *c).filter(|c| !has_second(*c)));
                self.lists.push(List { start, end: self.members.len() as u32, rest });
                IS_LIST | (self.lists.len() as u32 - 1)
            }
        };
    }

    #[inline]
    fn filter_place(&self, key: u64) -> (usize, u64) {
        let word = ((key & 0xffff_ffff) * self.filter.len() as u64) >> 32;
        let bit = |shift: u32| 1_u64 << ((key >> shift) & 63);
        (word as usize, bit(32) | bit(38) | bit(44) | bit(50))
    }

    #[inline]
    fn slot(&self, key: u64) -> usize {
        ((u128::from(key) * self.keys.len() as u128) >> 64) as usize
    }

    /// What stands behind a key.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<Found<'_>> {
        if self.filter.is_empty() {
            return None;
        }
        let (word, bits) = self.filter_place(key);
        if self.filter[word] & bits != bits {
            return None;
        }
        self.look_up(key)
    }

    #[inline(never)]
    fn look_up(&self, key: u64) -> Option<Found<'_>> {
        let mut slot = self.slot(key);
        // The table is never full, so an empty slot ends the search.
        while self.keys[slot] != key {
            if self.keys[slot] == 0 {
                return None;
            }
            slot = if slot + 1 == self.keys.len() { 0 } else { slot + 1 };
        }
        let value = &self.values[slot];
        if value & IS_LIST == 0 {
            return Some(Found::Candidates(std::slice::from_ref(value)));
        }
        let List { start, end, rest } = self.lists[(value & !IS_LIST) as usize];
        let members = |from: u32| &self.members[from as usize..end as usize];
        Some(match rest {
            None => Found::Candidates(members(start)),
            Some(rest) => Found::Split { all: members(start), rest: members(rest) },
        })
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.filter.len() * 8
            + self.keys.len() * 12
            + self.lists.capacity() * size_of::<List>()
            + self.members.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(found: Option<Found<'_>>) -> Vec<u32> {
        match found {
            None => vec![],
            Some(Found::Candidates(list)) => list.to_vec(),
            Some(Found::Split { .. }) => panic!("is split"),
        }
    }

    fn spread(n: u64) -> u64 {
        (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn every_key_is_found_and_no_other() {
        for count in [0, 1, 2, 10, 1000] {
            let mut builder = EqualityBuilder::default();
            for n in 0..count {
                builder.add(spread(n), n as u32);
                builder.add(spread(n), n as u32 + 5000);
                builder.add(spread(n), n as u32 + 5000);
            }
            let table = builder.finish(&vec![0; 6000], |a, b| a ^ b);
            for n in 0..count {
                assert_eq!(candidates(table.find(spread(n))), [n as u32, n as u32 + 5000]);
            }
            for n in count..count + 1000 {
                assert!(candidates(table.find(spread(n))).is_empty());
            }
        }
    }

    #[test]
    fn keys_that_want_one_slot_are_told_apart() {
        let mut builder = EqualityBuilder::default();
        let crowded: Vec<u64> = (1..=200).map(|n| u64::MAX - n).collect();
        for (n, key) in crowded.iter().enumerate() {
            builder.add(*key, n as u32);
        }
        let table = builder.finish(&[0; 200], |a, b| a ^ b);
        for (n, key) in crowded.iter().enumerate() {
            assert_eq!(candidates(table.find(*key)), [n as u32]);
        }
        assert!(table.find(u64::MAX).is_none());
    }

    #[test]
    fn long_lists_are_split_by_the_second_value() {
        let mut builder = EqualityBuilder::default();
        let count = 2 * INDEX_POSTING_MAX as u32;
        let mut second = vec![0; count as usize];
        for conjunction in 0..count {
            builder.add(77, conjunction);
            // Three without a second value.
            second[conjunction as usize] = if conjunction < 3 { 0 } else { spread(u64::from(conjunction)) };
        }
        let table = builder.finish(&second, super::super::super::hash::pair);
        let Some(Found::Split { all, rest }) = table.find(77) else { panic!("not split") };
        assert_eq!((all.len(), rest), (count as usize, &[0, 1, 2][..]));
        for conjunction in 3..count {
            let key = super::super::super::hash::pair(77, second[conjunction as usize]);
            assert_eq!(candidates(table.find(key)), [conjunction]);
        }
    }
}
