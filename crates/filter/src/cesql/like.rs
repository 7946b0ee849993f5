//! The patterns of `LIKE`: `%` is any text, `_` any one character, and a backslash before either means the character.

use crate::ir::Glob;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) enum Like {
    /// No `_`: linear in the text.
    Glob(Glob),
    /// At most the product of both lengths.
    Slots(Box<[Slot]>),
}

/// One character of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Char(char),
    AnyChar,
    AnyText,
}

impl Like {
    /// Compiles.
    pub(super) fn new(pattern: &str) -> Self {
        let mut slots = Vec::new();
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            let slot = match c {
                '%' => Slot::AnyText,
                '_' => Slot::AnyChar,
                '\\' => Slot::Char(chars.next_if(|next| matches!(next, '%' | '_')).unwrap_or('\\')),
                c => Slot::Char(c),
            };
            if slot != Slot::AnyText || slots.last() != Some(&slot) {
                slots.push(slot);
            }
        }
        if slots.contains(&Slot::AnyChar) { Like::Slots(slots.into()) } else { Like::Glob(glob(&slots)) }
    }

    /// A pattern with `*` that accepts everything that this one accepts, and whether it accepts nothing else.
    pub(crate) fn as_glob(&self) -> (Glob, bool) {
        match self {
            Like::Glob(glob) => (glob.clone(), true),
            Like::Slots(slots) => (glob(slots), false),
        }
    }

    /// Bytes that are compared on a text of this length, at most.
    pub(super) fn cost(&self, length: usize) -> usize {
        match self {
            Like::Glob(_) => length,
            Like::Slots(slots) => length.saturating_mul(slots.len()),
        }
    }

    pub(super) fn accepts(&self, text: &str) -> bool {
        match self {
            Like::Glob(glob) => glob.accepts(text),
            Like::Slots(slots) => accepts(slots, text),
        }
    }
}

fn glob(slots: &[Slot]) -> Glob {
    let mut pieces = vec![String::new()];
    for slot in slots {
        match (slot, pieces.last_mut()) {
            (Slot::Char(c), Some(piece)) => piece.push(*c),
            _ => pieces.push(String::new()),
        }
    }
    Glob {
        case: crate::fold::Case::Sensitive,
        pieces: pieces.into_iter().map(String::into_boxed_str).collect(),
    }
}

/// Two pointers: when a character does not fit, what the last `%` stands for grows by one.
fn accepts(slots: &[Slot], text: &str) -> bool {
    let (mut slot, mut chars) = (0, text.chars());
    let mut last: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let here = chars.clone();
        let fits = match (slots.get(slot), chars.next()) {
            (Some(Slot::AnyText), _) => {
                last = Some((slot + 1, here.clone()));
                chars = here;
                true
            }
            (Some(Slot::AnyChar), Some(_)) => true,
            (Some(Slot::Char(wanted)), Some(c)) => *wanted == c,
            (None, None) => return true,
            (Some(_), None) => return false,
            (None, Some(_)) => false,
        };
        if fits {
            slot += 1;
            continue;
        }
        let Some((after, mut rest)) = last.take() else { return false };
        if rest.next().is_none() {
            return false;
        }
        (slot, chars) = (after, rest.clone());
        last = Some((after, rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("abc", &["abc"][..], &["abcd", "ab", ""][..]),
            ("%", &["", "x"], &[]),
            ("_", &["x", "é", "😀"], &["", "xy"]),
            ("_%", &["x", "xy"], &[""]),
            ("%_", &["x", "xy"], &[""]),
            ("a_c%", &["abc", "abcd"], &["ac", "abd"]),
            ("%a_c", &["abc", "aacabc"], &["abcd"]),
            ("%a_c%a_d%", &["abcaxd", "--abc--abd--"], &["abdabc"]),
            ("a\\_b", &["a_b"], &["axb", "a\\_b"]),
            ("a\\%b", &["a%b"], &["axb"]),
            ("a\\b", &["a\\b"], &["ab"]),
            ("a\\", &["a\\"], &["a"]),
            ("\\\\%", &["\\%"], &["\\", "\\x"]),
            ("%%%", &["", "x"], &[]),
            ("", &[""], &["x"]),
        ] {
            for text in yes {
                assert!(Like::new(pattern).accepts(text), "{pattern} on {text}");
            }
            for text in no {
                assert!(!Like::new(pattern).accepts(text), "{pattern} on {text}");
            }
        }
    }

    #[test]
    fn the_glob_of_a_pattern_accepts_no_less() {
        for pattern in ["a_c%", "%a_c%a_d%", "_", "x%y"] {
            let like = Like::new(pattern);
            for text in ["abc", "abcaxd", "x", "xay", "xy", "", "--abc--abd--"] {
                assert!(!like.accepts(text) || like.as_glob().0.accepts(text), "{pattern} on {text}");
            }
        }
    }
}
