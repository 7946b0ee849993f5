//! Which of the mailboxes a payload goes to.

use xxhash_rust::xxh3::xxh3_64;

/// What a payload is about, as the number that is taken modulo the width.
///
/// Integers stand for themselves, so that a mailbox can be worked out by hand and neighbouring numbers spread evenly; any
/// other text stands for its XXH3-64 hash, which is the same on every machine and in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(i128);

impl Key {
    /// From an ordering key. A decimal integer that fits an `i64` or a `u64`, written as JSON writes it (no sign `+`, no
    /// leading zeros, not `-0`), is an integer; everything else is hashed.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        integer(text).map_or_else(|| Self(i128::from(xxh3_64(text.as_bytes()))), Self)
    }
}

impl From<i64> for Key {
    fn from(number: i64) -> Self {
        Self(i128::from(number))
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Self {
        Self(i128::from(number))
    }
}

/// The bucket of a payload, 0 .. `width`: Euclidean `key mod width`, so never negative. Bucket 0 is the unsplit mailbox: a
/// payload without a key is in it at any width, and a doubling moves half of the keys from 1 to 2 as it does further up.
/// A width of 0 is taken as 1.
#[must_use]
pub fn bucket(key: Option<&Key>, width: u32) -> u32 {
    let Some(Key(number)) = key else { return 0 };
    u32::try_from(number.rem_euclid(i128::from(width.max(1)))).unwrap_or(0)
}

/// The value of a canonical integer in the range of `i64` or `u64`.
fn integer(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    text.parse::<i64>().map(i128::from).or_else(|_| text.parse::<u64>().map(i128::from)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str, width: u32) -> u32 {
        bucket(Some(&Key::from_text(text)), width)
    }

    /// S03, S05: the table "where it lands": bucket 0 is the mailbox that the original names without a bucket.
    #[test]
    fn s03_s05_where_it_lands() {
        for (key, width, expected) in [
            (Some("42"), 1, 0),
            (Some("42"), 2, 0),
            (Some("42"), 4, 2),
            (Some("42"), 8, 2),
            (Some("42"), 16, 10),
            (Some("42"), 64, 42),
            (Some("-5"), 4, 3),
            (Some("42"), 10, 2),
            (None, 1, 0),
            (None, 64, 0),
            (Some("42"), 0, 0),
        ] {
            let key = key.map(Key::from_text);
            assert_eq!(bucket(key.as_ref(), width), expected, "{key:?} over {width}");
        }
    }

    /// S04: text and number of one key are one key: a provider that starts to quote its ids moves nothing.
    #[test]
    fn s04_an_integer_is_the_same_key_as_its_text() {
        for number in [0, 1, -1, 42, i64::MIN, i64::MAX] {
            assert_eq!(Key::from_text(&number.to_string()), Key::from(number));
        }
        assert_eq!(Key::from_text("18446744073709551615"), Key::from(u64::MAX));
    }

    /// S04: a key that is no integer is a key all the same, by its hash.
    #[test]
    fn s04_any_other_text_is_hashed() {
        for text in [
            "",
            "-",
            "-0",
            "007",
            "+5",
            " 5",
            "5 ",
            "1.0",
            "1e3",
            "0x10",
            "٣",
            "a",
            "--1",
            "18446744073709551616",
            "-9223372036854775809",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(Key::from_text(text), Key::from(xxh3_64(text.as_bytes())), "{text}");
        }
    }

    /// S03: a change here re-maps every key of every running deployment.
    #[test]
    fn s03_hashes_are_pinned() {
        assert_eq!(xxh3_64(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(["acme/widgets", "PROJ-17", "007"].map(|text| of(text, 4096)), [3841, 2253, 3458]);
    }

    /// Exact over a full period of both divisors.
    fn moved(from: u32, to: u32) -> (u64, u64) {
        let period = u64::from(from) * u64::from(to);
        let differs = |key: &u64| {
            let key = Key::from(*key);
            bucket(Some(&key), from) != bucket(Some(&key), to)
        };
        (u64::try_from((0..period).filter(differs).count()).expect("small"), period)
    }

    /// S11: each doubling moves exactly half of the keys, 1 to 2 as well, because bucket 0 of a split is the unsplit
    /// mailbox.
    #[test]
    fn s11_every_doubling_moves_exactly_half_of_the_keys() {
        for width in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048] {
            let (moved, of) = moved(width, 2 * width);
            assert_eq!(moved * 2, of, "{width} to {}", 2 * width);
        }
        let key = |number: u64| Key::from(number);
        let stays = |number: &u64| bucket(Some(&key(*number)), 8) == bucket(Some(&key(*number)), 16);
        assert_eq!((0..10_000).filter(stays).count(), 5_000);
    }

    /// S11: why the cap is on the ladder and why a class does not change between fixed and rate-sized lightly.
    #[test]
    fn s11_other_steps_move_more() {
        for (from, to, percent) in
            [(1, 4, 75), (1, 64, 98), (64, 96, 67), (64, 100, 96), (10, 16, 88), (100, 64, 96)]
        {
            let (moved, of) = moved(from, to);
            assert_eq!((moved * 200 + of) / (2 * of), percent, "{from} to {to}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// S03: 200 cases of 5,000 keys: a million keys, over every width.
        #[test]
        fn s03_a_bucket_is_the_euclidean_remainder(seed in any::<u64>(), width in 1u32..=4096) {
            let mut number = seed;
            for _ in 0..5_000 {
                // A multiplicative step visits numbers of every size and sign.
                number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x632b_e59b_d9b4_e019);
                let signed = number.cast_signed();
                prop_assert_eq!(u64::from(bucket(Some(&Key::from(number)), width)), number % u64::from(width));
                prop_assert_eq!(i64::from(bucket(Some(&Key::from(signed)), width)), signed.rem_euclid(i64::from(width)));
            }
        }

        /// S04: no text of a key fails, and each has one place within the width.
        #[test]
        fn s04_no_text_fails(text in any::<String>(), width in any::<u32>()) {
            prop_assert!(of(&text, width) < width.max(1));
            prop_assert_eq!(of(&text, width), of(&text, width));
        }

        /// S11: a key that moves when the width doubles moves to one place only; narrower again, it is back.
        #[test]
        fn s11_a_doubling_moves_a_key_to_its_sibling(text in "[a-z0-9/]{0,12}", level in 0u32..12) {
            let (narrow, wide) = (of(&text, 1 << level), of(&text, 2 << level));
            prop_assert!(wide == narrow || wide == narrow + (1 << level));
        }
    }
}
