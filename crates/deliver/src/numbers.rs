//! Tables whose keys are numbers that nobody outside chooses: offsets of records, ids of tasks. Nobody can make them collide,
//! and they are looked up a dozen times for each delivery, so a hash of one multiplication does.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by offset or by task.
pub(crate) type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// 2^64 divided by the golden ratio: numbers that follow each other are spread over all bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes numbers.
#[derive(Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn write_u64(&mut self, number: u64) {
        // The table takes some bits from the top and some from the bottom.
        let spread = (self.0 ^ number).wrapping_mul(SPREAD);
        self.0 = spread ^ (spread >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(whole));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn offsets_that_follow_each_other_are_spread_at_both_ends() {
        let of = BuildHasherDefault::<Mixed>::default();
        for step in [1, 2, 64, 1 << 20] {
            let hashes: Vec<u64> = (0..1024_u64).map(|n| of.hash_one(n * step)).collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0x3ff).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(low.len() > 400 && high.len() > 100, "{step}: {} and {}", low.len(), high.len());
        }
    }

    #[test]
    fn other_numbers_are_other_hashes() {
        let of = BuildHasherDefault::<Mixed>::default();
        let hashes: HashSet<u64> = (0..10_000_u64).map(|n| of.hash_one(n)).collect();
        assert_eq!(hashes.len(), 10_000);
        assert_ne!(of.hash_one("a"), of.hash_one("b"));
    }
}
