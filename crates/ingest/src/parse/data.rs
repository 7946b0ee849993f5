//! `data` and `data_base64` of a structured event: which of both, and the bytes they stand for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mailrail_types::Attributes;
use serde_json::value::RawValue;

use super::media_type;
use crate::problem::{Problem, Refusal};

/// What a JSON event without `datacontenttype` means (CloudEvents JSON format 1.0.2, section 3.1.2).
const IMPLIED_CONTENT_TYPE: &str = "application/json";

/// The data members of one event.
#[derive(Debug, Default)]
pub(crate) struct Payload<'a> {
    data: Option<&'a RawValue>,
    base64: Option<&'a RawValue>,
}

impl<'a> Payload<'a> {
    pub(crate) fn set_data(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        once(&mut self.data, "data", value)
    }

    pub(crate) fn set_base64(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        once(&mut self.base64, "data_base64", value)
    }

    /// The bytes, and the content type that they have. `whole` is the request body that the members were cut from.
    pub(crate) fn into_body(self, whole: &Bytes, attributes: &mut Attributes) -> Result<Bytes, Refusal> {
        let base64 = self.base64.filter(|value| value.get() != "null");
        let body = match (self.data, base64) {
            (None, None) => return Ok(Bytes::new()),
            (Some(_), Some(_)) => {
                let detail = "the event has 'data' and 'data_base64'; send one of both";
                return Err(Refusal::of(Problem::DataConflict, "data_base64", detail));
            }
            (None, Some(value)) => decode(value)?,
            (Some(value), None) => match attributes.content_type.as_deref() {
                Some(other) if !media_type::is_json(other) => text(value, other)?,
                // An explicit null is a payload of its own: "null", as distinct from no data.
                _ => whole.slice_ref(value.get().as_bytes()),
            },
        };
        // Written out, so that the event means the same when it leaves in another mode.
        attributes.content_type.get_or_insert_with(|| IMPLIED_CONTENT_TYPE.to_owned());
        Ok(body)
    }
}

fn once<'a>(slot: &mut Option<&'a RawValue>, name: &'static str, value: &'a RawValue) -> Result<(), Refusal> {
    if slot.replace(value).is_some() {
        let detail = format!("'{name}' is given twice; send it once");
        return Err(Refusal::of(Problem::DuplicateAttribute, name, detail));
    }
    Ok(())
}

fn decode(value: &RawValue) -> Result<Bytes, Refusal> {
    serde_json::from_str::<String>(value.get())
        .ok()
        .and_then(|text| STANDARD.decode(text).ok())
        .map(Bytes::from)
        .ok_or_else(|| {
            let detail = "'data_base64' must be a string of base64 with padding (RFC 4648, section 4), without line breaks";
            Refusal::of(Problem::InvalidBase64, "data_base64", detail)
        })
}

/// The text of a string, for content that is not JSON. In UTF-8: the content type must not say otherwise.
fn text(value: &RawValue, content_type: &str) -> Result<Bytes, Refusal> {
    let refuse = |detail| Err(Refusal::of(Problem::InvalidAttribute, "data", detail));
    let Ok(text) = serde_json::from_str::<String>(value.get()) else {
        return refuse(
            "'data' must be a string in valid Unicode when datacontenttype is not JSON; or use 'data_base64'",
        );
    };
    let agrees = match media_type::charset(content_type).as_deref() {
        None | Some("utf-8" | "utf8") => true,
        Some("us-ascii" | "iso-8859-1") => text.is_ascii(),
        Some(_) => false,
    };
    if !agrees {
        return refuse(
            "'data' cannot be written in the charset of datacontenttype; encode it and use 'data_base64'",
        );
    }
    Ok(Bytes::from(text))
}
