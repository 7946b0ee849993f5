//! Event → its source mailbox: which event type, which bucket.

use std::sync::Arc;

use mailrail_limits::{Counter, Routed};
use mailrail_store::TenantView;
use mailrail_telemetry::RoutingLabels;
use mailrail_types::{ClassId, Event, MailboxKey, SourceMailbox};

use crate::service::FrontDoor;

/// An event that is about to be appended.
pub(crate) struct Tagged {
    pub(crate) event: Event,
    /// Key of its record, and what chooses its partition.
    pub(crate) mailbox: MailboxKey,
    /// What it counts for once it is accepted; `None`: it cannot use a split, or its class never changes width.
    pub(crate) counter: Option<Counter>,
}

/// The source mailbox of an event. A strict class has a fixed width and keeps all event types together: a key that moved
/// would reorder strict recipients further on. A tolerant one is split by the rate of each event type that the tenant
/// knows: a type that a sender made up never makes a mailbox.
pub(crate) async fn tag(door: &FrontDoor, sender: &TenantView, class: &ClassId, event: Event) -> Tagged {
    let class = door.directory.class(class);
    let event_type: Option<Arc<str>> = (class.tolerates_reordering && is_known_type(sender, &event))
        .then(|| event.attributes.event_type.as_str().into());
    let mut mailbox = SourceMailbox {
        pipeline: door.config.pipeline.as_str().into(),
        region: door.config.region.as_str().into(),
        tenant: event.tenant.clone(),
        integration: event.forwarded.as_ref().map(|f| f.integration.clone()),
        event_type,
        bucket: 0,
    };
    let counter = Counter::of_source(&mailbox);
    let routed = door.sizer.route(&class, &counter, event.ordering_key.as_deref()).await;
    door.mailboxes.routing.get_or_create(&labels(routed)).inc();
    mailbox.bucket = routed.bucket;
    let counts = class.tolerates_reordering && event.ordering_key.is_some();
    Tagged { event, mailbox: mailbox.key(), counter: counts.then_some(counter) }
}

fn is_known_type(sender: &TenantView, event: &Event) -> bool {
    let name = &event.attributes.event_type;
    match &event.forwarded {
        Some(_) => mailrail_surfaces::is_known_type(event),
        None => sender.event_types.contains_key(name) || sender.by_event_type.contains_key(name),
    }
}

fn labels(routed: Routed) -> RoutingLabels {
    RoutingLabels {
        surface: "source",
        bucketed: if routed.width.is_some_and(|w| w > 1) { "true" } else { "false" },
        reason: routed.reason.code(),
        buckets: routed.width.map(|w| w.to_string()).unwrap_or_default(),
    }
}
