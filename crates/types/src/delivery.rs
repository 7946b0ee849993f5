//! A delivery: one event owed to one subscription; and what becomes of it when it is given up.

use bytes::Bytes;

use crate::{AppId, Attempt, DeadReason, DeliveryId, EndpointId, Event, Mailbox, SubscriptionId, Timestamp};

/// One event owed to one subscription. Its id is stable for ever; it ends as delivered, dead-lettered, expired or
/// cancelled, each with a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Follows from event and subscription; see [`DeliveryId::derive`].
    pub id: DeliveryId,
    /// What is owed.
    pub event: Event,
    /// The consumer that subscribed.
    pub app: AppId,
    /// The subscription that wanted it.
    pub subscription: SubscriptionId,
    /// Where it goes. URL and secrets are looked up at each attempt, so a changed URL holds for the backlog too.
    pub endpoint: EndpointId,
    /// The queue it stands in.
    pub mailbox: Mailbox,
    /// Change-feed position of the set-up that match decided with: deliver must have seen it before it may conclude
    /// that an endpoint does not exist.
    pub setup_seq: u64,
    /// When match decided.
    pub matched_at: Timestamp,
    /// When it expires. Fixed at first acceptance.
    pub deadline: Timestamp,
    /// What was tried so far.
    pub history: History,
    /// Record fields written by a newer version, kept for the next reader. Opaque.
    pub unknown: Bytes,
}

/// Summary of the attempts so far; full attempts are in the attempts topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// Attempts made since it was last put into its mailbox.
    pub attempts: u32,
    /// Start of the first of them.
    pub first_attempt_at: Option<Timestamp>,
    /// Start of the last of them.
    pub last_attempt_at: Option<Timestamp>,
    /// HTTP status of the last, when there was an answer.
    pub last_status: Option<u16>,
    /// How often it was redriven from the dead letters.
    pub redrives: u32,
}

/// A delivery that will not be tried again by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// The delivery, with its original payload.
    pub delivery: Delivery,
    /// Why it was given up.
    pub reason: DeadReason,
    /// When it was given up.
    pub died_at: Timestamp,
    /// Its last attempts, newest last, at most [`DeadLetter::ATTEMPTS_MAX`].
    pub attempts: Vec<Attempt>,
    /// Record fields written by a newer version, kept for the next reader. Opaque.
    pub unknown: Bytes,
}

impl DeadLetter {
    /// How many attempts a dead letter keeps.
    pub const ATTEMPTS_MAX: usize = 16;
}
