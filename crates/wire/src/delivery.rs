//! Deliveries.

use bytes::Bytes;
use mailrail_types::{
    AppId, Delivery, DeliveryId, EndpointId, History, Mailbox, SubscriptionId, TenantId, Timestamp,
};
use prost::Message;

use crate::error::{id16, status};
use crate::proto::delivery as pb;
use crate::unknown::{MAILRAIL_DELIVERY_V1_DELIVERY, encode_with, unknown_fields};
use crate::{Error, decode_event, encode_event};

/// The record of a delivery.
#[must_use]
pub fn encode_delivery(delivery: &Delivery) -> Bytes {
    let history = &delivery.history;
    let message = pb::Delivery {
        id: delivery.id.as_bytes().to_vec(),
        event: encode_event(&delivery.event),
        app: delivery.app.as_str().to_owned(),
        subscription: delivery.subscription.as_str().to_owned(),
        endpoint: delivery.endpoint.as_str().to_owned(),
        mailbox: Some(pb::Mailbox {
            pipeline: delivery.mailbox.pipeline.as_ref().to_owned(),
            tenant: delivery.mailbox.tenant.as_str().to_owned(),
            endpoint: delivery.mailbox.endpoint.as_str().to_owned(),
            bucket: delivery.mailbox.bucket,
            region: delivery.mailbox.region.as_ref().to_owned(),
            event_type: delivery.mailbox.event_type.as_deref().map(str::to_owned),
        }),
        setup_seq: delivery.setup_seq,
        matched_at_ms: delivery.matched_at.millis(),
        deadline_ms: delivery.deadline.millis(),
        attempts: history.attempts,
        first_attempt_at_ms: history.first_attempt_at.map(Timestamp::millis),
        last_attempt_at_ms: history.last_attempt_at.map(Timestamp::millis),
        last_status: history.last_status.map(u32::from),
        redrives: history.redrives,
    };
    encode_with(&message, &delivery.unknown)
}

/// Reads the record of a delivery. The event's body shares memory with the record.
///
/// # Errors
/// [`Error`] when it is not such a record.
pub fn decode_delivery(record: &Bytes) -> Result<Delivery, Error> {
    let unknown = unknown_fields(record, MAILRAIL_DELIVERY_V1_DELIVERY)?;
    let m = pb::Delivery::decode(record.clone())?;
    let mailbox = m.mailbox.ok_or_else(|| Error::field("mailbox", "missing"))?;
    Ok(Delivery {
        id: DeliveryId::from_bytes(id16("id", &m.id)?),
        event: decode_event(&m.event)?,
        app: AppId::new(&m.app).map_err(|e| Error::field("app", e))?,
        subscription: SubscriptionId::new(&m.subscription).map_err(|e| Error::field("subscription", e))?,
        endpoint: EndpointId::new(&m.endpoint).map_err(|e| Error::field("endpoint", e))?,
        mailbox: Mailbox {
            pipeline: mailbox.pipeline.into(),
            tenant: TenantId::new(&mailbox.tenant).map_err(|e| Error::field("mailbox.tenant", e))?,
            endpoint: EndpointId::new(&mailbox.endpoint).map_err(|e| Error::field("mailbox.endpoint", e))?,
            bucket: mailbox.bucket,
            region: mailbox.region.into(),
            event_type: mailbox.event_type.map(Into::into),
        },
        setup_seq: m.setup_seq,
        matched_at: Timestamp(m.matched_at_ms),
        deadline: Timestamp(m.deadline_ms),
        history: History {
            attempts: m.attempts,
            first_attempt_at: m.first_attempt_at_ms.map(Timestamp),
            last_attempt_at: m.last_attempt_at_ms.map(Timestamp),
            last_status: status("last_status", m.last_status)?,
            redrives: m.redrives,
        },
        unknown,
    })
}
