//! Structured mode: one JSON object holds the attributes and the data. Members are cut out of the text and never
//! re-written, so that `data` leaves as it came.

use std::fmt;

use bytes::Bytes;
use mailrail_types::AttributeValue;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::attributes::{Carrier, Draft, EXTENSIONS_MAX};
use super::{CloudEvent, data};
use crate::problem::{Problem, Refusal};

/// Most members of an event: the extensions, the eight attributes of the specification, `data` and `data_base64`, and one
/// more, so that the rule that is broken is named.
const MEMBERS_MAX: usize = EXTENSIONS_MAX + 11;

/// Reads one event. `text` is a part of `whole`, or all of it; the body of the event shares its memory.
pub(crate) fn parse(whole: &Bytes, text: &[u8]) -> Result<CloudEvent, Refusal> {
    let members = members(text)?;
    if members.dropped > 0 {
        let detail = format!(
            "the event has {} members; send at most 64 extension attributes",
            MEMBERS_MAX + members.dropped
        );
        return Err(Refusal::new(Problem::InvalidAttribute, detail));
    }
    let mut draft = Draft::new(Carrier::Json);
    let mut payload = data::Payload::default();
    for (name, value) in &members.kept {
        match name.as_str() {
            "data" => payload.set_data(value)?,
            "data_base64" => payload.set_base64(value)?,
            _ => {
                let value = attribute(&draft, name, value)?;
                draft.set(name, value)?;
            }
        }
    }
    let mut attributes = draft.finish()?;
    let body = payload.into_body(whole, &mut attributes)?;
    Ok(CloudEvent { attributes, body })
}

/// What was wrong with a JSON text, without repeating any of it.
pub(crate) fn malformed(what: &str, error: &serde_json::Error) -> Refusal {
    let how = if error.is_eof() { "it ends too early" } else { "it is not valid JSON in UTF-8" };
    let detail = format!("{what} cannot be read: {how} (line {}, column {})", error.line(), error.column());
    Refusal::new(Problem::MalformedJson, detail)
}

/// The members of a JSON object, in order, duplicates included.
struct Members<'a> {
    kept: Vec<(String, &'a RawValue)>,
    dropped: usize,
}

fn members(text: &[u8]) -> Result<Members<'_>, Refusal> {
    let first = text.iter().find(|b| !b.is_ascii_whitespace());
    if first.is_some_and(|b| *b != b'{') {
        return Err(Refusal::new(Problem::MalformedJson, "an event in JSON must be an object"));
    }
    serde_json::from_slice(text).map_err(|e| malformed("the event", &e))
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members { kept: Vec::new(), dropped: 0 };
        while members.kept.len() < MEMBERS_MAX {
            let Some(member) = map.next_entry()? else { return Ok(members) };
            members.kept.push(member);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            members.dropped += 1;
        }
        Ok(members)
    }
}

/// An attribute's value by the JSON format's type mapping; null is an attribute that is not set.
fn attribute(draft: &Draft, name: &str, value: &RawValue) -> Result<Option<AttributeValue>, Refusal> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'"') => match serde_json::from_str(text) {
            Ok(text) => Ok(Some(AttributeValue::String(text))),
            Err(_) => Err(draft.invalid(name, "is not valid Unicode: a surrogate stands alone")),
        },
        Some(b't') => Ok(Some(AttributeValue::Boolean(true))),
        Some(b'f') => Ok(Some(AttributeValue::Boolean(false))),
        Some(b'n') => Ok(None),
        Some(b'{' | b'[') => {
            Err(draft.invalid(name, "must be a string, boolean or integer; put structures into 'data'"))
        }
        _ => match text.parse() {
            Ok(number) => Ok(Some(AttributeValue::Integer(number))),
            Err(_) => Err(draft.invalid(name, "is not a 32-bit integer; send other numbers as a string")),
        },
    }
}
