//! What an event is about: the `partitionkey` extension, else the event type's path into a JSON body, else nothing.

use bytes::Bytes;
use mailrail_surfaces::{BUCKET_KEY_MAX_BYTES, bucket_key};
use mailrail_types::{Attributes, JsonPath};

/// Longest ordering key in bytes. A longer `partitionkey` is refused; a longer value in a body is cut.
pub(crate) const ORDERING_KEY_MAX_BYTES: usize = BUCKET_KEY_MAX_BYTES;

/// The ordering key of an event. Never an error: an event without a key has no order to keep.
pub(crate) fn ordering_key(attributes: &Attributes, body: &Bytes, path: Option<&JsonPath>) -> Option<String> {
    if let Some(key) = attributes.extension("partitionkey") {
        return Some(key.to_text());
    }
    bucket_key(body, attributes.content_type.as_deref(), path?)
}

#[cfg(test)]
mod tests {
    use mailrail_types::{Attribute, AttributeValue};

    use super::*;

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
