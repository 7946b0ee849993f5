//! Delivery → its mailbox: which event type, which bucket.

use std::sync::Arc;

use mailrail_limits::{Counter, Routed, Sizer};
use mailrail_telemetry::{MailboxMetrics, RoutingLabels};
use mailrail_types::{Event, Mailbox, MailboxClass, SourceMailbox};

use crate::Config;
use crate::targets::Target;

/// The mailbox of an event on its way to `target`. A strict class has a fixed width and keeps all event types together,
/// because order is promised for a key across them. A tolerant one is split by the rate of each event type; a recipient's
/// own deliveries count once each, a forwarded webhook was counted when it came in, however many cells it goes to.
pub(crate) async fn tag(
    config: &Config,
    sizer: &Sizer,
    metrics: &MailboxMetrics,
    class: &MailboxClass,
    event: &Event,
    target: &Target,
) -> Mailbox {
    let event_type: Option<Arc<str>> = (class.tolerates_reordering
        && mailrail_surfaces::is_known_type(event))
    .then(|| event.attributes.event_type.as_str().into());
    let mut mailbox = Mailbox {
        pipeline: config.pipeline.clone(),
        region: config.region.clone(),
        tenant: event.tenant.clone(),
        endpoint: target.endpoint.clone(),
        event_type,
        bucket: 0,
    };
    let (counter, surface) = match event.forwarded.as_deref() {
        Some(forwarded) => {
            let source = SourceMailbox {
                pipeline: mailbox.pipeline.clone(),
                region: mailbox.region.clone(),
                tenant: mailbox.tenant.clone(),
                integration: Some(forwarded.integration.clone()),
                event_type: mailbox.event_type.clone(),
                bucket: 0,
            };
            (Counter::of_source(&source), "forward")
        }
        None => (Counter::of_recipient(&mailbox), "product_event"),
    };
    let key = event.ordering_key.as_deref();
    if class.tolerates_reordering && key.is_some() && event.forwarded.is_none() {
        sizer.count(&counter);
    }
    let routed = sizer.route(class, &counter, key).await;
    metrics.routing.get_or_create(&labels(surface, routed)).inc();
    mailbox.bucket = routed.bucket;
    mailbox
}

fn labels(surface: &'static str, routed: Routed) -> RoutingLabels {
    RoutingLabels {
        surface,
        bucketed: if routed.width.is_some_and(|w| w > 1) { "true" } else { "false" },
        reason: routed.reason.code(),
        buckets: routed.width.map(|w| w.to_string()).unwrap_or_default(),
    }
}
