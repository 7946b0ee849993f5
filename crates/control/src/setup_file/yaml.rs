//! YAML and JSON text → one tree of values, with no key twice; and back from a path to a line.

mod depth;

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use self::depth::{DEPTH_MAX, too_deep};
use super::path::{Path, Step};
use super::problem::{SetupProblem, code};

/// 2^64.
const EXACT_BELOW: f64 = 18_446_744_073_709_551_616.0;

/// Reads a YAML text.
///
/// # Errors
/// A problem with code `syntax` and a line: not YAML, nested too deep, a key twice in one object, a tag, a number that has
/// no exact JSON form.
pub fn parse_yaml(text: &str) -> Result<Value, SetupProblem> {
    if let Some(line) = too_deep(text) {
        let detail = format!("brackets are nested more than {DEPTH_MAX} deep; close those that are open");
        return Err(SetupProblem {
            line: Some(line),
            ..SetupProblem::new(code::SYNTAX, &Path::root(), detail)
        });
    }
    Tree.deserialize(serde_yaml_ng::Deserializer::from_str(text)).map_err(|error| {
        let line = error.location().map(|l| l.line());
        SetupProblem {
            line,
            ..SetupProblem::new(code::SYNTAX, &Path::root(), syntax_detail(&error.to_string()))
        }
    })
}

/// Reads a JSON text.
///
/// # Errors
/// As [`parse_yaml`].
pub fn parse_json(bytes: &[u8]) -> Result<Value, SetupProblem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    Tree.deserialize(&mut json).and_then(|value| json.end().map(|()| value)).map_err(|error| {
        let line = (error.line() > 0).then(|| error.line());
        SetupProblem {
            line,
            ..SetupProblem::new(code::SYNTAX, &Path::root(), syntax_detail(&error.to_string()))
        }
    })
}

/// A parser's text may quote a value of the document, and a value may be a secret.
fn syntax_detail(message: &str) -> String {
    match message.split_once("invalid type: ").or_else(|| message.split_once("invalid value: ")) {
        Some((before, rest)) => {
            let expected = rest.rsplit_once(", expected ").map_or("another value", |(_, expected)| expected);
            format!("{before}expected {expected}")
        }
        None => message.to_owned(),
    }
}

/// The line, from 1, on which the value at `path` stands (its key, where it has one). A path that does not exist (a
/// missing field) gives the line of the closest value around it.
#[must_use]
pub fn line_of(text: &str, path: &Path) -> Option<usize> {
    let seek = Seek { steps: path.steps(), found: true };
    let error = seek.deserialize(serde_yaml_ng::Deserializer::from_str(text)).err();
    error.and_then(|e| e.location()).map(|l| l.line())
}

/// Builds a [`Value`]; refuses a key that stands twice, because the last one would win in silence.
struct Tree;

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, a list, a string, a number, true, false or null")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Value, E> {
        // Parsers turn an integer beyond 64 bits into the nearest float: a filter would then compare with another number.
        if v.abs() >= EXACT_BELOW {
            return Err(E::custom("a number must be finite and below 2^64, or it is not kept exactly"));
        }
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Tree)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key_seed(NewKey(&object))? {
            let value = map.next_value_seed(Tree)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// A key that is not in the object yet. The check stands here so that the error gets the line of the key.
struct NewKey<'o>(&'o Map<String, Value>);

impl<'de> DeserializeSeed<'de> for NewKey<'_> {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NewKey<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string as key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        if self.0.contains_key(key) {
            return Err(E::custom(format_args!("the key '{key}' stands twice in one object; remove one")));
        }
        Ok(key.to_owned())
    }
}

/// Walks to a place and fails there: the parser adds the line to the error.
#[derive(Clone, Copy)]
struct Seek<'p> {
    steps: &'p [Step],
    /// Whether this value is on the way.
    found: bool,
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.found {
            deserializer.deserialize_any(self)
        } else {
            deserializer.deserialize_ignored_any(IgnoredAny).map(drop)
        }
    }
}

fn here<E: de::Error>() -> E {
    E::custom("here")
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("here")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((Step::Index(wanted), rest)) = self.steps.split_first() else { return Err(here()) };
        let mut at = 0;
        while seq.next_element_seed(Seek { steps: rest, found: at == *wanted })?.is_some() {
            at += 1;
        }
        Err(here())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Key(wanted), rest)) = self.steps.split_first() else { return Err(here()) };
        let key = SeekKey { wanted, last: rest.is_empty() };
        while let Some(found) = map.next_key_seed(key)? {
            map.next_value_seed(Seek { steps: rest, found })?;
        }
        Err(here())
    }
}

#[derive(Clone, Copy)]
struct SeekKey<'p> {
    wanted: &'p str,
    last: bool,
}

impl<'de> DeserializeSeed<'de> for SeekKey<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for SeekKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("here")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<bool, E> {
        let found = key == self.wanted;
        if found && self.last { Err(here()) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a: 1\nlist:\n  - x: 1\n  - y:\n      deep: [1,\n        2]\n\"odd.key\": z\n";

    #[test]
    fn lines_are_found() {
        let line = |path: &str| line_of(TEXT, &Path::parse(path).expect(path));
        assert_eq!(line("a"), Some(1));
        assert_eq!(line("list"), Some(2));
        assert_eq!(line("list[0]"), Some(3));
        assert_eq!(line("list[1].y"), Some(4));
        assert_eq!(line("list[1].y.deep[1]"), Some(6));
        assert_eq!(line("[\"odd.key\"]"), Some(7));
        // Missing: the closest value around it.
        assert_eq!(line("list[1].z"), Some(4));
        assert_eq!(line("a.b"), Some(1));
    }

    #[test]
    fn a_key_twice_is_refused_with_its_line() {
        let error = parse_yaml("a: 1\nb:\n  c: 1\n  c: 2\n").expect_err("twice");
        assert_eq!((error.code.as_str(), error.line), ("syntax", Some(4)));
        assert!(error.detail.contains("'c' stands twice"), "{}", error.detail);
        let error = parse_json(b"{\"a\":1,\n\"a\":2}").expect_err("twice");
        assert_eq!(error.line, Some(2));
    }

    #[test]
    fn a_hundred_thousand_brackets_are_refused_before_they_are_parsed() {
        for open in ["[", "{a: ", "- [\n"] {
            let error =
                parse_yaml(&format!("version: 1\ntenants: {}", open.repeat(100_000))).expect_err("deep");
            assert_eq!(error.code.as_str(), "syntax");
            assert!(error.line.is_some() && error.detail.contains("more than 64 deep"), "{}", error.detail);
        }
        // Depth by indentation is the parser's to refuse.
        let error = parse_yaml(&"- ".repeat(100_000)).expect_err("deep");
        assert!(error.detail.contains("recursion limit"), "{}", error.detail);
    }

    #[test]
    fn what_json_cannot_hold_exactly_is_refused() {
        for text in
            ["a: .nan", "a: 123456789012345678901234567890", "a: !tag x", "? [1]\n: 2", "a: 1\n---\nb: 2"]
        {
            assert!(parse_yaml(text).is_err(), "{text}");
        }
        assert!(parse_json(b"{} x").is_err());
        assert!(parse_json(b"[123456789012345678901234567890]").is_err());
    }

    #[test]
    fn n16_syntax_errors_do_not_quote_values() {
        assert_eq!(
            syntax_detail("invalid type: string \"canary\", expected a list at line 3"),
            "expected a list at line 3"
        );
        let error = parse_yaml("token: 340282366920938463463").expect_err("too large");
        assert!(!error.detail.contains("340282366920938463463"), "{}", error.detail);
    }
}
