//! Strings: escapes undone on the way in, and written again for people.

use super::scan::ScanError;
use super::tape::{Node, View};

/// Reads a string whose first character stands at `start`. Returns where its closing quote is, and whether it had
/// escapes: then its text was appended to `unescaped`.
pub(super) fn scan_string(
    text: &str,
    start: usize,
    unescaped: &mut String,
) -> Result<(usize, bool), ScanError> {
    let bytes = text.as_bytes();
    let mut pos = start;
    let mut copied = start;
    let mut escaped = false;
    loop {
        let rest = bytes.get(pos..).unwrap_or_default();
        let Some(run) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)) else {
            return Err(ScanError::new(bytes.len(), "a string is not closed"));
        };
        pos += run;
        match bytes[pos] {
            b'"' => {
                if escaped {
                    unescaped.push_str(&text[copied..pos]);
                }
                return Ok((pos, escaped));
            }
            b'\\' => {
                unescaped.push_str(&text[copied..pos]);
                escaped = true;
                let (c, next) = read_escape(bytes, pos)?;
                unescaped.push(c);
                pos = next;
                copied = next;
            }
            _ => {
                return Err(ScanError::new(
                    pos,
                    "a control character stands in a string; write it as \\u00XX",
                ));
            }
        }
    }
}

/// Undoes the escapes of what stands between two quotes. False when that is not the inside of a string.
pub(crate) fn unescape_string(raw: &str, text: &mut String) -> bool {
    let bytes = raw.as_bytes();
    let mut copied = 0;
    let mut pos = 0;
    while let Some(run) = bytes[pos..].iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)) {
        pos += run;
        if bytes[pos] != b'\\' {
            return false;
        }
        text.push_str(&raw[copied..pos]);
        let Ok((c, next)) = read_escape(bytes, pos) else { return false };
        text.push(c);
        (pos, copied) = (next, next);
    }
    text.push_str(&raw[copied..]);
    true
}

/// Reads the escape whose backslash stands at `at`; returns the character and where the text goes on.
fn read_escape(bytes: &[u8], at: usize) -> Result<(char, usize), ScanError> {
    let plain = |c| Ok((c, at + 2));
    match bytes.get(at + 1) {
        Some(b'"') => plain('"'),
        Some(b'\\') => plain('\\'),
        Some(b'/') => plain('/'),
        Some(b'b') => plain('\u{8}'),
        Some(b'f') => plain('\u{c}'),
        Some(b'n') => plain('\n'),
        Some(b'r') => plain('\r'),
        Some(b't') => plain('\t'),
        Some(b'u') => read_unicode(bytes, at),
        _ => Err(ScanError::new(at, "invalid escape in a string")),
    }
}

fn read_unicode(bytes: &[u8], at: usize) -> Result<(char, usize), ScanError> {
    let unit = read_hex(bytes, at)?;
    if let Some(c) = char::from_u32(unit) {
        return Ok((c, at + 6));
    }
    // A surrogate: only a pair of them is a character. Anything else must never match something.
    let lone = ScanError::new(at, "lone surrogate in a string");
    if !(0xd800..=0xdbff).contains(&unit) || bytes.get(at + 6..at + 8) != Some(b"\\u") {
        return Err(lone);
    }
    let low = read_hex(bytes, at + 6)?;
    if !(0xdc00..=0xdfff).contains(&low) {
        return Err(lone);
    }
    let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    char::from_u32(code).map(|c| (c, at + 12)).ok_or(lone)
}

/// The four hexadecimal digits of the `\u` at `at`.
fn read_hex(bytes: &[u8], at: usize) -> Result<u32, ScanError> {
    let invalid = ScanError::new(at, "invalid \\u escape in a string");
    let digits = bytes.get(at + 2..at + 6).ok_or(invalid)?;
    digits.iter().try_fold(0, |unit, digit| {
        let value = char::from(*digit).to_digit(16).ok_or(invalid)?;
        Ok((unit << 4) | value)
    })
}

/// Writes a value without whitespace, cut after `max` characters. Nesting is bounded by the scanner.
pub(super) fn write(node: Node<'_>, max: usize) -> String {
    let mut out = Cut { text: String::new(), left: max, cut: false };
    write_node(node, &mut out);
    out.finish()
}

/// Writes a text as a JSON string, cut after `max` characters.
pub(crate) fn quote(text: &str, max: usize) -> String {
    let mut out = Cut { text: String::new(), left: max, cut: false };
    out.push_quoted(text);
    out.finish()
}

struct Cut {
    text: String,
    left: usize,
    cut: bool,
}

impl Cut {
    fn finish(mut self) -> String {
        if self.cut {
            self.text.push('…');
        }
        self.text
    }

    fn push(&mut self, text: &str) {
        for c in text.chars() {
            if self.left == 0 {
                self.cut = true;
                return;
            }
            self.left -= 1;
            self.text.push(c);
        }
    }

    fn push_quoted(&mut self, text: &str) {
        self.push("\"");
        for c in text.chars() {
            if self.cut {
                return;
            }
            match c {
                '"' => self.push("\\\""),
                '\\' => self.push("\\\\"),
                '\n' => self.push("\\n"),
                '\r' => self.push("\\r"),
                '\t' => self.push("\\t"),
                c if u32::from(c) < 0x20 => self.push(&format!("\\u{:04x}", u32::from(c))),
                c => self.push(c.encode_utf8(&mut [0; 4])),
            }
        }
        self.push("\"");
    }
}

fn write_node(node: Node<'_>, out: &mut Cut) {
    match node.view() {
        View::Null => out.push("null"),
        View::Bool(true) => out.push("true"),
        View::Bool(false) => out.push("false"),
        View::Number(text) => out.push(text),
        View::Text(text) => out.push_quoted(text),
        View::Array => {
            out.push("[");
            for (i, element) in node.elements().enumerate() {
                if out.cut {
                    return;
                }
                out.push(if i == 0 { "" } else { "," });
                write_node(element, out);
            }
            out.push("]");
        }
        View::Object => {
            out.push("{");
            for (i, (key, value)) in node.members().enumerate() {
                if out.cut {
                    return;
                }
                out.push(if i == 0 { "" } else { "," });
                out.push_quoted(key.text());
                out.push(":");
                write_node(value, out);
            }
            out.push("}");
        }
    }
}
