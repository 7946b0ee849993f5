//! The scanner: one pass over the bytes, an explicit stack, strict RFC 8259.

use super::string::scan_string;
use super::tape::{Entry, Kind, NO_INDEX, Tape};
use crate::limits::{BODY_DEPTH_MAX, BODY_MAX_BYTES};

/// Why bytes are not a document that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanError {
    /// Where, in bytes from the start.
    pub(crate) offset: usize,
    /// What is wrong there.
    pub(crate) problem: &'static str,
}

impl ScanError {
    pub(super) fn new(offset: usize, problem: &'static str) -> Self {
        Self { offset, problem }
    }
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ElementOrEnd,
    KeyOrEnd,
    Key,
    CommaOrEnd,
}

/// An open container.
struct Open {
    at: u32,
    is_object: bool,
    members: u32,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    pos: usize,
    tape: Tape<'a>,
    open: Vec<Open>,
}

/// Reads a document. Time and memory are linear in its length, but for sorting the keys of large objects.
///
/// # Errors
/// [`ScanError`] for anything that is not one strict JSON document: invalid UTF-8, lone surrogates, control
/// characters in strings, anything after the document; and for documents that are too long or too deep.
pub(crate) fn scan(bytes: &[u8]) -> Result<Tape<'_>, ScanError> {
    if bytes.len() > BODY_MAX_BYTES {
        return Err(ScanError::new(BODY_MAX_BYTES, "the document is too long"));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| ScanError::new(e.valid_up_to(), "invalid UTF-8"))?;
    let tape = Tape { text, unescaped: String::new(), entries: Vec::new(), indexes: Vec::new() };
    let mut scanner = Scanner { bytes, pos: 0, tape, open: Vec::new() };
    scanner.document()?;
    Ok(scanner.tape)
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), ScanError> {
        let mut expect = Expect::Value;
        loop {
            self.skip_whitespace();
            let Some(byte) = self.bytes.get(self.pos).copied() else {
                return Err(self.problem("the document ends early"));
            };
            expect = match (expect, byte) {
                (Expect::ElementOrEnd, b']') | (Expect::KeyOrEnd, b'}') => self.close(),
                (Expect::Value | Expect::ElementOrEnd, _) => self.value(byte)?,
                (Expect::Key | Expect::KeyOrEnd, b'"') => self.key()?,
                (Expect::Key | Expect::KeyOrEnd, _) => return Err(self.problem("expected a key in quotes")),
                (Expect::CommaOrEnd, _) => self.comma_or_end(byte)?,
            };
            if expect == Expect::CommaOrEnd && self.open.is_empty() {
                self.skip_whitespace();
                return if self.pos == self.bytes.len() {
                    Ok(())
                } else {
                    Err(self.problem("something follows the document"))
                };
            }
        }
    }

    fn problem(&self, problem: &'static str) -> ScanError {
        ScanError::new(self.pos, problem)
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.bytes.get(self.pos), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.pos += 1;
        }
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        // Lossless: offsets and entries are bounded by BODY_MAX_BYTES.
        let narrow = |n: usize| u32::try_from(n).unwrap_or(NO_INDEX);
        self.tape.entries.push(Entry { kind, start: narrow(start), end: narrow(end) });
    }

    fn value(&mut self, byte: u8) -> Result<Expect, ScanError> {
        match byte {
            b'{' => return self.open(true),
            b'[' => return self.open(false),
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word("true", Kind::True)?,
            b'f' => self.word("false", Kind::False)?,
            b'n' => self.word("null", Kind::Null)?,
            _ => return Err(self.problem("expected a value")),
        }
        Ok(Expect::CommaOrEnd)
    }

    fn open(&mut self, is_object: bool) -> Result<Expect, ScanError> {
        if self.open.len() == BODY_DEPTH_MAX {
            return Err(self.problem("arrays and objects are nested too deep"));
        }
        let at = u32::try_from(self.tape.entries.len()).unwrap_or(NO_INDEX);
        self.open.push(Open { at, is_object, members: 0 });
        self.push(if is_object { Kind::Object } else { Kind::Array }, NO_INDEX as usize, 0);
        self.pos += 1;
        Ok(if is_object { Expect::KeyOrEnd } else { Expect::ElementOrEnd })
    }

    fn close(&mut self) -> Expect {
        self.pos += 1;
        if let Some(open) = self.open.pop() {
            self.tape.entries[open.at as usize].end =
                u32::try_from(self.tape.entries.len()).unwrap_or(NO_INDEX);
            if open.is_object {
                self.tape.index_keys(open.at, open.members);
            }
        }
        Expect::CommaOrEnd
    }

    fn comma_or_end(&mut self, byte: u8) -> Result<Expect, ScanError> {
        let is_object = self.open.last().is_some_and(|open| open.is_object);
        match (byte, is_object) {
            (b',', _) => {
                self.pos += 1;
                Ok(if is_object { Expect::Key } else { Expect::Value })
            }
            (b'}', true) | (b']', false) => Ok(self.close()),
            (_, true) => Err(self.problem("expected ',' or '}'")),
            (_, false) => Err(self.problem("expected ',' or ']'")),
        }
    }

    fn key(&mut self) -> Result<Expect, ScanError> {
        self.string()?;
        if let Some(open) = self.open.last_mut() {
            open.members += 1;
        }
        self.skip_whitespace();
        if self.bytes.get(self.pos) != Some(&b':') {
            return Err(self.problem("expected ':' after a key"));
        }
        self.pos += 1;
        Ok(Expect::Value)
    }

    fn string(&mut self) -> Result<(), ScanError> {
        let start = self.pos + 1;
        let unescaped_start = self.tape.unescaped.len();
        let (end, escaped) = scan_string(self.tape.text, start, &mut self.tape.unescaped)?;
        if escaped {
            self.push(Kind::Escaped, unescaped_start, self.tape.unescaped.len());
        } else {
            self.push(Kind::Plain, start, end);
        }
        self.pos = end + 1;
        Ok(())
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<(), ScanError> {
        let end = self.pos + word.len();
        if self.bytes.get(self.pos..end) != Some(word.as_bytes()) {
            return Err(self.problem("expected a value"));
        }
        self.push(kind, self.pos, end);
        self.pos = end;
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        let start = self.pos;
        while self.bytes.get(self.pos).is_some_and(u8::is_ascii_digit) {
            self.pos += 1;
        }
        if self.pos == start { Err(self.problem("expected a digit")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        let start = self.pos;
        if self.bytes.get(self.pos) == Some(&b'-') {
            self.pos += 1;
        }
        if self.bytes.get(self.pos) == Some(&b'0') {
            self.pos += 1;
            if self.bytes.get(self.pos).is_some_and(u8::is_ascii_digit) {
                return Err(self.problem("a number must not start with 0"));
            }
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.pos) == Some(&b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.pos), Some(b'e' | b'E')) {
            self.pos += 1;
            if matches!(self.bytes.get(self.pos), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digits()?;
        }
        self.push(Kind::Number, start, self.pos);
        Ok(())
    }
}
