//! An event in CloudEvents JSON, written down to try a filter on it.
//!
//! It is read as the front door reads a structured event: `data` stays as it is written, attributes keep their types. What a
//! filter does without may be left out, and is not judged: nobody gets this event.

use std::fmt;

use data_encoding::BASE64;
use mailrail_filter::Document;
use mailrail_surfaces::is_json;
use mailrail_types::{Attribute, AttributeValue, Attributes};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::FilterTestRefusal;
use crate::problem::INVALID_EVENT;

/// Most members of an event: more than the front door takes attributes.
const MEMBERS_MAX: usize = 100;

/// What a filter sees of an event.
pub(super) struct TriedEvent {
    attributes: Attributes,
    body: Vec<u8>,
}

impl TriedEvent {
    pub(super) fn document(&self) -> Document<'_> {
        Document::new(&self.attributes, &self.body)
    }
}

/// Reads one event.
pub(super) fn read(text: &[u8]) -> Result<TriedEvent, FilterTestRefusal> {
    let Members(members) = serde_json::from_slice(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        refuse(
            None,
            format!("it is not an object of JSON with names that stand once (line {line}, column {column})"),
        )
    })?;
    if members.len() > MEMBERS_MAX {
        return Err(refuse(None, format!("it has more than {MEMBERS_MAX} members; put them into 'data'")));
    }
    let mut attributes = Attributes::default();
    let (mut data, mut base64) = (None, None);
    for (name, value) in members {
        match name.as_str() {
            "data" => data = Some(value),
            "data_base64" => base64 = Some(value).filter(|value| value.get() != "null"),
            _ => set(&mut attributes, &name, value)?,
        }
    }
    let body = match (data, base64) {
        (None, None) => Vec::new(),
        (Some(_), Some(_)) => {
            return Err(refuse(Some("data_base64"), "'data' is given, too; give one of both"));
        }
        (None, Some(value)) => decode(value)?,
        (Some(value), None) => match attributes.content_type.as_deref() {
            Some(other) if !is_json(other) => text_of(value)?.into_bytes(),
            _ => value.get().as_bytes().to_vec(),
        },
    };
    Ok(TriedEvent { attributes, body })
}

fn refuse(member: Option<&str>, detail: impl Into<String>) -> FilterTestRefusal {
    let place = match member {
        Some(member) => format!("event.{}", member.chars().take(64).collect::<String>()),
        None => "event".to_owned(),
    };
    FilterTestRefusal { code: INVALID_EVENT, place, detail: detail.into() }
}

fn set(attributes: &mut Attributes, name: &str, value: &RawValue) -> Result<(), FilterTestRefusal> {
    let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !valid {
        return Err(refuse(Some(name), "names of attributes have a-z and 0-9 only; put it into 'data'"));
    }
    let Some(value) = attribute(name, value)? else { return Ok(()) };
    let place = match name {
        "id" => &mut attributes.id,
        "source" => &mut attributes.source,
        "type" => &mut attributes.event_type,
        "subject" => attributes.subject.get_or_insert_default(),
        "time" => attributes.time.get_or_insert_default(),
        "datacontenttype" => attributes.content_type.get_or_insert_default(),
        "dataschema" => attributes.data_schema.get_or_insert_default(),
        "specversion" => {
            let is_one = value == AttributeValue::String("1.0".to_owned());
            return if is_one { Ok(()) } else { Err(refuse(Some(name), "give \"1.0\", or leave it out")) };
        }
        _ => {
            attributes.extensions.push(Attribute { name: name.to_owned(), value });
            return Ok(());
        }
    };
    let AttributeValue::String(text) = value else {
        return Err(refuse(Some(name), "it is a string in every event; put it in quotes"));
    };
    *place = text;
    Ok(())
}

/// A value by the type mapping of the JSON format; null is an attribute that is not set.
fn attribute(name: &str, value: &RawValue) -> Result<Option<AttributeValue>, FilterTestRefusal> {
    let text = value.get();
    Ok(Some(match text.as_bytes().first() {
        Some(b'"') => AttributeValue::String(
            serde_json::from_str(text).map_err(|_| refuse(Some(name), "it is not valid Unicode"))?,
        ),
        Some(b't') => AttributeValue::Boolean(true),
        Some(b'f') => AttributeValue::Boolean(false),
        Some(b'n') => return Ok(None),
        _ => AttributeValue::Integer(text.parse().map_err(|_| {
            let detail = "an attribute is a string, true, false or a whole number of 32 bits; put all else into 'data'";
            refuse(Some(name), detail)
        })?),
    }))
}

fn text_of(value: &RawValue) -> Result<String, FilterTestRefusal> {
    let detail = "it is a string when datacontenttype is not JSON; or use 'data_base64'";
    serde_json::from_str(value.get()).map_err(|_| refuse(Some("data"), detail))
}

fn decode(value: &RawValue) -> Result<Vec<u8>, FilterTestRefusal> {
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    text.and_then(|text| BASE64.decode(text.as_bytes()).ok())
        .ok_or_else(|| refuse(Some("data_base64"), "it is a string of base64 with padding"))
}

/// The members of an object, each once.
struct Members<'a>(Vec<(String, &'a RawValue)>);

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
        let mut members: Vec<(String, &'de RawValue)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            if members.len() > MEMBERS_MAX {
                // It is refused anyway, however many there are.
                continue;
            }
            if members.iter().any(|(known, _)| *known == name) {
                return Err(serde::de::Error::custom("a name stands twice"));
            }
            members.push((name, value));
        }
        Ok(Members(members))
    }
}
