//! Events.

use std::mem::take;

use bytes::Bytes;
use mailrail_types::{
    Attribute, AttributeValue, Attributes, Event, EventId, Forwarded, IntegrationId, Provider, TenantId,
    Timestamp, TraceContext,
};
use prost::Message;

use crate::Error;
use crate::error::id16;
use crate::proto::event as pb;
use crate::unknown::{MAILRAIL_EVENT_V1_EVENT, encode_with, fields, unknown_fields};

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
    let mut message = pb::Event::decode(record.clone())?;
    let tenant = read_tenant(&message)?;
    take_event(&mut message, tenant, unknown)
}

/// Reads records of events one after the other; an event that is of no more use is given back, and the next one is read into its
/// memory. For who reads many and keeps few: most of an event's cost is the memory of its texts.
#[derive(Debug, Default)]
pub struct EventReader {
    /// Between two records: texts whose memory is used again, empty or not.
    message: pb::Event,
    spare: Option<Box<Event>>,
}

impl EventReader {
    /// The same as [`decode_event`].
    ///
    /// # Errors
    /// [`Error`] when it is not the record of an event.
    pub fn read(&mut self, record: &Bytes) -> Result<Box<Event>, Error> {
        let fields = fields(record, MAILRAIL_EVENT_V1_EVENT)?;
        let spare = self.spare.take();
        let m = &mut self.message;
        m.merge(record.clone()).inspect_err(|_| m.clear())?;
        // What is there once is read over what was there before; what is not there may not be left from then.
        let optional: [(u32, &mut Option<String>); 5] = [
            (6, &mut m.ce_subject),
            (7, &mut m.ce_time),
            (8, &mut m.content_type),
            (9, &mut m.ce_dataschema),
            (11, &mut m.ordering_key),
        ];
        for (tag, text) in optional {
            if !fields.has(tag) {
                *text = None;
            }
        }
        let tenant = match &spare {
            Some(spare) if spare.tenant.as_str() == m.tenant => spare.tenant.clone(),
            _ => read_tenant(m).inspect_err(|_| m.clear())?,
        };
        let event = take_event(m, tenant, fields.unknown).inspect_err(|_| m.clear())?;
        Ok(match spare {
            Some(mut spare) => {
                *spare = event;
                spare
            }
            None => Box::new(event),
        })
    }

    /// Gives back an event that is of no more use.
    pub fn give_back(&mut self, mut event: Box<Event>) {
        self.message = empty_message(&mut event, take(&mut self.message));
        self.spare = Some(event);
    }
}
fn read_tenant(m: &pb::Event) -> Result<TenantId, Error> {
    TenantId::new(&m.tenant).map_err(|e| Error::field("tenant", e))
}

/// Takes an event out of its message, which is then empty, unless there is an error.
fn take_event(m: &mut pb::Event, tenant: TenantId, unknown: Bytes) -> Result<Event, Error> {
    let event = Event {
        id: EventId::from_bytes(id16("id", &m.id)?),
        tenant,
        attributes: Attributes {
            id: take(&mut m.ce_id),
            source: take(&mut m.ce_source),
            event_type: take(&mut m.ce_type),
            subject: m.ce_subject.take(),
            time: m.ce_time.take(),
            content_type: m.content_type.take(),
            data_schema: m.ce_dataschema.take(),
            extensions: m.extensions.drain(..).map(attribute).collect::<Result<_, _>>()?,
        },
        ordering_key: m.ordering_key.take(),
        body: take(&mut m.body),
        trace: (!m.traceparent.is_empty()).then(|| TraceContext {
            traceparent: take(&mut m.traceparent),
            tracestate: take(&mut m.tracestate),
        }),
        accepted_at: Timestamp(take(&mut m.accepted_at_ms)),
        setup_seq: take(&mut m.setup_seq),
        forwarded: m.forwarded.take().map(read_forwarded).transpose()?.map(Box::new),
        unknown,
    };
    m.id.clear();
    m.tenant.clear();
    m.tracestate.clear();
    Ok(event)
}

/// An empty message that has the memory of the event's texts. `left` is an empty one that had others.
fn empty_message(event: &mut Event, left: pb::Event) -> pb::Event {
    let Attributes { id, source, event_type, subject, time, content_type, data_schema, extensions: _ } =
        take(&mut event.attributes);
    let trace = event.trace.take();
    let (traceparent, tracestate) = trace.map(|t| (t.traceparent, t.tracestate)).unwrap_or_default();
    pb::Event {
        ce_id: cleared(id),
        ce_source: cleared(source),
        ce_type: cleared(event_type),
        ce_subject: subject.map(cleared),
        ce_time: time.map(cleared),
        content_type: content_type.map(cleared),
        ce_dataschema: data_schema.map(cleared),
        ordering_key: event.ordering_key.take().map(cleared),
        traceparent: cleared(traceparent),
        tracestate: cleared(tracestate),
        ..left
    }
}

fn cleared(mut text: String) -> String {
    text.clear();
    text
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
