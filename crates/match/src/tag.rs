//! Delivery → its mailbox: which event type, which bucket.

use std::sync::Arc;

use mailrail_limits::{Counter, Sizer};
use mailrail_surfaces::mailbox_type;
use mailrail_telemetry::MailboxMetrics;
use mailrail_types::{Event, Mailbox, MailboxClass, SourceMailbox};

use crate::Config;
use crate::targets::Target;

/// Where a delivery goes.
pub(crate) struct Tagged {
    pub(crate) mailbox: Mailbox,
    /// What it counts for once the log has it; `None`: it was counted when it came in, it cannot use a split, or its class
    /// never changes width.
    pub(crate) counter: Option<Counter>,
}

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
) -> Tagged {
    // A subscription names the type, or it would not have matched: it is part of the set-up.
    let event_type = mailbox_type(class, event, |_| true).map(Arc::from);
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
    let routed = sizer.route(class, &counter, key).await;
    metrics.routing.get_or_create(&routed.labels(surface)).inc();
    mailbox.bucket = routed.bucket;
    let counts = class.tolerates_reordering && key.is_some() && event.forwarded.is_none();
    Tagged { mailbox, counter: counts.then_some(counter) }
}
