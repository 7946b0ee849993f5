//! What an event is about: the `partitionkey` extension, else the event type's path into a JSON body, else nothing.

use std::fmt;

use bytes::Bytes;
use mailrail_types::{Attributes, JsonPath};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::parse::media_type;

/// Longest ordering key in bytes. A longer `partitionkey` is refused; a longer value in a body is cut here, which at worst
/// lets two keys share their order and never breaks the order of one.
pub(crate) const ORDERING_KEY_MAX_BYTES: usize = 512;

/// The ordering key of an event. Never an error: an event without a key has no order to keep.
pub(crate) fn ordering_key(attributes: &Attributes, body: &Bytes, path: Option<&JsonPath>) -> Option<String> {
    if let Some(key) = attributes.extension("partitionkey") {
        return Some(key.to_text());
    }
    let json = attributes.content_type.as_deref().is_none_or(media_type::is_json);
    if json { from_body(body, path?) } else { None }
}

/// The string or number at `path`, as the body writes it: numbers digit for digit, however long. Of a key that is there
/// twice the last one counts, as in match. Each step reads one level and skips the rest, so neither depth nor size of the
/// body costs memory.
fn from_body(body: &[u8], path: &JsonPath) -> Option<String> {
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
    let cut = text.floor_char_boundary(ORDERING_KEY_MAX_BYTES);
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
    use mailrail_types::{Attribute, AttributeValue};

    use super::*;

    fn at(path: &str, body: impl AsRef<[u8]>) -> Option<String> {
        from_body(body.as_ref(), &path.parse().expect("path"))
    }

    #[test]
    fn strings_and_numbers_are_keys_as_written() {
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

    #[test]
    fn anything_else_is_no_key_and_never_an_error() {
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
    fn partitionkey_goes_before_the_path_and_other_bodies_have_no_key() {
        let path: JsonPath = "a".parse().expect("path");
        let body = Bytes::from_static(br#"{"a":"body"}"#);
        let mut attributes = Attributes::default();
        assert_eq!(ordering_key(&attributes, &body, Some(&path)).as_deref(), Some("body"));
        assert_eq!(ordering_key(&attributes, &body, None), None);
        attributes.content_type = Some("text/plain".into());
        assert_eq!(ordering_key(&attributes, &body, Some(&path)), None);
        let value = AttributeValue::Integer(7);
        attributes.extensions.push(Attribute { name: "partitionkey".into(), value });
        assert_eq!(ordering_key(&attributes, &body, Some(&path)).as_deref(), Some("7"));
    }
}
