//! From a request to CloudEvents: the content mode, then its parser. Pure: headers and bytes in, events or refusals out.

pub(crate) mod attributes;
mod batch;
mod binary;
mod data;
mod header_value;
pub(crate) mod media_type;
mod structured;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use mailrail_types::Attributes;

use crate::problem::{Problem, Refusal, shown};

/// A well-formed CloudEvent, before anything is known of its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CloudEvent {
    /// Its context attributes.
    pub(crate) attributes: Attributes,
    /// Its data, byte for byte.
    pub(crate) body: Bytes,
}

/// What a request carries.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// One event.
    Single(CloudEvent),
    /// A batch that as a whole is well-formed: each event or its refusal, in order.
    Batch(Vec<Result<CloudEvent, Refusal>>),
}

/// Reads the request in the mode that its content type names (CloudEvents HTTP binding 1.0.2, section 3).
pub(crate) fn parse(headers: &HeaderMap, body: &Bytes, batch_events_max: usize) -> Result<Parsed, Refusal> {
    let content_type = content_type(headers)?;
    match content_type.map(media_type::essence).as_deref() {
        Some("application/cloudevents+json") => {
            utf8_only(content_type)?;
            structured::parse(body, body).map(Parsed::Single)
        }
        Some("application/cloudevents-batch+json") => {
            utf8_only(content_type)?;
            batch::parse(body, batch_events_max).map(Parsed::Batch)
        }
        Some(other) if other.starts_with("application/cloudevents") => Err(Refusal::of(
            Problem::UnsupportedMediaType,
            "content-type",
            format!(
                "'{}' is not supported; send application/cloudevents+json, application/cloudevents-batch+json, or the \
                 attributes as ce-* headers",
                shown(other)
            ),
        )),
        _ => binary::parse(headers, content_type, body).map(Parsed::Single),
    }
}

/// The content type, when there is exactly one that can be sent on.
fn content_type(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::of(Problem::DuplicateAttribute, "content-type", "send one content-type header"));
    }
    let text = value.to_str().map_err(|_| {
        Refusal::of(
            Problem::InvalidAttribute,
            "content-type",
            "content-type has other characters than visible ASCII",
        )
    })?;
    Ok(Some(text))
}

/// JSON is UTF-8 (RFC 8259); a parameter that says otherwise would make us misread it.
fn utf8_only(content_type: Option<&str>) -> Result<(), Refusal> {
    match content_type.and_then(media_type::charset) {
        None => Ok(()),
        Some(charset) if charset == "utf-8" || charset == "utf8" || charset == "us-ascii" => Ok(()),
        Some(charset) => Err(Refusal::of(
            Problem::UnsupportedMediaType,
            "content-type",
            format!("charset '{}' is not supported for events in JSON; send UTF-8", shown(&charset)),
        )),
    }
}
