//! A line: how its parts stand in it, and that it is one line of bounded length whatever its values are.

use tracing::Level;

use super::fields::{Fields, Value};

/// Most bytes of a line, its end included. A field for which there is no room is left out, and the line says `truncated`.
pub(super) const LINE_BYTES_MAX: usize = 8 * 1024;

/// Names that a line has of itself. A field of such a name gets a `_` at its end.
const OWN: [&str; 5] = ["timestamp", "level", "target", "message", "truncated"];

/// What goes before the fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    /// RFC 3339, UTC.
    pub(super) timestamp: &'a str,
    pub(super) level: Level,
    pub(super) target: &'a str,
}

/// One JSON object, its end of line included.
pub(super) fn json(head: Head<'_>, fields: &Fields) -> Vec<u8> {
    let mut line = Line::new(b",\"truncated\":true", b"}\n", fields.cut);
    line.part(|bytes| {
        bytes.extend_from_slice(b"{\"timestamp\":");
        push_json(bytes, head.timestamp);
        bytes.extend_from_slice(b",\"level\":");
        push_json(bytes, head.level.as_str());
    });
    let mut put = |name: &str, own: &str, value: &[u8]| {
        line.part(|bytes| {
            bytes.push(b',');
            push_json(bytes, &format!("{name}{own}"));
            bytes.push(b':');
            bytes.extend_from_slice(value);
        });
    };
    let quoted = |text: &str| {
        let mut bytes = Vec::new();
        push_json(&mut bytes, text);
        bytes
    };
    put("target", "", &quoted(head.target));
    put("message", "", &quoted(&fields.message));
    for (name, value) in &fields.named {
        match value {
            Value::Text(text) => put(name, suffix(name), &quoted(text)),
            Value::Literal(text) => put(name, suffix(name), text.as_bytes()),
        }
    }
    line.finish()
}

/// For people: time, level, message, then `name=value`; with the colour of the level where `colours`.
pub(super) fn text(head: Head<'_>, fields: &Fields, colours: bool) -> Vec<u8> {
    let mut line = Line::new(b" truncated=true", b"\n", fields.cut);
    let (on, off) = if colours { (colour(head.level), "\u{1b}[0m") } else { ("", "") };
    line.part(|bytes| {
        let head = format!("{} {on}{:>5}{off} ", head.timestamp, head.level.as_str());
        bytes.extend_from_slice(head.as_bytes());
    });
    line.part(|bytes| push_plain(bytes, &fields.message));
    for (name, value) in &fields.named {
        line.part(|bytes| {
            bytes.extend_from_slice(format!(" {name}{}=", suffix(name)).as_bytes());
            match value {
                Value::Text(text) if needs_quotes(text) => {
                    let mut quoted = Vec::new();
                    push_json(&mut quoted, text);
                    push_plain(bytes, &String::from_utf8_lossy(&quoted));
                }
                Value::Text(text) | Value::Literal(text) => push_plain(bytes, text),
            }
        });
    }
    line.finish()
}

fn suffix(name: &str) -> &'static str {
    if OWN.contains(&name) { "_" } else { "" }
}

fn needs_quotes(text: &str) -> bool {
    text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '"' || c == '=')
}

const fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[33m",
        Level::INFO => "\u{1b}[32m",
        Level::DEBUG => "\u{1b}[34m",
        Level::TRACE => "\u{1b}[35m",
    }
}

/// A JSON string; ends of lines and other control characters are escaped.
fn push_json(bytes: &mut Vec<u8>, text: &str) {
    // Writing text to a Vec cannot fail.
    let _ = serde_json::to_writer(bytes, text);
}

/// Text without control characters: a value can neither end the line nor talk to a terminal.
fn push_plain(bytes: &mut Vec<u8>, text: &str) {
    let mut buffer = [0; 4];
    for c in text.chars() {
        if c.is_control() {
            bytes.extend_from_slice(c.escape_default().to_string().as_bytes());
        } else {
            bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
}

/// Parts, as long as there is room; room for the mark and the end is kept.
struct Line {
    bytes: Vec<u8>,
    cut: bool,
    mark: &'static [u8],
    end: &'static [u8],
}

impl Line {
    fn new(mark: &'static [u8], end: &'static [u8], cut: bool) -> Self {
        Self { bytes: Vec::with_capacity(256), cut, mark, end }
    }

    fn part(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        if self.bytes.len() + self.mark.len() + self.end.len() > LINE_BYTES_MAX {
            self.bytes.truncate(before);
            self.cut = true;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.cut {
            self.bytes.extend_from_slice(self.mark);
        }
        self.bytes.extend_from_slice(self.end);
        self.bytes
    }
}
