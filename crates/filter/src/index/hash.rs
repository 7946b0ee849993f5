//! Keys of the index: 64 bits that stand for "this value at this path". Equal values have equal keys; different ones may
//! have, so that a key only ever names candidates.

use xxhash_rust::xxh3::xxh3_64;

use super::names::PathId;
use crate::number::Decimal;

/// What kind of value a key stands for: `"1"` and `1` are told apart, and a folded text from a plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Null,
    True,
    False,
    Number,
    Text,
    Fold,
    FoldAscii,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes two words; never 0, which marks what is empty.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ b.rotate_left(29)) * u128::from(GOLDEN | 1 << 63);
    ((product >> 64) as u64 ^ product as u64).wrapping_add(b).max(1)
}

/// The hash of a text, or of a folded one.
#[inline]
pub(crate) fn text_hash(text: &[u8]) -> u64 {
    xxh3_64(text)
}

/// The hash of a number, however it is written.
pub(crate) fn number_hash(number: &Decimal<'_>) -> u64 {
    number.fingerprint()
}

/// The key of a value at a path.
#[inline]
pub(crate) fn key(path: PathId, tag: Tag, value_hash: u64) -> u64 {
    mix(value_hash, (u64::from(path) * 8 + tag as u64 + 1).wrapping_mul(GOLDEN))
}

/// The key of two values that an event has both of.
#[inline]
pub(crate) fn pair(first: u64, second: u64) -> u64 {
    mix(first.rotate_left(17), second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_path_kind_and_value_apart() {
        let mut keys = std::collections::HashSet::new();
        for path in 0..50 {
            for tag in [Tag::Null, Tag::True, Tag::False, Tag::Number, Tag::Text, Tag::Fold, Tag::FoldAscii] {
                for value in 0..50_u8 {
                    assert!(keys.insert(key(path, tag, text_hash(&[value]))));
                }
            }
        }
        assert_ne!(pair(1, 2), pair(2, 1));
    }

    #[test]
    fn equal_numbers_have_one_hash() {
        for group in
            [&["1", "1.0", "10e-1", "0.1e1"][..], &["0", "-0", "0.0e9"], &["12.5", "125e-1", "0.125E2"]]
        {
            for text in group {
                assert_eq!(
                    number_hash(&Decimal::read(text)),
                    number_hash(&Decimal::read(group[0])),
                    "{text}"
                );
            }
        }
        assert_ne!(number_hash(&Decimal::read("1")), number_hash(&Decimal::read("10")));
        assert_ne!(number_hash(&Decimal::read("1")), number_hash(&Decimal::read("-1")));
    }
}
