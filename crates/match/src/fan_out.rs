//! Match → delivery.

use mailrail_types::{Delivery, DeliveryId, Event, History, Mailbox, Timestamp};

use crate::Config;
use crate::targets::Target;

/// The delivery that `target` is owed. Its id follows from event and subscription; its deadline from the acceptance
/// of the event, so that matching later does not lengthen it.
pub(crate) fn fan_out(
    event: &Event,
    target: Target,
    mailbox: Mailbox,
    setup_seq: u64,
    now: Timestamp,
    config: &Config,
) -> Delivery {
    let lifetime = match event.forwarded {
        Some(_) => mailrail_surfaces::FORWARD_LIFETIME.min(config.delivery_lifetime),
        None => config.delivery_lifetime,
    };
    Delivery {
        id: DeliveryId::derive(&event.id, &event.tenant, &target.subscription),
        event: event.clone(),
        app: target.app,
        subscription: target.subscription,
        endpoint: target.endpoint,
        mailbox,
        setup_seq,
        matched_at: now,
        deadline: event.accepted_at.plus(lifetime),
        history: History::default(),
        unknown: bytes::Bytes::new(),
    }
}
