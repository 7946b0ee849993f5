//! What a payload is about: the string or number at a path into its JSON body, else nothing.

use std::fmt;

use mailrail_types::JsonPath;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::media_type::is_json;

/// Longest key in bytes. A longer value is cut here, which at worst lets two keys share their order and never breaks the
/// order of one.
pub const BUCKET_KEY_MAX_BYTES: usize = 512;

/// The key of a payload: the non-empty string or the number at `path`, as the body writes it. Numbers stay digit for
/// digit, however long. Anything else, and a body that is not JSON or says that it is not, is no key and never an error.
///
/// Of a member that is there twice the last one counts, as in match. Each step reads one level and skips the rest, so
/// neither depth nor size of the body costs memory.
#[must_use]
pub fn bucket_key(body: &[u8], content_type: Option<&str>, path: &JsonPath) -> Option<String> {
    if !content_type.is_none_or(is_json) {
        return None;
    }
    let mut here: &RawValue = serde_json::from_slice(body).ok()?;
    for step in path.steps() {
        let mut level = serde_json::Deserializer::from_str(here.get());
        here = match here.get().as_bytes().first()? {
            b'{' => level.deserialize_map(Member(step)).ok()??,
            b'[' => level.deserialize_seq(Element(step.parse().ok()?)).ok()??,
            _ => return None,
        };
    }
    let text = match here.get().as_bytes().first()? {
        b'"' => serde_json::from_str::<String>(here.get()).ok()?,
        b'-' | b'0'..=b'9' => here.get().to_owned(),
        _ => return None,
    };
    let cut = text.floor_char_boundary(BUCKET_KEY_MAX_BYTES);
    let key = text.get(..cut)?;
    (!key.is_empty()).then(|| key.to_owned())
}

/// Takes the last member with this name.
struct Member<'p>(&'p str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(Is(self.0))? {
            if is_it {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Whether a key is this one, escapes resolved.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Takes the element at this index.
struct Element(u32);

impl<'de> Visitor<'de> for Element {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        for _ in 0..self.0 {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = seq.next_element()?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(path: &str, body: impl AsRef<[u8]>) -> Option<String> {
        bucket_key(body.as_ref(), None, &path.parse().expect("path"))
    }

    /// S04: a string or a number at the configured path is the key, as it is written.
    #[test]
    fn s04_strings_and_numbers_are_keys_as_written() {
        let big = "123456789012345678901234567890";
        assert_eq!(at("a.b", r#"{"a":{"b":"x"}}"#).as_deref(), Some("x"));
        assert_eq!(at("a.b", format!(r#"{{"a":{{"b": {big} }}}}"#)).as_deref(), Some(big));
        assert_eq!(at("a", r#"{"a":1.50}"#).as_deref(), Some("1.50"));
        assert_eq!(at("a", r#"{"a":-1e999}"#).as_deref(), Some("-1e999"));
        assert_eq!(at("a[1].b", r#"{"a":[0,{"b":7},2]}"#).as_deref(), Some("7"));
        assert_eq!(at("a.1", r#"{"a":[0,5]}"#).as_deref(), Some("5"), "a numeric step selects an element");
        assert_eq!(at("a.1", r#"{"a":{"1":6}}"#).as_deref(), Some("6"), "or a member of that name");
        assert_eq!(at("ä", r#"{"\u00e4":"\u00f6\n"}"#).as_deref(), Some("ö\n"), "escapes are resolved");
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        assert_eq!(at("a", r#"{"a":1,"b":0,"\u0061":2}"#).as_deref(), Some("2"));
        assert_eq!(at("a.b", r#"{"a":{"b":1},"a":{"c":2}}"#), None);
        assert_eq!(at("a", r#"{"a":1,"a":null}"#), None);
    }

    /// S04: missing, null, bool, array, object or no JSON at all is no key, and never an error.
    #[test]
    fn s04_anything_else_is_no_key_and_never_an_error() {
        for body in [
            "",
            "nul",
            "null",
            "5",
            "[]",
            "{}",
            r#"{"a":null}"#,
            r#"{"a":true}"#,
            r#"{"a":[]}"#,
            r#"{"a":{}}"#,
            r#"{"a":""}"#,
            r#"{"a":1"#,
            r#"{"a":1} x"#,
            r#"{"a":"\ud800"}"#,
            "\u{feff}{\"a\":1}",
            r#"{"A":1}"#,
        ] {
            assert_eq!(at("a", body), None, "{body:?}");
        }
        assert_eq!(at("a", b"{\"a\":\"\xff\"}"), None);
        assert_eq!(at("a[5]", r#"{"a":[1]}"#), None);
        assert_eq!(at("a[4294967295]", r#"{"a":[1]}"#), None);
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(
            at("a", format!(r#"{{"x":{deep},"a":"k"}}"#)).as_deref(),
            Some("k"),
            "depth beside the path"
        );
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let key = at("a", format!(r#"{{"a":"x{}"}}"#, "é".repeat(400))).expect("a key");
        assert_eq!(key.len(), 511);
    }

    #[test]
    fn a_body_that_says_it_is_not_json_is_not_read() {
        let path = "a".parse().expect("path");
        let of = |content_type| bucket_key(br#"{"a":1}"#, content_type, &path);
        for json in [None, Some("application/json; charset=utf-8"), Some("application/vnd.x+json")] {
            assert_eq!(of(json).as_deref(), Some("1"), "{json:?}");
        }
        for other in ["text/plain", "application/x-www-form-urlencoded", ""] {
            assert_eq!(of(Some(other)), None, "{other:?}");
        }
    }

    proptest! {
        /// S04: no body panics.
        #[test]
        fn s04_no_body_panics(body in proptest::collection::vec(any::<u8>(), 0..64), text in "[{}\\[\\]\"a:,0-9\\\\.e-]{0,24}") {
            let path = "a.0".parse().expect("path");
            let _ = bucket_key(&body, None, &path);
            let key = bucket_key(text.as_bytes(), None, &path);
            prop_assert!(key.is_none_or(|k| !k.is_empty() && k.len() <= BUCKET_KEY_MAX_BYTES));
        }
    }
}
