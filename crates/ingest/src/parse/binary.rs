//! Binary mode: attributes in `ce-*` headers, the body as it is. Plain bodies with such headers are the same thing.

use bytes::Bytes;
use http::HeaderMap;
use mailrail_types::AttributeValue;

use super::attributes::{Carrier, Draft};
use super::{CloudEvent, header_value};
use crate::problem::Refusal;

/// Reads the headers. Extensions are strings: headers carry no types. Their order is the one of the headers.
pub(crate) fn parse(
    headers: &HeaderMap,
    content_type: Option<&str>,
    body: &Bytes,
) -> Result<CloudEvent, Refusal> {
    let mut draft = Draft::new(Carrier::Headers);
    for (header, value) in headers {
        let Some(name) = header.as_str().strip_prefix("ce-") else { continue };
        if name == "datacontenttype" {
            return Err(
                draft.invalid(name, "carries the data content type; remove the header ce-datacontenttype")
            );
        }
        let Some(text) = header_value::decode(value.as_bytes()) else {
            return Err(draft.invalid(name, "is not valid UTF-8; send UTF-8, percent-encoded"));
        };
        draft.set(name, Some(AttributeValue::String(text)))?;
    }
    if let Some(content_type) = content_type {
        draft.set("datacontenttype", Some(AttributeValue::String(content_type.to_owned())))?;
    }
    Ok(CloudEvent { attributes: draft.finish()?, body: body.clone() })
}
