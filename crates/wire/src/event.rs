//! Events.

use bytes::Bytes;
use mailrail_types::{
    Attribute, AttributeValue, Attributes, Event, EventId, Forwarded, IntegrationId, Provider, TenantId,
    Timestamp, TraceContext,
};
use prost::Message;

use crate::Error;
use crate::error::id16;
use crate::proto::event as pb;
use crate::unknown::{MAILRAIL_EVENT_V1_EVENT, encode_with, unknown_fields};

/// The record of an event.
#[must_use]
pub fn encode_event(event: &Event) -> Bytes {
    let a = &event.attributes;
    let trace = event.trace.as_ref();
    let message = pb::Event {
        id: event.id.as_bytes().to_vec(),
        tenant: event.tenant.as_str().to_owned(),
        ce_id: a.id.clone(),
        ce_source: a.source.clone(),
        ce_type: a.event_type.clone(),
        ce_subject: a.subject.clone(),
        ce_time: a.time.clone(),
        content_type: a.content_type.clone(),
        ce_dataschema: a.data_schema.clone(),
        extensions: a.extensions.iter().map(extension).collect(),
        ordering_key: event.ordering_key.clone(),
        body: event.body.clone(),
        traceparent: trace.map(|t| t.traceparent.clone()).unwrap_or_default(),
        tracestate: trace.map(|t| t.tracestate.clone()).unwrap_or_default(),
        accepted_at_ms: event.accepted_at.millis(),
        setup_seq: event.setup_seq,
        forwarded: event.forwarded.as_deref().map(forwarded),
    };
    encode_with(&message, &event.unknown)
}

/// Reads the record of an event. The body shares memory with the record.
///
/// # Errors
/// [`Error`] when it is not such a record.
pub fn decode_event(record: &Bytes) -> Result<Event, Error> {
    let unknown = unknown_fields(record, MAILRAIL_EVENT_V1_EVENT)?;
    let m = pb::Event::decode(record.clone())?;
    Ok(Event {
        id: EventId::from_bytes(id16("id", &m.id)?),
        tenant: TenantId::new(&m.tenant).map_err(|e| Error::field("tenant", e))?,
        attributes: Attributes {
            id: m.ce_id,
            source: m.ce_source,
            event_type: m.ce_type,
            subject: m.ce_subject,
            time: m.ce_time,
            content_type: m.content_type,
            data_schema: m.ce_dataschema,
            extensions: m.extensions.into_iter().map(attribute).collect::<Result<_, _>>()?,
        },
        ordering_key: m.ordering_key,
        body: m.body,
        trace: (!m.traceparent.is_empty())
            .then_some(TraceContext { traceparent: m.traceparent, tracestate: m.tracestate }),
        accepted_at: Timestamp(m.accepted_at_ms),
        setup_seq: m.setup_seq,
        forwarded: m.forwarded.map(read_forwarded).transpose()?.map(Box::new),
        unknown,
    })
}

fn forwarded(forwarded: &Forwarded) -> pb::Forwarded {
    let header = |(name, value): &(String, Bytes)| pb::Header { name: name.clone(), value: value.clone() };
    pb::Forwarded {
        provider: forwarded.provider.name().to_owned(),
        integration: forwarded.integration.as_str().to_owned(),
        method: forwarded.method.clone(),
        path: forwarded.path.clone(),
        headers: forwarded.headers.iter().map(header).collect(),
    }
}

fn read_forwarded(m: pb::Forwarded) -> Result<Forwarded, Error> {
    Ok(Forwarded {
        provider: Provider::from_name(&m.provider)
            .ok_or_else(|| Error::field("forwarded.provider", format!("an unknown name '{}'", m.provider)))?,
        integration: IntegrationId::new(&m.integration)
            .map_err(|e| Error::field("forwarded.integration", e))?,
        method: m.method,
        path: m.path,
        headers: m.headers.into_iter().map(|h| (h.name, h.value)).collect(),
    })
}

fn extension(attribute: &Attribute) -> pb::Extension {
    use pb::extension::Value;
    pb::Extension {
        name: attribute.name.clone(),
        value: Some(match &attribute.value {
            AttributeValue::Boolean(b) => Value::Boolean(*b),
            AttributeValue::Integer(i) => Value::Integer(*i),
            AttributeValue::String(s) => Value::Text(s.clone()),
        }),
    }
}

fn attribute(extension: pb::Extension) -> Result<Attribute, Error> {
    use pb::extension::Value;
    let value = match extension.value {
        Some(Value::Boolean(b)) => AttributeValue::Boolean(b),
        Some(Value::Integer(i)) => AttributeValue::Integer(i),
        Some(Value::Text(s)) => AttributeValue::String(s),
        None => return Err(Error::field("extensions", "without a value")),
    };
    Ok(Attribute { name: extension.name, value })
}
