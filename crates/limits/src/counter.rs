//! The name of a counter: text that no two tuples share.

use std::fmt;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything that could end a part, a hash tag or a key is escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// What payloads are counted under, e.g. a provider, an integration and an event type. Not the region and not the bucket:
/// a payload counts once however wide its fan-out. A cheap clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Counter {
    name: Arc<str>,
}

impl Counter {
    /// The counter of `kind` and `parts`. Different tuples have different names: each part is percent-encoded, an empty
    /// one is a lone `%`, and they are joined with `:`.
    ///
    /// Parts from outside must come from a known set or be an id that was looked up, because every name costs memory.
    #[must_use]
    pub fn new(kind: &str, parts: &[&str]) -> Self {
        let mut name = String::new();
        for part in std::iter::once(&kind).chain(parts) {
            if !name.is_empty() {
                name.push(':');
            }
            if part.is_empty() {
                name.push('%');
            }
            name.extend(utf8_percent_encode(part, ESCAPED));
        }
        Self { name: name.into() }
    }

    /// Letters, digits and `-_.%:` only; never empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_readable() {
        assert_eq!(Counter::new("github", &["4321", "push"]).name(), "github:4321:push");
        assert_eq!(Counter::new("", &[]).name(), "%");
        assert_eq!(Counter::new("a", &["{x}:%", "", "é"]).name(), "a:%7Bx%7D%3A%25:%:%C3%A9");
    }

    /// S23: each event type has a counter of its own.
    #[test]
    fn s23_event_types_have_counters_of_their_own() {
        assert_ne!(Counter::new("github", &["4321", "push"]), Counter::new("github", &["4321", "check_run"]));
        assert_ne!(Counter::new("p", &["x", "7"]), Counter::new("p", &["x:7"]));
    }

    proptest! {
        #[test]
        fn no_two_tuples_share_a_name(
            one in proptest::collection::vec("[a:%{}é ]{0,3}", 1..4),
            other in proptest::collection::vec("[a:%{}é ]{0,3}", 1..4),
        ) {
            let counter = |parts: &[String]| {
                let rest: Vec<&str> = parts[1..].iter().map(String::as_str).collect();
                Counter::new(&parts[0], &rest)
            };
            prop_assert_eq!(counter(&one) == counter(&other), one == other);
            let name = counter(&one);
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.%:".contains(c);
            prop_assert!(!name.name().is_empty() && name.name().chars().all(plain));
        }
    }
}
