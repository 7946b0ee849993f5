//! Numbers as exact decimals: compared by value, never rounded.

use std::cmp::Ordering;

/// A JSON number in normal form, borrowing its digits: `±0.d1 d2 d3 … × 10^magnitude` with `d1` and the last digit
/// not 0. Zero (`-0` too) has no digits, no sign and magnitude 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    magnitude: i64,
    /// The significant digits stand around the point: `head` before it, `tail` after it.
    head: &'a [u8],
    tail: &'a [u8],
}

/// A [`Decimal`] that owns its digits: an operand of a filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    negative: bool,
    magnitude: i64,
    digits: Box<[u8]>,
}

/// Exponents saturate here: beyond every operand, and far from overflow when the length of a text is added.
const EXPONENT_SATURATED: i64 = 1 << 60;

impl<'a> Decimal<'a> {
    /// Reads the text of a number that a strict JSON scanner has accepted.
    pub(crate) fn read(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let (negative, bytes) = match bytes.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, bytes),
        };
        let mantissa_end = bytes.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(bytes.len());
        let (mantissa, exponent) = bytes.split_at(mantissa_end);
        let point = mantissa.iter().position(|b| *b == b'.').unwrap_or(mantissa.len());
        let head = trim_start(&mantissa[..point]);
        let tail = mantissa.get(point + 1..).unwrap_or_default();
        let tail = trim_end(tail);
        let exponent = read_exponent(exponent.get(1..).unwrap_or_default());
        let (head, tail, shift) = if head.is_empty() {
            let digits = trim_start(tail);
            (head, digits, -length(tail.len() - digits.len()))
        } else if tail.is_empty() {
            (trim_end(head), tail, length(head.len()))
        } else {
            (head, tail, length(head.len()))
        };
        if head.is_empty() && tail.is_empty() {
            return Decimal { negative: false, magnitude: 0, head, tail };
        }
        Decimal { negative, magnitude: shift + exponent, head, tail }
    }

    fn digits(&self) -> impl Iterator<Item = &u8> {
        self.head.iter().chain(self.tail)
    }

    fn is_zero(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }

    fn sign(&self) -> i8 {
        if self.is_zero() {
            0
        } else if self.negative {
            -1
        } else {
            1
        }
    }

    /// Exact order by value.
    pub(crate) fn compare(&self, other: &Decimal<'_>) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign != Ordering::Equal || self.is_zero() {
            return by_sign;
        }
        let by_size = self.magnitude.cmp(&other.magnitude).then_with(|| self.digits().cmp(other.digits()));
        if self.negative { by_size.reverse() } else { by_size }
    }

    /// The power of ten of the first digit, plus one. Only operands are bounded by it.
    pub(crate) fn magnitude(&self) -> i64 {
        self.magnitude
    }

    /// The number, when it is a whole one of 32 bits.
    pub(crate) fn to_i32(self) -> Option<i32> {
        if self.is_zero() {
            return Some(0);
        }
        // Ten digits hold every number of 32 bits; more would not fit in any case.
        let places = usize::try_from(self.magnitude).ok().filter(|places| *places <= 10)?;
        if self.head.len() + self.tail.len() > places {
            return None;
        }
        let digits = self.digits().copied().chain(std::iter::repeat(b'0')).take(places);
        let size = digits.fold(0_i64, |n, digit| n * 10 + i64::from(digit & 15));
        i32::try_from(if self.negative { -size } else { size }).ok()
    }

    /// The same for equal values; for different ones it may be the same.
    pub(crate) fn fingerprint(&self) -> u64 {
        let digits =
            self.digits().fold(0_u64, |n, digit| n.wrapping_mul(10).wrapping_add(u64::from(digit & 15)));
        let place = self.magnitude.cast_unsigned().wrapping_mul(2).wrapping_add(u64::from(self.negative));
        digits ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Copies the digits.
    pub(crate) fn to_operand(self) -> Operand {
        Operand {
            negative: self.negative,
            magnitude: self.magnitude,
            digits: self.digits().copied().collect(),
        }
    }
}

impl Operand {
    /// The borrowed form, to compare with.
    pub(crate) fn as_decimal(&self) -> Decimal<'_> {
        Decimal { negative: self.negative, magnitude: self.magnitude, head: &self.digits, tail: &[] }
    }
}

fn length(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(EXPONENT_SATURATED)
}

fn trim_start(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|d| **d == b'0').count();
    &digits[zeros..]
}

fn trim_end(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|d| **d == b'0').count();
    &digits[..digits.len() - zeros]
}

fn read_exponent(text: &[u8]) -> i64 {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let mut exponent: i64 = 0;
    for digit in digits {
        exponent =
            exponent.saturating_mul(10).saturating_add(i64::from(*digit - b'0')).min(EXPONENT_SATURATED);
    }
    if negative { -exponent } else { exponent }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compare(a: &str, b: &str) -> Ordering {
        Decimal::read(a).compare(&Decimal::read(b))
    }

    #[test]
    fn equal_values_are_equal_however_they_are_written() {
        for group in [
            &[
                "1", "1.0", "1.000", "10e-1", "0.1e1", "1e0", "1E0", "1e+0", "1E+00", "1e00", "0.01E2",
                "100e-2",
            ][..],
            &["0", "-0", "-0.0", "0e5", "0.000e-9", "-0E99999999999999999999"],
            &["-1200", "-1.2e3", "-12E2", "-0.0012e6", "-1200.00"],
            &["9007199254740993", "9007199254740993.0", "9007199254740993000e-3"],
            &["1e400", "10e399", "0.1e401"],
            &["1e-400", "0.01e-398"],
            &["100.5", "1005e-1", "0.1005E3"],
        ] {
            for a in group {
                for b in group {
                    assert_eq!(compare(a, b), Ordering::Equal, "{a} and {b}");
                }
            }
        }
    }

    #[test]
    fn order_is_exact() {
        let ascending = [
            "-1e99999999999999999999",
            "-1e400",
            "-9007199254740993",
            "-9007199254740992",
            "-10",
            "-9.99",
            "-1e-400",
            "-1e-99999999999999999999",
            "0",
            "1e-99999999999999999999",
            "1e-400",
            "0.1",
            "0.10000000000000001",
            "0.2",
            "1",
            "1.5",
            "2",
            "10",
            "10.5",
            "100",
            "9007199254740992",
            "9007199254740993",
            "12345678901234567890",
            "12345678901234567891",
            "1e400",
            "1.0000001e400",
            "1e99999999999999999999",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
                let (x, y) = (Decimal::read(a).to_operand(), Decimal::read(b).to_operand());
                assert_eq!(x.as_decimal().compare(&y.as_decimal()), i.cmp(&j), "operands {a} and {b}");
            }
        }
    }

    #[test]
    fn whole_numbers_of_32_bits() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0.0e7", Some(0)),
            ("1.0", Some(1)),
            ("1200e-2", Some(12)),
            ("0.0012E4", Some(12)),
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("1e10", None),
            ("1e99999999999999999999", None),
            ("1e-99999999999999999999", None),
            ("1.5", None),
            ("0.5", None),
        ] {
            assert_eq!(Decimal::read(text).to_i32(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_integers(a: i64, b: i64, shift in 0usize..4, zeros in 0usize..3) {
            let written = format!("{a}{}.{}e-{shift}", "0".repeat(shift), "0".repeat(zeros + 1));
            prop_assert_eq!(compare(&written, &b.to_string()), a.cmp(&b));
        }
    }
}
