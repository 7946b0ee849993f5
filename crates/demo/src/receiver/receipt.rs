//! A receipt: one request as the receiver saw it; and the report over all of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One request that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Place in the order of arrival, from 1, over all endpoints.
    pub position: u64,
    /// When it had arrived whole, in milliseconds since the Unix epoch.
    pub arrived_at_ms: u64,
    /// Which endpoint it was for.
    pub endpoint: String,
    /// `webhook-id`: the delivery. Empty when missing.
    pub webhook_id: String,
    /// `mailrail-event-id`: the event, when the header is there.
    pub event_id: Option<String>,
    /// `mailrail-redrive`, when the header is there and a number.
    pub redrive: Option<u32>,
    /// `mailrail-attempt`, when the header is there and a number.
    pub attempt: Option<u32>,
    /// `mailrail-sequence` as it came, when the header is there: who sent this, and which record of the log it is.
    #[serde(default)]
    pub sequence: Option<String>,
    /// `content-type`, when the header is there.
    pub content_type: Option<String>,
    /// Length of the body.
    pub body_bytes: u64,
    /// SHA-256 of the body, in hex.
    pub body_sha256: String,
    /// Whether the signature was good.
    pub verified: bool,
    /// The status it got; `None` when the connection was reset or left hanging.
    pub status: Option<u16>,
    /// Where it stands in the producer's order, when the receiver was told how to read that.
    pub order: Option<Order>,
    /// The body, when the receiver keeps bodies. Never in the journal.
    #[serde(skip)]
    pub body: Option<Bytes>,
}

impl Receipt {
    /// Whether the receiver took it: signature good and answered 2xx.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.verified && self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// One that is verified and says nothing else.
    #[cfg(test)]
    pub(crate) fn bare(endpoint: &str, webhook_id: &str, status: Option<u16>) -> Self {
        Receipt {
            position: 0,
            arrived_at_ms: 0,
            endpoint: endpoint.to_owned(),
            webhook_id: webhook_id.to_owned(),
            event_id: None,
            redrive: None,
            attempt: None,
            sequence: None,
            content_type: None,
            body_bytes: 0,
            body_sha256: String::new(),
            verified: true,
            status,
            order: None,
            body: None,
        }
    }
}

/// A place in the order that the producer gave to the events of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What the events are about; there is no order between groups.
    pub group: String,
    /// Grows within the group.
    pub sequence: u64,
}

/// Counts over all receipts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// Sums over the endpoints.
    #[serde(flatten)]
    pub total: Counts,
    /// Requests for endpoints that the receiver does not have.
    pub unknown_endpoint: u64,
    /// Whether a limit was reached: then receipts are missing, and deliveries beyond it count as new each time.
    pub truncated: bool,
    /// By endpoint.
    pub endpoints: BTreeMap<String, Counts>,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Requests.
    pub received: u64,
    /// Requests whose signature was good.
    pub verified: u64,
    /// Requests whose signature was not.
    pub bad_signature: u64,
    /// Verified requests that were answered 2xx.
    pub accepted: u64,
    /// Distinct deliveries among the verified requests.
    pub deliveries: u64,
    /// Distinct deliveries that were answered 2xx.
    pub delivered: u64,
    /// Verified requests of a delivery that had been answered 2xx already.
    pub duplicates: u64,
    /// Distinct deliveries that came after a later one of their group: in first arrival or in first acceptance.
    pub order_violations: u64,
    /// Numbers of `mailrail-sequence` that have not come, though a later one of their key and epoch has: deliveries that
    /// were given up or withheld, or that came before this receiver ran.
    pub sequence_gaps: u64,
    /// Distinct deliveries that came after a later one of their key, as the offsets of `mailrail-sequence` tell.
    pub sequence_reordered: u64,
    /// Verified requests of a record that had come before: attempts and duplicates.
    pub sequence_repeated: u64,
    /// Verified requests without a `mailrail-sequence` that can be read: the three counts above say nothing of them.
    pub sequence_unread: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.received += other.received;
        self.verified += other.verified;
        self.bad_signature += other.bad_signature;
        self.accepted += other.accepted;
        self.deliveries += other.deliveries;
        self.delivered += other.delivered;
        self.duplicates += other.duplicates;
        self.order_violations += other.order_violations;
        self.sequence_gaps += other.sequence_gaps;
        self.sequence_reordered += other.sequence_reordered;
        self.sequence_repeated += other.sequence_repeated;
        self.sequence_unread += other.sequence_unread;
    }
}
