//! How deep brackets are nested in a YAML text, seen without parsing it.
//!
//! The parser looks at every open bracket again for each token: 100,000 of them cost it 18 s before it says that they are
//! too deep. Depth by indentation costs it nothing and is its own to refuse. This here is not a parser: a text that is
//! written in an odd way may make it count a bracket that stands in words, and the limit leaves room for that.

/// Deepest nesting of `[` and `{`: set-up files need about five, and the parser itself takes 128.
pub(super) const DEPTH_MAX: usize = 64;

/// The line, from 1, on which brackets are nested deeper than [`DEPTH_MAX`].
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let mut scan = Scan::default();
    text.lines().position(|line| scan.is_too_deep_in(line)).map(|index| index + 1)
}

#[derive(Default)]
struct Scan {
    /// Brackets that are open.
    depth: usize,
    /// The quote that is open; quoted text may go over several lines.
    quote: Option<u8>,
    /// A literal text (`|`, `>`) that may go on.
    literal: Option<Literal>,
}

struct Literal {
    /// Indentation of the line that began it.
    parent: usize,
    /// Indentation of its first line, once that is known.
    own: Option<usize>,
}

impl Scan {
    fn is_too_deep_in(&mut self, line: &str) -> bool {
        let indent = line.bytes().take_while(|byte| *byte == b' ').count();
        if self.is_literal(line, indent) {
            return false;
        }
        let line = line.as_bytes();
        let ends = |at: usize| line.get(at).is_none_or(u8::is_ascii_whitespace);
        // Whether a value may begin here; elsewhere brackets and quotes are words.
        let mut fresh = true;
        let mut at = indent;
        while let Some(byte) = line.get(at).copied() {
            at += 1;
            if let Some(quote) = self.quote {
                let escaped = quote == b'"' && byte == b'\\'
                    || quote == b'\'' && byte == quote && line.get(at) == Some(&quote);
                if escaped {
                    at += 1;
                } else if byte == quote {
                    self.quote = None;
                }
                continue;
            }
            let flow = self.depth > 0;
            fresh = match byte {
                b'#' if at == 1 || ends(at - 2) => return false,
                b' ' | b'\t' => fresh,
                b'[' | b'{' if fresh || flow => {
                    self.depth += 1;
                    if self.depth > DEPTH_MAX {
                        return true;
                    }
                    true
                }
                b']' | b'}' if flow => {
                    self.depth -= 1;
                    false
                }
                b',' if flow => true,
                b':' if flow || ends(at) => true,
                b'-' | b'?' if fresh && ends(at) => true,
                b'"' | b'\'' if fresh => {
                    self.quote = Some(byte);
                    false
                }
                b'!' | b'&' if fresh => {
                    while !ends(at) {
                        at += 1;
                    }
                    true
                }
                b'|' | b'>' if fresh && !flow => {
                    self.literal = Some(Literal { parent: indent, own: None });
                    return false;
                }
                _ => false,
            };
        }
        false
    }

    /// Whether the line belongs to a literal text.
    fn is_literal(&mut self, line: &str, indent: usize) -> bool {
        let Some(literal) = &mut self.literal else { return false };
        let inside = line.trim().is_empty()
            || indent >= *literal.own.get_or_insert_with(|| indent.max(literal.parent + 1));
        if !inside {
            self.literal = None;
        }
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_where_it_is_nesting() {
        for open in
            ["[", "{", "{a: ", "[\"]\", ", "[']', ", "{\"a\":[\"}]\",", "[ # ]]]]\n", "!t [", "[[a]b[c, "]
        {
            let deep = open.repeat(DEPTH_MAX + 1);
            assert!(too_deep(&format!("a: {deep}")).is_some(), "{open}");
            assert!(too_deep(&format!("a:\n  - {deep}")).is_some(), "{open}");
        }
        let just = format!("a: {}{}\n", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert_eq!(too_deep(&just.repeat(3)), None);
        assert_eq!(too_deep(&format!("{just}\nb: [{}", "[\n".repeat(DEPTH_MAX + 1))), Some(2 + DEPTH_MAX));
    }

    #[test]
    fn brackets_in_words_are_not_nesting() {
        let many = "[{".repeat(DEPTH_MAX);
        for text in [
            format!("a: \"{many}\""),
            format!("a: 'it''s {many}'"),
            format!("a: \"\\\"{many}\n  {many}\""),
            format!("a: see {many}"),
            format!("a: x # {many}\n# {many}"),
            format!("a: |\n  text\n  {many}\n\n   {many}\nb: 1"),
            format!("- a: >-\n    {many}\n    {many}\n  b: 1"),
            format!("a: [\"{many}\", '{many}'] # {many}"),
            format!("a: {{\"b\":\"{many}\"}}"),
            format!("- - a\n- ? b\n  : see - {many}"),
        ] {
            assert_eq!(too_deep(&text), None, "{text}");
        }
        let lines = format!("- a: |\n    {many}\n  b: {}", "[".repeat(DEPTH_MAX + 1));
        assert_eq!(too_deep(&lines), Some(3), "a literal text ends");
    }
}
