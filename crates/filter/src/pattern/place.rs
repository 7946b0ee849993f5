//! Where in a pattern something stands, for error texts.

use std::fmt;

/// A place, linked to the one around it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'p> {
    Root,
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

/// Writes one key as a step of a JSON path.
pub(super) fn write_step(f: &mut impl fmt::Write, key: &str) -> fmt::Result {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if !key.is_empty() && key.chars().all(plain) {
        write!(f, ".{key}")
    } else {
        write!(f, "['{}']", key.replace('\\', "\\\\").replace('\'', "\\'"))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Recursion as deep as the pattern is nested, which the scanner bounds.
        match self {
            Place::Root => f.write_str("$"),
            Place::Key(around, key) => {
                write!(f, "{around}")?;
                write_step(f, key)
            }
            Place::Index(around, index) => write!(f, "{around}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_json_paths() {
        let detail = Place::Key(&Place::Root, "detail");
        let dotted = Place::Key(&detail, "a.b'c");
        let index = Place::Index(&dotted, 3);
        assert_eq!(Place::Key(&index, "prefix").to_string(), "$.detail['a.b\\'c'][3].prefix");
        assert_eq!(Place::Key(&Place::Root, "").to_string(), "$['']");
    }
}
