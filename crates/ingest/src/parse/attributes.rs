//! Context attributes: names, types, lengths and what is required. The same rules for headers and for JSON.

use mailrail_types::{Attribute, AttributeValue, Attributes};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::ordering_key::ORDERING_KEY_MAX_BYTES;
use crate::problem::{Problem, Refusal, shown};

/// Longest attribute name. The specification advises 20; names in use are longer.
const NAME_MAX_BYTES: usize = 64;
/// Most extension attributes: far above any known producer, and few enough to look through one by one.
pub(crate) const EXTENSIONS_MAX: usize = 64;
/// Longest `id`: longer than any hash or UUID in text form.
const ID_MAX_BYTES: usize = 256;
/// Longest `type`: what an event type can be set up with.
const TYPE_MAX_BYTES: usize = mailrail_store::EVENT_TYPE_NAME_MAX;
/// Longest `source`, `subject` and `dataschema`: what is common for URLs.
const URI_MAX_BYTES: usize = 2048;
/// Longest `time`: RFC 3339 with nanoseconds has 35.
const TIME_MAX_BYTES: usize = 64;
/// Longest `datacontenttype`: it becomes a header of every delivery.
const CONTENT_TYPE_MAX_BYTES: usize = 256;
/// Longest value of an extension: it becomes a header of every delivery.
const EXTENSION_MAX_BYTES: usize = 4096;
/// The one version that is taken.
const SPECVERSION: &str = "1.0";

/// Where the attributes come from; decides how answers name them and whether `specversion` may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// `ce-*` headers. Without `ce-specversion` it is a plain body with headers, and 1.0 is meant.
    Headers,
    /// Members of a JSON object.
    Json,
}

impl Carrier {
    /// The name that the producer knows an attribute by.
    pub(crate) fn name_of(self, attribute: &str) -> String {
        match (self, attribute) {
            (Carrier::Headers, "datacontenttype") => "content-type".to_owned(),
            (Carrier::Headers, _) => format!("ce-{}", shown(attribute)),
            (Carrier::Json, _) => shown(attribute),
        }
    }
}

/// Attributes while they are read, one by one.
#[derive(Debug)]
pub(crate) struct Draft {
    carrier: Carrier,
    seen: Vec<String>,
    has_specversion: bool,
    attributes: Attributes,
}

impl Draft {
    /// No attributes yet.
    pub(crate) fn new(carrier: Carrier) -> Self {
        Self { carrier, seen: Vec::new(), has_specversion: false, attributes: Attributes::default() }
    }

    /// Takes one attribute. `None` is JSON's null: the name is used up and the attribute stays unset.
    pub(crate) fn set(&mut self, name: &str, value: Option<AttributeValue>) -> Result<(), Refusal> {
        self.claim(name)?;
        let Some(value) = value else { return Ok(()) };
        let max = match name {
            "specversion" => return self.specversion(&value),
            "id" => ID_MAX_BYTES,
            "type" => TYPE_MAX_BYTES,
            "source" | "subject" | "dataschema" => URI_MAX_BYTES,
            "time" => TIME_MAX_BYTES,
            "datacontenttype" => CONTENT_TYPE_MAX_BYTES,
            _ => return self.extension(name, value),
        };
        let AttributeValue::String(text) = value else {
            return Err(self.invalid(name, "must be a string"));
        };
        if text.is_empty() {
            return Err(self.invalid(name, "must not be empty; leave it out or give it a value"));
        }
        self.check_text(name, &text, max)?;
        match name {
            "time" if OffsetDateTime::parse(&text, &Rfc3339).is_err() => {
                return Err(self.invalid(name, "must be an RFC 3339 time such as 2030-01-31T12:00:00Z"));
            }
            "datacontenttype" if !super::media_type::is_valid(&text) => {
                return Err(self.invalid(name, "must be a media type such as application/json"));
            }
            _ => {}
        }
        let kept = &mut self.attributes;
        match name {
            "id" => kept.id = text,
            "source" => kept.source = text,
            "type" => kept.event_type = text,
            "subject" => kept.subject = Some(text),
            "time" => kept.time = Some(text),
            "datacontenttype" => kept.content_type = Some(text),
            _ => kept.data_schema = Some(text),
        }
        Ok(())
    }

