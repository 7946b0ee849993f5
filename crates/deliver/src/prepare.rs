//! Delivery and endpoint → the request: headers, signature, body.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use mailrail_sign::SigningKey;
use mailrail_types::{Attributes, Delivery, Endpoint, Event, Forwarded, Timestamp};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::sequence::Sequence;

/// Sent when the producer named no content type.
const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

const USER_AGENT: &str = concat!("mailrail/", env!("CARGO_PKG_VERSION"));

/// CloudEvents HTTP binding 1.0, 3.1.3.2: space, double quote, percent and everything outside printable ASCII.
const HEADER_VALUE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Why no request can be made of the set-up. Says what to change, and never holds the secret.
pub(crate) type Unsendable = String;

/// A request that is ready to go.
pub(crate) struct Prepared<'a> {
    pub(crate) method: Method,
    pub(crate) url: Cow<'a, str>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
}

/// The request of attempt `number` at `now`. Our headers come last, so that none of an endpoint's replaces one of them.
/// The body is the accepted body: the same bytes. A forwarded webhook keeps its method, path and headers too.
pub(crate) fn prepare<'a>(
    delivery: &Delivery,
    endpoint: &'a Endpoint,
    number: u32,
    sequence: Sequence,
    now: Timestamp,
    timeout: Duration,
) -> Result<Prepared<'a>, Unsendable> {
    let keys: Vec<SigningKey> = endpoint
        .secrets
        .iter()
        .map(SigningKey::parse)
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let id = delivery.id.to_string();
    let signature = mailrail_sign::sign(&keys, &id, now.secs(), &delivery.event.body);
    let mut headers = Headers::default();
    for (name, value) in &endpoint.headers {
        headers.add(name, value.clone())?;
    }
    add_what_it_is(&mut headers, &delivery.event)?;
    headers.add("webhook-id", id)?;
    headers.add("webhook-timestamp", now.secs().to_string())?;
    headers.add("webhook-signature", signature)?;
    headers.add("mailrail-event-id", delivery.event.id.to_string())?;
    headers.add("mailrail-attempt", number.to_string())?;
    headers.add("mailrail-sequence", sequence.header())?;
    let forwarded = delivery.event.forwarded.as_deref();
    Ok(Prepared {
        method: forwarded
            .map_or(Ok(Method::POST), |f| f.method.parse())
            .map_err(|_| "its method is not valid".to_owned())?,
        url: forwarded.map_or(Cow::Borrowed(&*endpoint.url), |f| {
            Cow::Owned(mailrail_surfaces::cell_url(&endpoint.url, &f.path))
        }),
        headers: headers.0,
        body: delivery.event.body.clone(),
        timeout: endpoint.timeout.map_or(timeout, |own| own.min(timeout)),
    })
}

/// The headers that say what the body is: those of the provider for a forwarded webhook, CloudEvents otherwise.
fn add_what_it_is(headers: &mut Headers, event: &Event) -> Result<(), Unsendable> {
    if let Some(forwarded) = event.forwarded.as_deref() {
        return add_forwarded(headers, forwarded, event.attributes.content_type.as_deref());
    }
    add_cloudevents(headers, &event.attributes)?;
    headers.add(
        "content-type",
        event.attributes.content_type.as_deref().unwrap_or(DEFAULT_CONTENT_TYPE).to_owned(),
    )?;
    headers.add("user-agent", USER_AGENT.to_owned())
}

/// The kept headers of the provider, as they came.
fn add_forwarded(
    headers: &mut Headers,
    forwarded: &Forwarded,
    content_type: Option<&str>,
) -> Result<(), Unsendable> {
    if let Some(content_type) = content_type {
        headers.add("content-type", content_type.to_owned())?;
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
    headers.add("ce-specversion", "1.0".to_owned())?;
    headers.add_attribute("id", &attributes.id)?;
    headers.add_attribute("source", &attributes.source)?;
    headers.add_attribute("type", &attributes.event_type)?;
    let optional = [
        ("subject", &attributes.subject),
        ("time", &attributes.time),
        ("dataschema", &attributes.data_schema),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            headers.add_attribute(name, value)?;
        }
    }
    for extension in &attributes.extensions {
        headers.add_attribute(&extension.name, &extension.value.to_text())?;
    }
    Ok(())
}

#[derive(Default)]
struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    fn add(&mut self, name: &str, value: String) -> Result<(), Unsendable> {
        let bad = |part| format!("header '{name}' of the endpoint cannot be sent: its {part} is not valid");
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
        self.0.push((header, HeaderValue::try_from(value).map_err(|_| bad("value"))?));
        Ok(())
    }

    fn add_attribute(&mut self, name: &str, value: &str) -> Result<(), Unsendable> {
        self.add(&format!("ce-{name}"), percent_encode(value.as_bytes(), HEADER_VALUE).to_string())
    }
}
