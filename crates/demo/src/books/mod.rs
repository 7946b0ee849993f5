//! The books: what the log says became of every event, compared with what the producer and the receiver saw.

mod ledger;
mod line;
mod reconcile;
mod settle;
mod statement;
#[cfg(test)]
mod tests;

use mailrail_log::TopicSpec;
use mailrail_types::{EndpointId, EventId, TenantId};

pub use ledger::{Books, Unsettled};
pub use reconcile::Claims;
pub use settle::settle;
pub use statement::{Fault, Statement};

/// The topics of a pipeline, and who reads the first.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Accepted events.
    pub events: TopicSpec,
    /// What match decided.
    pub deliveries: TopicSpec,
    /// What deliver did.
    pub attempts: TopicSpec,
    /// What deliver gave up.
    pub dead_letters: TopicSpec,
    /// The consumer group of match.
    pub match_group: String,
}

/// An event that ingest said it accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its id.
    pub event: EventId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its place among the events of its tenant: each was posted after the one before was accepted. Webhooks to forward
    /// are posted many at once, and theirs only counts them.
    pub sequence: u64,
    /// What the producer takes for its ordering key. Events without one are in order among themselves.
    pub ordering_key: Option<String>,
}

/// Whose mailboxes: an endpoint of a tenant.
pub type Recipient = (TenantId, EndpointId);
