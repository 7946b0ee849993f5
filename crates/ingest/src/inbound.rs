//! The path of a third party's webhook, as a list of steps. A step that refuses ends it, and nothing of it is accepted.

mod address;

use std::sync::Arc;

use axum::extract::Request;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use mailrail_egress::URL_MAX_BYTES;
use mailrail_sign::verify_inbound;
use mailrail_store::{Directory, TenantView};
use mailrail_surfaces::{
    attribute_type, bucket_key, cell_url, delivery_id, event_type, kept_headers, preset,
};
use mailrail_types::{Attributes, Event, EventId, Forwarded, Integration};

use crate::append::append;
use crate::in_flight::Payer;
use crate::problem::{Problem, Refusal};
use crate::read_body::read_body;
use crate::reply::Reply;
use crate::service::FrontDoor;
use crate::spans::Spans;
use crate::tag::tag;
use crate::trace;
use address::Address;

/// Most bytes of path and query that go on to the cells, however short a cell's own URL is: it may be changed while the
/// webhook waits.
const REST_MAX_BYTES: usize = 1024;

/// The methods that are forwarded, as far as they have a common name; others are too.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// A webhook that came in by a known integration.
struct Webhook {
    sender: Arc<TenantView>,
    integration: Arc<Integration>,
    /// What followed the integration in the path, with the query.
    rest: String,
    head: Parts,
    body: Bytes,
}

/// From a third party's request to what became of it.
pub(crate) async fn take_in(door: &FrontDoor, request: Request) -> Result<Reply, Refusal> {
    let begun = door.traces.begin();
    let (head, body) = request.into_parts();
    let (sender, integration, rest) = find(&door.directory, &head.uri)?;
    refuse_shed(door, &sender, &integration)?;
    refuse_method(&head.method)?;
    refuse_long(rest.len(), REST_MAX_BYTES)?;
    let payer = payer(&sender, &integration);
    let mut reservation = door.in_flight.reserve(payer, &body, door.config.body_limit_bytes)?;
    let body = read_body(body, &door.config, &mut reservation).await?;
    let webhook = Webhook { sender, integration, rest, head, body };
    verify(door, &webhook)?;
    reservation.verified()?;
    refuse_unsendable(&webhook)?;
    if webhook.integration.cells.is_empty() {
        return Ok(Reply::NoCells);
    }
    let class = mailrail_surfaces::integration_class(&webhook.integration);
    let sender = Arc::clone(&webhook.sender);
    let mut event = complete(door, webhook);
    let id = event.id;
    let spans = Spans::begin(&door.traces, std::slice::from_mut(&mut event), begun);
    let tagged = tag(door, &sender, &class, event).await;
    let stored = append(door, &[tagged]).await;
    spans.end(&stored);
    stored.map(|()| Reply::Single(id))
}

/// The integration that the URL names. One answer for everything that is not there, so that it tells nothing about which
/// tenants and integrations exist.
fn find(directory: &Directory, uri: &Uri) -> Result<(Arc<TenantView>, Arc<Integration>, String), Refusal> {
    let found = address::read(uri).and_then(|address| {
        let Address { provider, tenant, integration, rest } = address;
        let Some(tenant) = tenant else {
            return directory.integration(provider, &integration).map(|(view, known)| (view, known, rest));
        };
        let view = directory.tenant(&tenant)?;
        let known =
            view.integrations.get(&integration).filter(|known| known.provider == provider).cloned()?;
        Some((view, known, rest))
    });
    found.ok_or_else(|| {
        let detail = "no integration takes webhooks here: check provider and integration in the URL; write \
                      '{tenant}:{integration}' when several tenants have one of this name";
        Refusal::new(Problem::NotFound, detail)
    })
}

/// Traffic that the operator turns away. Before anything is read, sized or counted for sizing: what is shed must cost
/// nothing, and leave no trace in the width of mailboxes.
fn refuse_shed(door: &FrontDoor, sender: &TenantView, integration: &Integration) -> Result<(), Refusal> {
    let covers = |rule: &mailrail_types::ShedRule| {
        rule.covers(integration.provider, &sender.tenant.id, &integration.id)
    };
    if door.directory.shed().iter().any(covers) {
        return Err(Refusal::new(
            Problem::Shed,
            "the operator turns this traffic away for now; send again later",
        ));
    }
    Ok(())
}

