//! Reads `mailrail-sequence`: the number by which a receiver sees what it missed.
//!
//! By a parser of structured fields that is not ours, so that what is sent is proven to be one.

use sfv::{BareItem, Item, Parameters, Parser};

/// What the header says of a delivery: `17;key="9f86d081884c7d65";epoch="3.1042.0";offset=99812`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sequence {
    /// Its place among the deliveries of its key in this epoch, from 1, without a hole.
    pub number: u64,
    /// What is numbered: a hash of the ordering key, or of the mailbox for events without one.
    pub key: u64,
    /// Who numbered.
    pub epoch: Epoch,
    /// Its record's offset: grows over the epochs of a partition.
    pub offset: u64,
}

/// One series of numbers: one ownership of a partition, unless its owner had to forget its numbers and began anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// The partition. Offsets of two partitions say nothing about each other.
    pub partition: u32,
    /// The ownership.
    pub claim: u64,
    /// How many times its owner began anew.
    pub series: u32,
}

impl Sequence {
    /// Reads the header's value. `None` for everything that is not exactly of this form: a receiver that guesses would
    /// count what nobody sent.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let item: Item = Parser::new(value).parse().ok()?;
        if item.params.len() != 3 {
            return None;
        }
        let number = whole(&item.bare_item).filter(|number| *number > 0)?;
        let key = text(&item.params, "key").filter(|key| key.len() == 16)?;
        let mut parts = text(&item.params, "epoch")?.split('.');
        let epoch = Epoch {
            partition: decimal(parts.next()?)?.try_into().ok()?,
            claim: decimal(parts.next()?)?,
            series: decimal(parts.next()?)?.try_into().ok()?,
        };
        if parts.next().is_some() || !key.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let key = u64::from_str_radix(key, 16).ok()?;
        Some(Self { number, key, epoch, offset: whole(item.params.get("offset")?)? })
    }
}

fn text<'a>(params: &'a Parameters, name: &str) -> Option<&'a str> {
    match params.get(name)? {
        BareItem::String(text) => Some(text.as_str()),
        _ => None,
    }
}

fn whole(item: &BareItem) -> Option<u64> {
    match item {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    }
}

/// Digits only: the parser of the standard library takes a `+`.
fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n06_the_header_is_read() {
        let read = Sequence::parse(r#"17;key="9f86d081884c7d65";epoch="3.1042.0";offset=99812"#);
        let epoch = Epoch { partition: 3, claim: 1042, series: 0 };
        let key = 0x9f86_d081_884c_7d65;
        assert_eq!(read, Some(Sequence { number: 17, key, epoch, offset: 99812 }));
        // Spaces before a parameter and the order of parameters mean nothing in a structured field.
        let other = Sequence::parse(r#" 17; offset=99812; epoch="3.1042.0"; key="9f86d081884c7d65" "#);
        assert_eq!(other, read);
    }

    #[test]
    fn n06_what_is_not_exactly_the_header_is_not_guessed() {
        const GOOD: [&str; 4] = ["17", r#";key="9f86d081884c7d65""#, r#";epoch="3.1042.0""#, ";offset=99812"];
        assert!(Sequence::parse(&GOOD.concat()).is_some());
        for (part, bad) in [
            (0, ""),
            (0, "0"),
            (0, "-1"),
            (0, "1.0"),
            (0, "\"17\""),
            (0, "1000000000000000"), // one digit more than an integer of RFC 9651 has
            (0, "17, 18"),
            (1, ""),
            (1, ";key=9f86d081884c7d65"),
            (1, r#";key="9F86d081884c7d65""#),
            (1, r#";key="+f86d081884c7d65""#),
            (1, r#";key="9f86d081884c7d6""#),
            (1, r#";key="9f86d081884c7d65"#),
            (2, ""),
            (2, ";epoch=3"),
            (2, r#";epoch="3.1042""#),
            (2, r#";epoch="3.1042.0.1""#),
            (2, r#";epoch="3..0""#),
            (2, r#";epoch="+3.1042.0""#),
            (2, r#";epoch="4294967296.1042.0""#),
            (3, ""),
            (3, ";offset"),
            (3, ";offset=-1"),
            (3, ";offset=\"99812\""),
            (3, ";offset=99812;more=1"),
            (3, ";offset=99812 x"),
        ] {
            let mut parts = GOOD;
            parts[part] = bad;
            let text = parts.concat();
            assert_eq!(Sequence::parse(&text), None, "{text}");
        }
        assert_eq!(Sequence::parse("\u{ff}"), None);
    }
}
