//! The path of one request, as a list of steps. A step that refuses ends it, and nothing of the request is accepted.

use std::time::SystemTime;

use axum::extract::Request;
use mailrail_store::TenantView;
use mailrail_types::{Event, EventId, Timestamp, TraceContext};

use crate::append::append;
use crate::authenticate::authenticate;
use crate::in_flight::Payer;
use crate::ordering_key::ordering_key;
use crate::parse::{CloudEvent, Parsed, parse};
use crate::problem::Refusal;
use crate::read_body::{read_body, refuse_encoded};
use crate::reply::Reply;
use crate::service::FrontDoor;
use crate::spans::Spans;
use crate::tag::tag;
use crate::trace;

/// From a request to what became of its events.
pub(crate) async fn accept(door: &FrontDoor, request: Request) -> Result<Reply, Refusal> {
    let begun = door.traces.begin();
    let (head, body) = request.into_parts();
    let sender = authenticate(&door.directory, &head.headers)?;
    refuse_encoded(&head.headers)?;
    let payer = Payer::Tenant(sender.tenant.id.clone());
    let mut reservation = door.in_flight.reserve(payer, &body, door.config.body_limit_bytes)?;
    let body = read_body(body, &door.config, &mut reservation).await?;
    let parsed = parse(&head.headers, &body, door.config.batch_events_max)?;
    let trace = trace::from_headers(&head.headers);
    let moment = Moment { now: (door.clock)(), setup_seq: door.directory.seq() };
    let complete = |cloud_event| complete(cloud_event, &sender, trace.as_ref(), moment);
    match parsed {
        Parsed::Single(cloud_event) => {
            let event = complete(cloud_event);
            let id = event.id;
            store(door, &sender, vec![event], begun).await?;
            Ok(Reply::Single(id))
        }
        Parsed::Batch(items) => {
            let (events, outcomes) = sort_out(items, complete);
            store(door, &sender, events, begun).await?;
            Ok(Reply::Batch(outcomes))
        }
    }
}

/// When a request was taken in: by the clock, and by the set-up that was known. The latter is read after the sender was
/// looked up, so it is never older than what the sender was found in.
#[derive(Clone, Copy)]
struct Moment {
    now: Timestamp,
    setup_seq: u64,
}

/// The event that is accepted: what the producer gave, and what only the rail knows.
fn complete(
    cloud_event: CloudEvent,
    sender: &TenantView,
    trace: Option<&TraceContext>,
    moment: Moment,
) -> Event {
    let CloudEvent { attributes, body } = cloud_event;
    let tenant = sender.tenant.id.clone();
    let event_type = sender.event_types.get(&attributes.event_type);
    let path = event_type.and_then(|known| known.ordering_key.as_ref());
    Event {
        id: EventId::derive(&tenant, &attributes.source, &attributes.id),
        tenant,
        ordering_key: ordering_key(&attributes, &body, path),
        trace: trace.cloned().or_else(|| trace::from_attributes(&attributes)),
        attributes,
        body,
        forwarded: None,
        accepted_at: moment.now,
        setup_seq: moment.setup_seq,
        unknown: bytes::Bytes::new(),
    }
}

/// The events of a batch to store, and the answers that are true once they are stored.
fn sort_out(
    items: Vec<Result<CloudEvent, Refusal>>,
    complete: impl Fn(CloudEvent) -> Event,
) -> (Vec<Event>, Vec<Result<EventId, Refusal>>) {
    let mut events = Vec::with_capacity(items.len());
    let outcomes = items
        .into_iter()
        .map(|item| {
            let event = complete(item?);
            let id = event.id;
            events.push(event);
            Ok(id)
        })
        .collect();
    (events, outcomes)
}

async fn store(
    door: &FrontDoor,
    sender: &TenantView,
    mut events: Vec<Event>,
    begun: Option<SystemTime>,
) -> Result<(), Refusal> {
    let spans = Spans::begin(&door.traces, &mut events, begun);
    let mut tagged = Vec::with_capacity(events.len());
    for event in events {
        tagged.push(tag(door, sender, &sender.tenant.source_class, event).await);
    }
    let stored = append(door, &tagged).await;
    spans.end(&stored);
    stored
}
