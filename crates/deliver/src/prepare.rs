//! Delivery and endpoint → the request: headers, signature, body.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use mailrail_egress::{Destination, Egress, Request};
use mailrail_types::{Attributes, Delivery, ErrorCode, Event, Forwarded, Timestamp};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::route::{Route, Unsendable};
use crate::sequence::Sequence;

/// Sent when the producer named no content type.
const DEFAULT_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("mailrail/", env!("CARGO_PKG_VERSION")));

const WEBHOOK_ID: HeaderName = HeaderName::from_static(mailrail_sign::ID_HEADER);
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static(mailrail_sign::TIMESTAMP_HEADER);
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static(mailrail_sign::SIGNATURE_HEADER);
const EVENT_ID: HeaderName = HeaderName::from_static("mailrail-event-id");
const ATTEMPT: HeaderName = HeaderName::from_static("mailrail-attempt");
const SEQUENCE: HeaderName = HeaderName::from_static("mailrail-sequence");
/// How often it was put back from the dead letters; sent when it was.
const REDRIVE: HeaderName = HeaderName::from_static("mailrail-redrive");

const CE_SPECVERSION: HeaderName = HeaderName::from_static("ce-specversion");
const CE_ID: HeaderName = HeaderName::from_static("ce-id");
const CE_SOURCE: HeaderName = HeaderName::from_static("ce-source");
const CE_TYPE: HeaderName = HeaderName::from_static("ce-type");
const CE_SUBJECT: HeaderName = HeaderName::from_static("ce-subject");
const CE_TIME: HeaderName = HeaderName::from_static("ce-time");
const CE_DATASCHEMA: HeaderName = HeaderName::from_static("ce-dataschema");

/// CloudEvents HTTP binding 1.0, 3.1.3.2: space, double quote, percent and everything outside printable ASCII.
const HEADER_VALUE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Headers of a request, those of an endpoint not counted: room for them is made once.
const OWN_HEADERS: usize = 19;

/// A request that is ready to go.
pub(crate) struct Prepared {
    pub(crate) method: Method,
    /// Where it goes, or why it may not go there: an attempt that fails like any other.
    pub(crate) destination: Result<Destination, ErrorCode>,
    pub(crate) request: Request,
}

/// The request of attempt `number` at `now`. Our headers come last, so that none of an endpoint's replaces one of them.
/// The body is the accepted body: the same bytes. A forwarded webhook keeps its method, path and headers too.
pub(crate) fn prepare(
    delivery: &Delivery,
    (route, egress): (&Route, &Egress),
    number: u32,
    sequence: Sequence,
    now: Timestamp,
    timeout: Duration,
) -> Result<Prepared, Unsendable> {
    let endpoint = &*route.endpoint;
    let id = delivery.id.to_string();
    let signature = mailrail_sign::sign(&route.keys, &id, now.secs(), &delivery.event.body);
    let mut headers = Headers(Vec::with_capacity(route.headers.len() + OWN_HEADERS));
    headers.0.extend(route.headers.iter().cloned());
    add_what_it_is(&mut headers, &delivery.event)?;
    headers.add(WEBHOOK_ID, id)?;
    headers.add(WEBHOOK_TIMESTAMP, now.secs().to_string())?;
    headers.add(WEBHOOK_SIGNATURE, signature)?;
    headers.add(EVENT_ID, delivery.event.id.to_string())?;
    headers.0.push((ATTEMPT, HeaderValue::from(number)));
    headers.add(SEQUENCE, sequence.header())?;
    if delivery.history.redrives > 0 {
        headers.0.push((REDRIVE, HeaderValue::from(delivery.history.redrives)));
    }
    let (method, destination) = match delivery.event.forwarded.as_deref() {
        None => (Method::POST, route.destination.clone()),
        Some(forwarded) => (
            forwarded.method.parse().map_err(|_| "its method is not valid".to_owned())?,
            egress.destination(&mailrail_surfaces::cell_url(&endpoint.url, &forwarded.path)),
        ),
    };
    let timeout = endpoint.timeout.map_or(timeout, |own| own.min(timeout));
    let request = Request { headers: headers.0, body: delivery.event.body.clone(), timeout };
    Ok(Prepared { method, destination, request })
}

/// The headers that say what the body is: those of the provider for a forwarded webhook, CloudEvents otherwise.
fn add_what_it_is(headers: &mut Headers, event: &Event) -> Result<(), Unsendable> {
    if let Some(forwarded) = event.forwarded.as_deref() {
        return add_forwarded(headers, forwarded, event.attributes.content_type.as_deref());
    }
    add_cloudevents(headers, &event.attributes)?;
    let content_type = match &event.attributes.content_type {
        Some(named) => Headers::value(&header::CONTENT_TYPE, named.clone())?,
        None => DEFAULT_CONTENT_TYPE,
    };
    headers.0.push((header::CONTENT_TYPE, content_type));
    headers.0.push((header::USER_AGENT, USER_AGENT));
    Ok(())
}

/// The kept headers of the provider, as they came.
fn add_forwarded(
    headers: &mut Headers,
    forwarded: &Forwarded,
    content_type: Option<&str>,
) -> Result<(), Unsendable> {
    if let Some(content_type) = content_type {
        headers.add(header::CONTENT_TYPE, content_type.to_owned())?;
    }
    for (name, value) in &forwarded.headers {
        let bad = || format!("header '{name}' of the forwarded webhook cannot be sent");
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        headers.0.push((header, HeaderValue::from_maybe_shared(value.clone()).map_err(|_| bad())?));
    }
    Ok(())
}

/// The event's attributes in binary content mode, so that a receiver reads type and source without touching the body.
fn add_cloudevents(headers: &mut Headers, attributes: &Attributes) -> Result<(), Unsendable> {
    headers.0.push((CE_SPECVERSION, HeaderValue::from_static("1.0")));
    headers.add_attribute(CE_ID, &attributes.id)?;
    headers.add_attribute(CE_SOURCE, &attributes.source)?;
    headers.add_attribute(CE_TYPE, &attributes.event_type)?;
    let optional = [
        (CE_SUBJECT, &attributes.subject),
        (CE_TIME, &attributes.time),
        (CE_DATASCHEMA, &attributes.data_schema),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            headers.add_attribute(name, value)?;
        }
    }
    for extension in &attributes.extensions {
        let name = format!("ce-{}", extension.name);
        let name = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("header '{name}' of the event cannot be sent: its name is not valid"))?;
        headers.add_attribute(name, &extension.value.to_text())?;
    }
    Ok(())
}

fn invalid(name: &HeaderName) -> Unsendable {
    format!("header '{name}' cannot be sent: its value is not valid")
}

struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    fn add(&mut self, name: HeaderName, value: String) -> Result<(), Unsendable> {
        let value = Self::value(&name, value)?;
        self.0.push((name, value));
        Ok(())
    }

    fn value(name: &HeaderName, value: String) -> Result<HeaderValue, Unsendable> {
        HeaderValue::try_from(value).map_err(|_| invalid(name))
    }

    fn add_attribute(&mut self, name: HeaderName, value: &str) -> Result<(), Unsendable> {
        // Nearly always there is nothing to encode.
        let value = Cow::from(percent_encode(value.as_bytes(), HEADER_VALUE));
        let value = HeaderValue::from_str(&value).map_err(|_| invalid(&name))?;
        self.0.push((name, value));
        Ok(())
    }
}
