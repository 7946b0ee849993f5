//! Leaves as they stand in the bytes.

use crate::json::unescape_string;

/// A leaf at a wanted path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaf<'b> {
    Null,
    True,
    False,
    /// A number in the form that JSON has for it.
    Number(&'b str),
    /// What stands between the quotes, without escapes.
    Text(&'b [u8]),
    /// The same with escapes in it.
    Escaped(&'b [u8]),
}

/// The leaf that a token without quotes is; `None` when it is none.
pub(super) fn scalar(token: &[u8]) -> Option<Leaf<'_>> {
    match token {
        b"null" => Some(Leaf::Null),
        b"true" => Some(Leaf::True),
        b"false" => Some(Leaf::False),
        _ if is_number(token) => std::str::from_utf8(token).ok().map(Leaf::Number),
        _ => None,
    }
}

/// RFC 8259's `number`.
fn is_number(token: &[u8]) -> bool {
    fn digits(text: &[u8]) -> (usize, &[u8]) {
        let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
        (count, &text[count..])
    }
    let unsigned = token.strip_prefix(b"-").unwrap_or(token);
    let (whole, mut rest) = digits(unsigned);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let (count, after) = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = after;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let unsigned = match exponent {
            [b'+' | b'-', unsigned @ ..] => unsigned,
            _ => exponent,
        };
        let (count, after) = digits(unsigned);
        if count == 0 {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Undoes the escapes of what stands between quotes, into `text`. False when the bytes are not a string of JSON.
pub(crate) fn unescape(between_quotes: &[u8], text: &mut String) -> bool {
    text.clear();
    std::str::from_utf8(between_quotes).is_ok_and(|raw| unescape_string(raw, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_what_the_grammar_says() {
        for number in ["0", "-0", "12", "1.5", "-0.25e+10", "1E9", "10e-1"] {
            assert_eq!(scalar(number.as_bytes()), Some(Leaf::Number(number)));
        }
        for other in
            ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "1 2", "nul", "truex", "NaN", "1\u{e9}"]
        {
            assert_eq!(scalar(other.as_bytes()), None, "{other}");
        }
        assert_eq!(
            [scalar(b"null"), scalar(b"true"), scalar(b"false")],
            [Some(Leaf::Null), Some(Leaf::True), Some(Leaf::False)]
        );
    }

    #[test]
    fn escapes_are_undone() {
        let mut text = String::new();
        assert!(unescape(br"a\n\u0041\ud83d\ude00\/", &mut text) && text == "a\nA😀/");
        for broken in [&b"\\"[..], br"\x", br"\ud800", br"\u12", b"\xff\\n", b"\t"] {
            assert!(!unescape(broken, &mut text), "{broken:?}");
        }
    }
}
