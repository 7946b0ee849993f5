//! Match → delivery.

use mailrail_types::{Delivery, DeliveryId, Event, History, Mailbox, Subscription, Timestamp};

use crate::Config;

/// The delivery that `subscription` is owed. Its id follows from event and subscription; its deadline from the acceptance
/// of the event, so that matching later does not lengthen it. One mailbox for each recipient, in order.
pub(crate) fn fan_out(
    event: &Event,
    subscription: &Subscription,
    setup_seq: u64,
    now: Timestamp,
    config: &Config,
) -> Delivery {
    Delivery {
        id: DeliveryId::derive(&event.id, &event.tenant, &subscription.id),
        event: event.clone(),
        app: subscription.app.clone(),
        subscription: subscription.id.clone(),
        endpoint: subscription.endpoint.clone(),
        mailbox: Mailbox {
            pipeline: config.pipeline.clone(),
            tenant: event.tenant.clone(),
            endpoint: subscription.endpoint.clone(),
            bucket: 0,
        },
        setup_seq,
        matched_at: now,
        deadline: event.accepted_at.plus(config.delivery_lifetime),
        history: History::default(),
        unknown: bytes::Bytes::new(),
    }
}
