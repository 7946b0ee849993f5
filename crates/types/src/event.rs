//! An event: an immutable fact given by a producer.

use bytes::Bytes;

use crate::{EventId, IntegrationId, Provider, TenantId, Timestamp};

/// An accepted event. Its body is bytes and is never re-serialised: what the endpoint receives is what was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Names the occurrence; see [`EventId::derive`].
    pub id: EventId,
    /// Whose event this is; taken from the credential, never from the body.
    pub tenant: TenantId,
    /// CloudEvents context attributes.
    pub attributes: Attributes,
    /// What the event is about; order is promised per key. `None`: no key could be read, never an error.
    pub ordering_key: Option<String>,
    /// The raw payload.
    pub body: Bytes,
    /// W3C trace context: that of the last stage's span when the event is traced, else what its producer sent.
    pub trace: Option<TraceContext>,
    /// How it came, when it is a third party's webhook that is forwarded as it is.
    pub forwarded: Option<Box<Forwarded>>,
    /// When ingest took it in.
    pub accepted_at: Timestamp,
    /// Change-feed position of the set-up that ingest accepted it with (`Directory::seq`): match must have seen it before
    /// it may conclude that nobody wants the event.
    pub setup_seq: u64,
    /// Record fields written by a newer version, kept for the next reader. Opaque.
    pub unknown: Bytes,
}

/// The request of a third party, as far as its body does not hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Who sent it.
    pub provider: Provider,
    /// The integration it came in by; its cells are looked up at match, and again at each attempt.
    pub integration: IntegrationId,
    /// HTTP method.
    pub method: String,
    /// What followed the integration in the path, with the query; empty or starting with '/' or '?'.
    pub path: String,
    /// The headers that are kept, in order.
    pub headers: Vec<(String, Bytes)>,
}

/// CloudEvents 1.0 context attributes. `specversion` is always 1.0 and not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// `id`: unique per `source`.
    pub id: String,
    /// `source`: URI-reference of the producer's context.
    pub source: String,
    /// `type`: what happened.
    pub event_type: String,
    /// `subject`, when given.
    pub subject: Option<String>,
    /// `time` as the producer wrote it (RFC 3339).
    pub time: Option<String>,
    /// `datacontenttype`, with parameters, untouched.
    pub content_type: Option<String>,
    /// `dataschema`, when given.
    pub data_schema: Option<String>,
    /// Extension attributes in the producer's order, unknown ones included.
    pub extensions: Vec<Attribute>,
}

/// One extension attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Lower-case letters and digits (CloudEvents 1.0, "naming conventions").
    pub name: String,
    /// Its value with the type it came with.
    pub value: AttributeValue,
}

/// The CloudEvents types that JSON can tell apart; all others (URI, Timestamp, Binary) travel as strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// `true` or `false`.
    Boolean(bool),
    /// A 32-bit signed integer, as the specification bounds it.
    Integer(i32),
    /// Anything else.
    String(String),
}

impl AttributeValue {
    /// The canonical string of the value (CloudEvents 1.0, "type system").
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            AttributeValue::Boolean(b) => b.to_string(),
            AttributeValue::Integer(i) => i.to_string(),
            AttributeValue::String(s) => s.clone(),
        }
    }
}

impl Attributes {
    /// The extension called `name`, if the event has it.
    #[must_use]
    pub fn extension(&self, name: &str) -> Option<&AttributeValue> {
        self.extensions.iter().find(|a| a.name == name).map(|a| &a.value)
    }
}

/// W3C trace context, carried in records so that one trace spans both stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`, version 00; valid when it was taken in.
    pub traceparent: String,
    /// `tracestate`, or empty.
    pub tracestate: String,
}
