//! The order of every key at its recipient.

use std::collections::HashMap;

use mailrail_types::{DeliveryId, EndpointId, EventId, TenantId};

use super::Accepted;
use super::ledger::Owed;

/// What has an order: a producer's key at one endpoint, whichever mailboxes it went through. If one key ever went through
/// two, that shows here.
type Queue<'a> = (&'a TenantId, &'a EndpointId, Option<&'a str>);

/// The order of every queue, in two readings: first requests must come in the producer's order, and so must first
/// acceptances. A request that fails and is let past by its successor breaks only the second.
pub(super) struct Line<'a> {
    accepted: HashMap<EventId, &'a Accepted>,
    arrivals: HashMap<Queue<'a>, u64>,
    acceptances: HashMap<Queue<'a>, u64>,
    seen: HashMap<DeliveryId, Seen>,
}

#[derive(Default)]
struct Seen {
    accepted: bool,
    late: bool,
}

impl<'a> Line<'a> {
    pub(super) fn new(accepted: &'a [Accepted]) -> Self {
        Self {
            accepted: accepted.iter().map(|a| (a.event, a)).collect(),
            arrivals: HashMap::new(),
            acceptances: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    /// Whether this request shows, for the first time, that the delivery is late.
    pub(super) fn is_late(&mut self, delivery: DeliveryId, owed: &'a Owed, accepted: bool) -> bool {
        let Some(event) = self.accepted.get(&owed.event) else { return false };
        let queue = (&owed.mailbox.tenant, &owed.mailbox.endpoint, event.ordering_key.as_deref());
        let first = !self.seen.contains_key(&delivery);
        let seen = self.seen.entry(delivery).or_default();
        let mut late = false;
        if first {
            late |= passes(&mut self.arrivals, queue, event.sequence);
        }
        if accepted && !seen.accepted {
            seen.accepted = true;
            late |= passes(&mut self.acceptances, queue, event.sequence);
        }
        let news = late && !seen.late;
        seen.late |= late;
        news
    }
}

/// Whether a later one was there before; equal ones are one event for two subscriptions.
fn passes<'a>(heads: &mut HashMap<Queue<'a>, u64>, queue: Queue<'a>, sequence: u64) -> bool {
    let head = heads.entry(queue).or_insert(sequence);
    let late = sequence < *head;
    *head = sequence.max(*head);
    late
}
