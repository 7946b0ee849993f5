//! Deliveries as match would write them: many mailboxes of a few endpoints, appended in order and in parts.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use bytes::Bytes;
use mailrail_log::{KafkaLog, Log, NewRecord};
use mailrail_types::{
    AppId, Attributes, Delivery, DeliveryId, EndpointId, Event, EventId, History, Mailbox, PartitionCount,
    SourceMailbox, SubscriptionId, TenantId, Timestamp,
};
use tokio::task::JoinSet;

use crate::events::{Bodies, EVENT_TYPE, SOURCE, event_id};
use crate::recipe::PIPELINE;

/// Whose mail it is.
pub(crate) const TENANT: &str = "bench";
const APP: &str = "app";
/// Records of one append.
const PART: usize = 256;
/// How long the deliveries may live.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Makes deliveries.
pub(crate) struct Mail {
    tenant: TenantId,
    partitions: PartitionCount,
    bodies: Bodies,
}

/// Which mailbox of which endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct To {
    pub(crate) endpoint: u32,
    pub(crate) bucket: u32,
}

/// Id of an endpoint.
pub(crate) fn endpoint(number: u32) -> String {
    format!("e{number:04}")
}

/// Event type that the subscription of an endpoint wants.
pub(crate) fn event_type(endpoint: u32) -> String {
    format!("{EVENT_TYPE}.e{endpoint:04}")
}

/// The set-up: each endpoint with a class, the path of its URL at `base`, and a subscription to a type of its own.
pub(crate) fn setup_file(class: &str, token: &str, endpoints: &[(u32, String)]) -> String {
    let list = |line: &dyn Fn(u32, &str) -> String| -> String {
        endpoints.iter().map(|(number, url)| line(*number, url)).collect()
    };
    let types = list(&|n, _| format!("  - {{name: {}, ordering_key: order.id}}\n", event_type(n)));
    let to = list(&|n, url| {
        format!("    - {{id: {}, url: \"{url}\", secret: {SECRET}, class: fixed}}\n", endpoint(n))
    });
    let wanted = list(&|n, _| {
        format!("    - {{id: {}, endpoint: {0}, event_types: [{}]}}\n", endpoint(n), event_type(n))
    });
    format!(
        "version: 1\nclasses:\n- {class}\ntenants:\n- id: {TENANT}\n  source_class: fixed\n  keys: [{{id: producer, token: \
         {token}}}]\n  event_types:\n{types}  apps:\n  - id: {APP}\n    endpoints:\n{to}    subscriptions:\n{wanted}"
    )
}

/// What the endpoints' requests are signed with: `whsec_` and 32 bytes.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";

impl Mail {
    pub(crate) fn new(partitions: NonZeroU32, bodies: Bodies) -> Result<Self> {
        Ok(Self { tenant: TenantId::new(TENANT)?, partitions: PartitionCount(partitions), bodies })
    }

    /// The mailbox of a delivery.
    pub(crate) fn mailbox(&self, to: To) -> Result<Mailbox> {
        Ok(Mailbox {
            pipeline: PIPELINE.into(),
            region: "".into(),
            tenant: self.tenant.clone(),
            endpoint: EndpointId::new(&endpoint(to.endpoint))?,
            event_type: Some(event_type(to.endpoint).into()),
            bucket: to.bucket,
        })
    }

    /// Where a mailbox lives.
    pub(crate) fn partition(&self, to: To) -> Result<u32> {
        Ok(self.mailbox(to)?.key().partition(self.partitions))
    }

    /// Where the events of an endpoint's type live that fall into this bucket.
    pub(crate) fn source_partition(&self, to: To) -> u32 {
        self.source(to).key().partition(self.partitions)
    }

    fn source(&self, to: To) -> SourceMailbox {
        SourceMailbox {
            pipeline: PIPELINE.into(),
            region: "".into(),
            tenant: self.tenant.clone(),
            integration: None,
            event_type: Some(event_type(to.endpoint).into()),
            bucket: to.bucket,
        }
    }

