//! Text → tokens, each with its place.

use std::ops::Range;

use crate::error::FilterError;

/// What a piece of the text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// Digits.
    Integer,
    /// The text of a string, its own quotes unescaped.
    Text(String),
    /// A word: keyword, attribute or function.
    Word,
    /// `data` and the keys behind it.
    Data(Vec<String>),
    /// An operator, bracket or comma.
    Symbol(&'static str),
    End,
}

/// A token and where it stands, in bytes.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) at: Range<usize>,
}

/// Longer ones first, so that `<=` is not `<`.
const SYMBOLS: &[&str] = &["!=", "<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "*", "/", "%", "+", "-"];

/// A [`FilterError`] at a place of the text.
pub(super) fn error_at(code: &'static str, text: &str, offset: usize, message: &str) -> FilterError {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    FilterError::new(code, "$", format!("{message} at line {line} column {column}"))
}

fn syntax(text: &str, offset: usize, message: &str) -> FilterError {
    error_at("filter_syntax", text, offset, message)
}

/// Reads all tokens. The last one is [`Token::End`].
pub(super) fn lex(text: &str) -> Result<Vec<Placed>, FilterError> {
    let mut tokens = Vec::new();
    let mut pos = 0;
    loop {
        pos += text[pos..].find(|c: char| !matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(text.len() - pos);
        let Some(c) = text[pos..].chars().next() else {
            tokens.push(Placed { token: Token::End, at: pos..pos });
            return Ok(tokens);
        };
        let (token, end) = match c {
            '\'' | '"' => string(text, pos)?,
            c if c.is_ascii_alphanumeric() || c == '_' => word(text, pos)?,
            c => {
                let Some(symbol) = SYMBOLS.iter().find(|symbol| text[pos..].starts_with(**symbol)) else {
                    return Err(syntax(text, pos, &format!("the character {c:?} has no meaning here")));
                };
                (Token::Symbol(symbol), pos + symbol.len())
            }
        };
        tokens.push(Placed { token, at: pos..end });
        pos = end;
    }
}

/// A string in single or double quotes. A backslash before its own quote is left out; every other one stays.
fn string(text: &str, start: usize) -> Result<(Token, usize), FilterError> {
    let mut chars = text[start..].char_indices();
    let quote = chars.next().map(|(_, c)| c);
    let mut read = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            c if Some(c) == quote => return Ok((Token::Text(read), start + at + 1)),
            '\\' => match chars.next() {
                Some((_, next)) => {
                    if Some(next) != quote {
                        read.push('\\');
                    }
                    read.push(next);
                }
                None => break,
            },
            c => read.push(c),
        }
    }
    Err(syntax(text, start, "the string that begins here is not closed; close it with the same quote"))
}

fn word(text: &str, start: usize) -> Result<(Token, usize), FilterError> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = start + run(&text[start..], is_part);
    let word = &text[start..end];
    if word.bytes().all(|b| b.is_ascii_digit()) {
        return Ok((Token::Integer, end));
    }
    if word.eq_ignore_ascii_case("data") && text[end..].starts_with(['.', '[']) {
        let (keys, end) = keys(text, end)?;
        return Ok((Token::Data(keys), end));
    }
    if text[end..].starts_with('.') {
        let message = format!(
            "'{word}' is an attribute and has no fields; fields of the body begin with 'data', as in data.{word}.…,"
        );
        return Err(syntax(text, end, &message));
    }
    Ok((Token::Word, end))
}

/// The length of the text's beginning whose characters are so.
fn run(text: &str, so: impl Fn(char) -> bool) -> usize {
    text.find(|c: char| !so(c)).unwrap_or(text.len())
}

/// `.key` and `['key']`, as many as there are.
fn keys(text: &str, start: usize) -> Result<(Vec<String>, usize), FilterError> {
    let mut keys = Vec::new();
    let mut pos = start;
    loop {
        let rest = &text[pos..];
        if let Some(rest) = rest.strip_prefix('.') {
            let length = run(rest, |c| c.is_alphanumeric() || matches!(c, '_' | '$' | '@'));
            if length == 0 {
                let message = "expected a key; write other keys than letters and digits as data['the key'],";
                return Err(syntax(text, pos + 1, message));
            }
            keys.push(rest[..length].to_owned());
            pos += 1 + length;
        } else if let Some(inside) = rest.strip_prefix('[') {
            let message = "expected ['a key']; lists are looked into without an index,";
            if !inside.starts_with(['\'', '"']) {
                return Err(syntax(text, pos + 1, message));
            }
            let (key, end) = string(text, pos + 1)?;
            if let Token::Text(key) = key {
                keys.push(key);
            }
            if !text[end..].starts_with(']') {
                return Err(syntax(text, end, "expected ']' after the key"));
            }
            pos = end + 1;
        } else {
            return Ok((keys, pos));
        }
    }
}