    /// The attributes, when nothing required is missing.
    pub(crate) fn finish(self) -> Result<Attributes, Refusal> {
        let required = [
            ("specversion", self.has_specversion || self.carrier == Carrier::Headers),
            ("id", !self.attributes.id.is_empty()),
            ("source", !self.attributes.source.is_empty()),
            ("type", !self.attributes.event_type.is_empty()),
        ];
        let missing: Vec<String> =
            required.iter().filter(|(_, there)| !there).map(|(name, _)| self.carrier.name_of(name)).collect();
        let Some(first) = missing.first() else { return Ok(self.attributes) };
        let hint = match self.carrier {
            Carrier::Headers if self.seen.iter().all(|name| name == "datacontenttype") => {
                "; to send the event as JSON instead, use content-type application/cloudevents+json"
            }
            Carrier::Headers | Carrier::Json => "",
        };
        let what = if self.carrier == Carrier::Headers { "header" } else { "attribute" };
        let detail = format!("add the required {what} {}{hint}", missing.join(", "));
        Err(Refusal::of(Problem::MissingAttribute, first.clone(), detail))
    }

    /// Marks a name as used: it must be one, and be new.
    fn claim(&mut self, name: &str) -> Result<(), Refusal> {
        let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if name.is_empty() || name.len() > NAME_MAX_BYTES || name == "data" || !name.bytes().all(valid) {
            return Err(self.invalid(
                name,
                "is not a name for an attribute: use 1 to 64 of a-z and 0-9, but not 'data'",
            ));
        }
        if self.seen.iter().any(|seen| seen == name) {
            let field = self.carrier.name_of(name);
            let detail = format!("'{field}' is given twice; send it once");
            return Err(Refusal::of(Problem::DuplicateAttribute, field, detail));
        }
        self.seen.push(name.to_owned());
        Ok(())
    }

    fn specversion(&mut self, value: &AttributeValue) -> Result<(), Refusal> {
        let field = self.carrier.name_of("specversion");
        match value {
            AttributeValue::String(text) if text == SPECVERSION => {
                self.has_specversion = true;
                Ok(())
            }
            AttributeValue::String(text) => {
                let detail = format!("specversion '{}' is not supported; send 1.0", shown(text));
                Err(Refusal::of(Problem::UnsupportedSpecversion, field, detail))
            }
            AttributeValue::Boolean(_) | AttributeValue::Integer(_) => {
                Err(self.invalid("specversion", "must be the string \"1.0\""))
            }
        }
    }

    fn extension(&mut self, name: &str, value: AttributeValue) -> Result<(), Refusal> {
        if let AttributeValue::String(text) = &value {
            let max = if name == "partitionkey" { ORDERING_KEY_MAX_BYTES } else { EXTENSION_MAX_BYTES };
            self.check_text(name, text, max)?;
            if name == "partitionkey" && text.is_empty() {
                return Err(self.invalid(name, "must not be empty; leave it out or give it a value"));
            }
        }
        if self.attributes.extensions.len() >= EXTENSIONS_MAX {
            return Err(self.invalid(name, "is one extension attribute too many; send at most 64"));
        }
        self.attributes.extensions.push(Attribute { name: name.to_owned(), value });
        Ok(())
    }

    /// Length, and the characters that the specification keeps out of strings: controls and Unicode noncharacters.
    fn check_text(&self, name: &str, text: &str, max: usize) -> Result<(), Refusal> {
        if text.len() > max {
            return Err(self.invalid(name, &format!("has {} bytes; send at most {max}", text.len())));
        }
        let noncharacter =
            |c: char| u32::from(c) & 0xfffe == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&c);
        if text.chars().any(|c| c.is_control() || noncharacter(c)) {
            return Err(self.invalid(name, "has a control character or a Unicode noncharacter; remove it"));
        }
        Ok(())
    }

    /// A refusal that says what is wrong with this attribute.
    pub(crate) fn invalid(&self, name: &str, what: &str) -> Refusal {
        let field = self.carrier.name_of(name);
        let detail = format!("'{field}' {what}");
        Refusal::of(Problem::InvalidAttribute, field, detail)
    }
}