    /// Event `number` as ingest would have accepted it: its partition and its record.
    pub(crate) fn accepted(&self, number: u64, to: To) -> Result<(u32, NewRecord)> {
        let id = event_id(number);
        let event = self.event(EventId::derive(&self.tenant, SOURCE, &id), id, to, now());
        let key = self.source(to).key();
        let record = NewRecord {
            key: Bytes::copy_from_slice(key.as_str().as_bytes()),
            value: mailrail_wire::encode_event(&event),
            headers: Vec::new(),
        };
        Ok((key.partition(self.partitions), record))
    }

    /// The delivery of event `number`: its partition and its record.
    pub(crate) fn delivery(&self, number: u64, to: To) -> Result<(u32, NewRecord)> {
        let id = event_id(number);
        let event = EventId::derive(&self.tenant, SOURCE, &id);
        let subscription = SubscriptionId::new(&endpoint(to.endpoint))?;
        let (mailbox, now) = (self.mailbox(to)?, now());
        let key = mailbox.key();
        let delivery = Delivery {
            id: DeliveryId::derive(&event, &self.tenant, &subscription),
            event: self.event(event, id, to, now),
            app: AppId::new(APP)?,
            subscription,
            endpoint: mailbox.endpoint.clone(),
            mailbox,
            setup_seq: 1,
            matched_at: now,
            deadline: Timestamp(now.0 + i64::try_from(LIFETIME.as_millis())?),
            history: History::default(),
            unknown: Bytes::new(),
        };
        let record = NewRecord {
            key: Bytes::copy_from_slice(key.as_str().as_bytes()),
            value: mailrail_wire::encode_delivery(&delivery),
            headers: Vec::new(),
        };
        Ok((key.partition(self.partitions), record))
    }

    fn event(&self, event: EventId, id: String, to: To, now: Timestamp) -> Event {
        let body = self.bodies.of(crate::events::number_of(&id).unwrap_or(0)).clone();
        Event {
            id: event,
            tenant: self.tenant.clone(),
            attributes: Attributes {
                id,
                source: SOURCE.to_owned(),
                event_type: event_type(to.endpoint),
                content_type: Some("application/json".to_owned()),
                ..Attributes::default()
            },
            // One key for each mailbox.
            ordering_key: Some(format!("{}", 1_000 + to.bucket)),
            body,
            trace: None,
            forwarded: None,
            accepted_at: now,
            setup_seq: 1,
            unknown: Bytes::new(),
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Appends the records, those of a partition in order.
pub(crate) async fn append(
    log: &Arc<KafkaLog>,
    topic: &str,
    records: impl Iterator<Item = Result<(u32, NewRecord)>>,
) -> Result<()> {
    let mut of: BTreeMap<u32, Vec<NewRecord>> = BTreeMap::new();
    for record in records {
        let (partition, record) = record?;
        of.entry(partition).or_default().push(record);
    }
    let mut tasks = JoinSet::new();
    for (partition, records) in of {
        let (log, topic) = (log.clone(), topic.to_owned());
        tasks.spawn(async move {
            for part in records.chunks(PART) {
                log.append(&topic, partition, part.to_vec()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("an append's task")??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_one_that_deliver_can_read() {
        let partitions = NonZeroU32::new(64).expect("not 0");
        let mail = Mail::new(partitions, Bodies::new(1)).expect("valid");
        let to = To { endpoint: 3, bucket: 5 };
        let (partition, record) = mail.delivery(77, to).expect("a delivery");
        let delivery = mailrail_wire::decode_delivery(&record.value).expect("readable");
        assert_eq!(delivery.event.body.len(), crate::events::BODY_BYTES);
        assert_eq!(delivery.event.attributes.id, event_id(77));
        assert_eq!(delivery.mailbox, mail.mailbox(to).expect("valid"));
        assert_eq!(partition, mail.partition(to).expect("valid"));
        assert!(delivery.deadline > delivery.matched_at);
    }
}
