//! Holds the log against what producer and receiver saw. Every difference is a fault.

use std::collections::{HashMap, HashSet};

use mailrail_types::{DeliveryId, EventId, MailboxKey};

use super::Accepted;
use super::ledger::{Books, End};
use super::statement::{Fault, Statement};
use crate::receiver::Receipt;

/// What others saw. What is left out is not compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Claims<'a> {
    /// What the producer was told. Gives the order that is checked.
    pub accepted: Option<&'a [Accepted]>,
    /// The deliveries that there must be, and no other.
    pub expected: Option<&'a HashSet<DeliveryId>>,
    /// What the receiver saw, in order of arrival, of all endpoints.
    pub receipts: Option<&'a [Receipt]>,
    /// Whether the receiver kept only a part.
    pub receipts_truncated: bool,
}

/// What the receiver's side comes to.
#[derive(Default)]
struct Received {
    taken: HashSet<DeliveryId>,
    duplicates: u64,
    order_violations: u64,
}

impl Books {
    /// The statement over everything that was read.
    #[must_use]
    pub fn reconcile(&self, claims: &Claims<'_>) -> Statement {
        let mut faults = self.damage.clone();
        self.check_events(claims, &mut faults);
        self.check_deliveries(claims, &mut faults);
        let received = claims.receipts.map(|receipts| self.check_receipts(receipts, claims, &mut faults));
        self.check_ends(received.as_ref(), &mut faults);

        let count = |end| {
            let only = |id: &&DeliveryId| self.ends.get(id).is_some_and(|ends| ends.first() == Some(&end));
            self.deliveries.keys().filter(only).count() as u64
        };
        let received = received.unwrap_or_default();
        faults.sort();
        Statement {
            accepted: claims.accepted.map_or(self.events.len(), <[_]>::len) as u64,
            matched: self.deliveries.len() as u64,
            delivered: count(End::Delivered),
            verified: received.taken.len() as u64,
            dead_lettered: count(End::DeadLettered),
            expired: count(End::Expired),
            cancelled: count(End::Cancelled),
            in_progress: self.unsettled().in_progress,
            unmatched: self.unmatched,
            duplicates: received.duplicates,
            order_violations: received.order_violations,
            balanced: faults.is_empty(),
            faults,
        }
    }

    fn check_events(&self, claims: &Claims<'_>, faults: &mut Vec<Fault>) {
        if self.unmatched > 0 {
            faults.push(Fault::Unmatched(self.unmatched));
        }
        let accepted = claims.accepted.unwrap_or_default().iter();
        faults
            .extend(accepted.filter(|a| !self.events.contains(&a.event)).map(|a| Fault::EventLost(a.event)));
    }

    fn check_deliveries(&self, claims: &Claims<'_>, faults: &mut Vec<Fault>) {
        for (&delivery, owed) in &self.deliveries {
            if !self.events.contains(&owed.event) {
                faults.push(Fault::EventUnknown { delivery, event: owed.event });
            }
        }
        if let Some(expected) = claims.expected {
            let lost = expected.iter().filter(|id| !self.deliveries.contains_key(id));
            faults.extend(lost.map(|id| Fault::DeliveryLost(*id)));
            let unwanted = self.deliveries.keys().filter(|id| !expected.contains(id));
            faults.extend(unwanted.map(|id| Fault::DeliveryUnwanted(*id)));
        }
    }

    fn check_ends(&self, received: Option<&Received>, faults: &mut Vec<Fault>) {
        for (&delivery, ends) in &self.ends {
            if !self.deliveries.contains_key(&delivery) {
                faults.push(Fault::EndUnknown(delivery));
            }
            if ends.len() > 1 {
                let ends = ends.iter().map(|end| end.name()).collect::<Vec<_>>().join(", ");
                faults.push(Fault::TwoEnds { delivery, ends });
            }
        }
        for &delivery in self.deliveries.keys() {
            match (self.ends.get(&delivery), received) {
                (None, _) => faults.push(Fault::Unsettled(delivery)),
                (Some(ends), Some(received))
                    if ends.contains(&End::Delivered) && !received.taken.contains(&delivery) =>
                {
                    faults.push(Fault::NotReceived(delivery));
                }
                (Some(_), _) => {}
            }
        }
    }

    fn check_receipts(&self, receipts: &[Receipt], claims: &Claims<'_>, faults: &mut Vec<Fault>) -> Received {
        if claims.receipts_truncated {
            faults.push(Fault::ReceiptsTruncated);
        }
        let bad = receipts.iter().filter(|receipt| !receipt.verified).count() as u64;
        if bad > 0 {
            faults.push(Fault::BadSignatures(bad));
        }
        let mut received = Received::default();
        let mut line = Line::new(claims.accepted.unwrap_or_default());
        let mut unknown = HashSet::new();
        for receipt in receipts.iter().filter(|receipt| receipt.verified) {
            let id = receipt.webhook_id.parse::<DeliveryId>().ok();
            let Some((delivery, owed)) = id.and_then(|id| self.deliveries.get_key_value(&id)) else {
                if unknown.insert(&receipt.webhook_id) {
                    faults.push(Fault::ReceivedUnknown(receipt.webhook_id.clone()));
                }
                continue;
            };
            if receipt.is_accepted() && !received.taken.insert(*delivery) {
                received.duplicates += 1;
            }
            if line.is_late(*delivery, owed.event, &owed.mailbox, receipt.is_accepted()) {
                received.order_violations += 1;
                faults.push(Fault::OutOfOrder { mailbox: owed.mailbox.clone(), delivery: *delivery });
            }
        }
        received
    }
}

/// The order of every mailbox, in two readings: first requests must come in the producer's order, and so must first
/// acceptances. A request that fails and is let past by its successor breaks only the second.
struct Line<'a> {
    sequences: HashMap<EventId, u64>,
    arrived: HashMap<&'a MailboxKey, u64>,
    accepted: HashMap<&'a MailboxKey, u64>,
    seen: HashMap<DeliveryId, Seen>,
}

#[derive(Default)]
struct Seen {
    accepted: bool,
    late: bool,
}

impl<'a> Line<'a> {
    fn new(accepted: &[Accepted]) -> Self {
        Self {
            sequences: accepted.iter().map(|a| (a.event, a.sequence)).collect(),
            arrived: HashMap::new(),
            accepted: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    /// Whether this request shows, for the first time, that the delivery is late.
    fn is_late(
        &mut self,
        delivery: DeliveryId,
        event: EventId,
        mailbox: &'a MailboxKey,
        accepted: bool,
    ) -> bool {
        let Some(&sequence) = self.sequences.get(&event) else { return false };
        let first = !self.seen.contains_key(&delivery);
        let seen = self.seen.entry(delivery).or_default();
        let mut late = false;
        if first {
            late |= passes(&mut self.arrived, mailbox, sequence);
        }
        if accepted && !seen.accepted {
            seen.accepted = true;
            late |= passes(&mut self.accepted, mailbox, sequence);
        }
        let news = late && !seen.late;
        seen.late |= late;
        news
    }
}

/// Whether a later one was there before; equal ones are one event for two subscriptions.
fn passes<'a>(heads: &mut HashMap<&'a MailboxKey, u64>, mailbox: &'a MailboxKey, sequence: u64) -> bool {
    let head = heads.entry(mailbox).or_insert(sequence);
    let late = sequence < *head;
    *head = sequence.max(*head);
    late
}
