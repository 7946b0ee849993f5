//! What the books come to: the counts, and every way in which they do not balance.

use mailrail_types::{DeliveryId, EventId, MailboxKey};
use serde::Serialize;
use thiserror::Error;

/// The counts, and whether they balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Events that were accepted: as the producer was told, else as the log holds them.
    pub accepted: u64,
    /// Distinct deliveries that match decided.
    pub matched: u64,
    /// Deliveries that ended as delivered.
    pub delivered: u64,
    /// Distinct deliveries that the receiver took with a good signature.
    pub verified: u64,
    /// Deliveries that ended in the dead letters.
    pub dead_lettered: u64,
    /// Deliveries to cells, of forwarded webhooks, that ended as delivered.
    pub forwarded: u64,
    /// Distinct mailboxes that deliveries were put into.
    pub mailboxes: u64,
    /// Mailboxes of the widest split of one recipient and event type, as far as deliveries show it: the highest bucket
    /// tells a power of two. Only of recipients whose mailboxes are sized by rate; 0 when there is none.
    pub widest: u32,
    /// Deliveries that expired.
    pub expired: u64,
    /// Deliveries that were cancelled.
    pub cancelled: u64,
    /// Deliveries without an end.
    pub in_progress: u64,
    /// Events that match had not committed.
    pub unmatched: u64,
    /// Requests beyond the first that a receiver took: allowed after a crash.
    pub duplicates: u64,
    /// Deliveries that reached a strict endpoint after a later one of their key.
    pub order_violations: u64,
    /// Numbers that receivers miss, as `mailrail-sequence` counts for them.
    pub sequence_gaps: u64,
    /// Whether there is no fault at all.
    pub balanced: bool,
    /// What is wrong.
    #[serde(skip)]
    pub faults: Vec<Fault>,
}

/// The last line of `make demo`.
#[derive(Serialize)]
struct Line {
    accepted: u64,
    matched: u64,
    delivered: u64,
    verified: u64,
    dead_lettered: u64,
    forwarded: u64,
    mailboxes: u64,
    widest: u32,
    order_violations: u64,
    sequence_gaps: u64,
    balanced: bool,
}

impl Statement {
    /// One line of JSON, for programs.
    #[must_use]
    pub fn json_line(&self) -> String {
        let line = Line {
            accepted: self.accepted,
            matched: self.matched,
            delivered: self.delivered,
            verified: self.verified,
            dead_lettered: self.dead_lettered,
            forwarded: self.forwarded,
            mailboxes: self.mailboxes,
            widest: self.widest,
            order_violations: self.order_violations,
            sequence_gaps: self.sequence_gaps,
            balanced: self.balanced,
        };
        // Numbers and a boolean: this cannot fail.
        serde_json::to_string(&line).unwrap_or_default()
    }
}

/// One way in which the books do not balance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Fault {
    /// Lost at the door.
    #[error("event {0} was accepted and is not in the log")]
    EventLost(EventId),
    /// Nobody has matched it.
    #[error("{0} events of the log are not matched yet")]
    Unmatched(u64),
    /// Lost in match.
    #[error("delivery {0} is wanted by a subscription and was never matched")]
    DeliveryLost(DeliveryId),
    /// Made up by match.
    #[error("delivery {0} was matched and no subscription wants it")]
    DeliveryUnwanted(DeliveryId),
    /// A delivery of nothing.
    #[error("delivery {delivery} is of event {event}, which is not in the log")]
    EventUnknown {
        /// The delivery.
        delivery: DeliveryId,
        /// Its event.
        event: EventId,
    },
    /// Lost in deliver, or not done yet.
    #[error("delivery {0} has no end")]
    Unsettled(DeliveryId),
    /// Two stories about one delivery.
    #[error("delivery {delivery} has more than one end: {ends}")]
    TwoEnds {
        /// The delivery.
        delivery: DeliveryId,
        /// Its ends.
        ends: String,
    },
    /// An end of nothing.
    #[error("delivery {0} has an end and was never matched")]
    EndUnknown(DeliveryId),
    /// Said to be delivered, and nobody got it.
    #[error("delivery {0} is recorded as delivered and the receiver never took it")]
    NotReceived(DeliveryId),
    /// Received, and nobody sent it.
    #[error("the receiver took '{0}', which is no delivery that was matched")]
    ReceivedUnknown(String),
    /// The receiver could not verify it.
    #[error("{0} requests came with a bad signature")]
    BadSignatures(u64),
    /// Somebody changed it on its way.
    #[error("delivery {0} came with other bytes than were accepted")]
    BodyChanged(DeliveryId),
    /// Later than a later one.
    #[error("delivery {delivery} of mailbox {mailbox} came after a later one of its key")]
    OutOfOrder {
        /// The mailbox.
        mailbox: MailboxKey,
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The receiver forgot some.
    #[error("the receiver kept only a part of its receipts: raise its limit")]
    ReceiptsTruncated,
    /// The log does not reach back to its beginning, so that nothing can be shown.
    #[error("{records} records of {topic}/{partition} are gone")]
    Trimmed {
        /// Topic.
        topic: String,
        /// Partition.
        partition: u32,
        /// How many.
        records: u64,
    },
    /// A record that nobody can read.
    #[error("record {offset} of {topic}/{partition} cannot be read: {problem}")]
    Unreadable {
        /// Topic.
        topic: String,
        /// Partition.
        partition: u32,
        /// Offset.
        offset: u64,
        /// What is wrong with it.
        problem: String,
    },
}