/// Any method is forwarded but those that are about the connection itself, not about a resource.
fn refuse_method(method: &Method) -> Result<(), Refusal> {
    if matches!(*method, Method::CONNECT | Method::TRACE) {
        let detail = "send webhooks with POST; CONNECT and TRACE are not forwarded";
        return Err(Refusal::method_not_allowed(METHODS, detail));
    }
    Ok(())
}

/// Whose share of memory the body takes: the tenant's only if there is nothing to verify.
fn payer(sender: &TenantView, integration: &Integration) -> Payer {
    let tenant = sender.tenant.id.clone();
    if integration.secrets.is_empty() {
        Payer::Tenant(tenant)
    } else {
        Payer::Unverified(tenant, integration.id.clone())
    }
}

/// A webhook that can never be sent must not be answered 202: what followed the integration must fit behind the URL of each
/// cell. Checked once the sender is verified, as the answer tells how long those are.
fn refuse_unsendable(webhook: &Webhook) -> Result<(), Refusal> {
    let Webhook { sender, integration, rest, .. } = webhook;
    let endpoints = integration.cells.iter().filter_map(|cell| sender.endpoints.get(cell));
    let longest = endpoints.map(|endpoint| cell_url(&endpoint.url, rest).len()).max().unwrap_or_default();
    refuse_long(longest, URL_MAX_BYTES)
}

fn refuse_long(bytes: usize, bytes_max: usize) -> Result<(), Refusal> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let detail = format!(
        "what follows the integration in the URL is {} bytes too long to be sent on; shorten it, or the URLs of the \
         integration's cells",
        bytes - bytes_max
    );
    Err(Refusal::new(Problem::UrlTooLong, detail))
}

fn verify(door: &FrontDoor, webhook: &Webhook) -> Result<(), Refusal> {
    let Webhook { integration, head, body, .. } = webhook;
    let header = |name: &str| single(&head.headers, name);
    verify_inbound(integration.provider, &integration.secrets, header, body, (door.clock)())
        .map_err(|error| Refusal::new(Problem::BadSignature, error.to_string()))
}

/// The value of a header that is there once. Of two, nobody could say which one is meant.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    Some(value.as_bytes())
}

/// The event that is accepted: the body as it came, and what the provider's preset reads of the rest.
fn complete(door: &FrontDoor, webhook: Webhook) -> Event {
    let Webhook { sender, integration, rest, head, body } = webhook;
    let (tenant, provider) = (sender.tenant.id.clone(), integration.provider);
    let header = |name: &str| single(&head.headers, name);
    let content_type = single(&head.headers, CONTENT_TYPE.as_str())
        .and_then(|value| std::str::from_utf8(value).ok())
        .filter(|text| !text.is_empty() && text.bytes().all(|b| (0x20..0x7f).contains(&b)));
    let attributes = Attributes {
        id: delivery_id(provider, header, &body).unwrap_or_else(random_id),
        source: format!("/inbound/{}/{}", provider.name(), integration.id),
        event_type: attribute_type(provider, event_type(provider, header, &body)),
        content_type: content_type.map(str::to_owned),
        ..Attributes::default()
    };
    let key = preset(provider).key.as_ref();
    Event {
        id: EventId::derive(&tenant, &attributes.source, &attributes.id),
        tenant,
        ordering_key: key.and_then(|path| bucket_key(&body, content_type, path)),
        trace: trace::from_headers(&head.headers),
        forwarded: Some(Box::new(Forwarded {
            provider,
            integration: integration.id.clone(),
            method: head.method.as_str().to_owned(),
            path: rest,
            headers: headers_to_keep(&integration, &head.headers, content_type.is_some()),
        })),
        attributes,
        body,
        accepted_at: (door.clock)(),
        setup_seq: door.directory.seq(),
        unknown: Bytes::new(),
    }
}

/// The provider's list; and the content type where it cannot be an attribute, so that it too goes on as it came.
fn headers_to_keep(
    integration: &Integration,
    headers: &HeaderMap,
    content_type_is_attribute: bool,
) -> Vec<(String, Bytes)> {
    let all = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let mut kept = kept_headers(integration.provider, all);
    if !content_type_is_attribute {
        let values = headers.get_all(CONTENT_TYPE).iter();
        kept.extend(values.map(|v| (CONTENT_TYPE.as_str().to_owned(), Bytes::copy_from_slice(v.as_bytes()))));
    }
    kept
}

/// An id for a webhook whose provider gave none: sent again, it is another event.
fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
