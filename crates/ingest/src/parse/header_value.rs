//! A `ce-*` header value as text: quoted string first, then one round of percent-decoding (CloudEvents HTTP binding
//! 1.0.2, section 3.1.3.2).

use percent_encoding::percent_decode;

/// The text of a header value; `None` when its bytes are not UTF-8 after decoding.
pub(crate) fn decode(raw: &[u8]) -> Option<String> {
    let unquoted = unquote(raw);
    let bytes = unquoted.as_deref().unwrap_or(raw);
    percent_decode(bytes).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// The content of a value that is one quoted string; `None` when it is not, and then quotes are ordinary characters.
fn unquote(raw: &[u8]) -> Option<Vec<u8>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => out.push(*bytes.next()?),
            b'"' => return None,
            _ => out.push(byte),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n01_header_values_follow_the_binding() {
        let cases: [(&str, Option<&str>); 16] = [
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", Some("Euro € 😀")),
            ("plain", Some("plain")),
            ("", Some("")),
            ("%e2%82%ac", Some("€")),
            ("%41%42", Some("AB")),
            ("100%", Some("100%")),
            ("%zz%4", Some("%zz%4")),
            ("%2541", Some("%41")),
            ("\"a b\"", Some("a b")),
            (r#""a \"b\" \\ %20""#, Some("a \"b\" \\  ")),
            ("\"open", Some("\"open")),
            ("\"", Some("\"")),
            (r#""a" "b""#, Some(r#""a" "b""#)),
            (r#""a\""#, Some(r#""a\""#)),
            ("%C0%A0", None),
            ("%ff", None),
        ];
        for (raw, text) in cases {
            assert_eq!(decode(raw.as_bytes()).as_deref(), text, "{raw}");
        }
        assert_eq!(decode("é".as_bytes()).as_deref(), Some("é"), "raw UTF-8 is taken");
        assert_eq!(decode(b"\xe9"), None, "Latin-1 is not");
    }
}
