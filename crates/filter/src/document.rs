//! An event as filters see it: made once per event, read by all of its filters.

use std::borrow::Cow;
use std::sync::OnceLock;

use mailrail_types::{AttributeValue, Attributes};
use serde::Serialize;

use crate::cesql::Value;
use crate::json::{Node, ScanError, Tape, scan};

/// The parsed view of an event. Its body is scanned when the first clause on the body asks for it, and never again.
#[derive(Debug)]
pub struct Document<'a> {
    attributes: &'a Attributes,
    body: &'a [u8],
    tape: OnceLock<Result<Tape<'a>, ScanError>>,
}

/// Whether clauses on the body can match at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
#[non_exhaustive]
pub enum BodyState {
    /// The body is JSON.
    Json,
    /// It is not, or is too long or too deep: no clause on the body matches, `exists: false` neither.
    Unreadable {
        /// Where, in bytes from the start.
        offset: usize,
        /// What is wrong there.
        problem: &'static str,
    },
}

impl<'a> Document<'a> {
    /// Looks at an event. The content type is not asked: a body is JSON when it can be read as JSON.
    #[must_use]
    pub fn new(attributes: &'a Attributes, body: &'a [u8]) -> Self {
        Self { attributes, body, tape: OnceLock::new() }
    }

    /// Whether the body can be matched. Scans it when that has not happened yet.
    #[must_use]
    pub fn body_state(&self) -> BodyState {
        match self.tape() {
            Ok(_) => BodyState::Json,
            Err(e) => BodyState::Unreadable { offset: e.offset, problem: e.problem },
        }
    }

    /// The root of the body, when it is JSON.
    pub(crate) fn root(&self) -> Option<Node<'_>> {
        self.tape().as_ref().ok().map(Tape::root)
    }

    fn tape(&self) -> &Result<Tape<'a>, ScanError> {
        self.tape.get_or_init(|| scan(self.body))
    }

    /// An attribute with its type, when the event has it.
    pub(crate) fn typed_attribute(&self, name: &str) -> Option<Value<'_>> {
        match self.attributes.extension(name) {
            Some(AttributeValue::Boolean(truth)) => Some(Value::Boolean(*truth)),
            Some(AttributeValue::Integer(number)) => Some(Value::Integer(*number)),
            _ => self.attribute(name).map(Value::Attribute),
        }
    }

    /// The canonical text of an attribute, when the event has it.
    pub(crate) fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        let attributes = self.attributes;
        let text = match name {
            "specversion" => Some("1.0"),
            "id" => Some(attributes.id.as_str()),
            "source" => Some(attributes.source.as_str()),
            "type" => Some(attributes.event_type.as_str()),
            "subject" => attributes.subject.as_deref(),
            "time" => attributes.time.as_deref(),
            "datacontenttype" => attributes.content_type.as_deref(),
            "dataschema" => attributes.data_schema.as_deref(),
            _ => match attributes.extension(name)? {
                AttributeValue::String(text) => Some(text.as_str()),
                AttributeValue::Boolean(true) => Some("true"),
                AttributeValue::Boolean(false) => Some("false"),
                integer @ AttributeValue::Integer(_) => return Some(Cow::Owned(integer.to_text())),
            },
        };
        text.map(Cow::Borrowed)
    }
}
