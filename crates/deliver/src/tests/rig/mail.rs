//! Deliveries, and putting them into the log.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::{Log, NewRecord};
use mailrail_types::*;

use super::{Rig, name, now};

impl Rig {
    /// A delivery of another mailbox of the same partition, to the endpoint that is always up.
    pub(in crate::tests) fn other(&self, n: u64) -> Delivery {
        let mut delivery = self.delivery_with_body(&format!("other-{n}"), b"{}");
        delivery.endpoint = name("other");
        delivery.mailbox.endpoint = name("other");
        delivery
    }

    pub(in crate::tests) fn delivery_with_body(&self, id: &str, body: &[u8]) -> Delivery {
        let tenant: TenantId = name("acme");
        let event = Event {
            id: EventId::derive(&tenant, "/s", id),
            tenant: tenant.clone(),
            attributes: Attributes {
                id: id.into(),
                source: "/s".into(),
                event_type: "t".into(),
                ..Attributes::default()
            },
            ordering_key: None,
            body: Bytes::copy_from_slice(body),
            trace: None,
            accepted_at: now(),
            setup_seq: 0,
            forwarded: None,
            unknown: Bytes::new(),
        };
        let subscription: SubscriptionId = name("sub");
        Delivery {
            id: DeliveryId::derive(&event.id, &tenant, &subscription),
            event,
            app: name("app"),
            subscription,
            endpoint: name("main"),
            mailbox: Mailbox {
                pipeline: "default".into(),
                region: "".into(),
                tenant,
                endpoint: name("main"),
                event_type: None,
                bucket: 0,
            },
            setup_seq: 0,
            matched_at: now(),
            deadline: now().plus(Duration::from_secs(86_400)),
            history: History::default(),
            unknown: Bytes::new(),
        }
    }

    pub(in crate::tests) fn numbered(&self, n: u64) -> Delivery {
        self.delivery_with_body(&n.to_string(), format!(r#"{{"key":"k","seq":{n}}}"#).as_bytes())
    }

    pub(in crate::tests) async fn append_numbered(&self, range: Range<u64>) {
        for n in range {
            self.append(self.numbered(n)).await;
        }
    }

    pub(in crate::tests) async fn append_to_other_partition(&self, range: Range<u64>) {
        for n in range {
            self.append_at(1, mailrail_wire::encode_delivery(&self.other(n))).await;
        }
    }

    pub(in crate::tests) async fn append(&self, delivery: Delivery) {
        self.append_at(0, mailrail_wire::encode_delivery(&delivery)).await;
    }

    pub(in crate::tests) async fn append_raw(&self, value: &'static [u8]) {
        self.append_at(0, Bytes::from_static(value)).await;
    }

    pub(in crate::tests) async fn append_at(&self, partition: u32, value: Bytes) {
        let record = NewRecord { key: Bytes::new(), value, headers: Vec::new() };
        self.log.append("deliveries", partition, vec![record]).await.expect("appended");
    }
}
