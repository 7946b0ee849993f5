//! Holds the log against what producer and receiver saw. Every difference is a fault.

use std::collections::{HashMap, HashSet};

use mailrail_types::{DeliveryId, EventId, Mailbox};

use super::ledger::{Books, End, Owed};
use super::line::Line;
use super::statement::{Fault, Statement};
use super::{Accepted, Recipient};
use crate::receiver::{DELIVERIES_MAX, Receipt, Tally};

/// What others saw. What is left out is not compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Claims<'a> {
    /// What the producer was told. Gives the order that is checked.
    pub accepted: Option<&'a [Accepted]>,
    /// The deliveries that there must be, and no other.
    pub expected: Option<&'a HashSet<DeliveryId>>,
    /// Recipients whose mailboxes are strict: theirs is the order that is checked, and theirs are not sized by rate.
    /// `None`: those of all are strict.
    pub strict: Option<&'a HashSet<Recipient>>,
    /// SHA-256, in hex, of the body of accepted events.
    pub bodies: Option<&'a HashMap<EventId, String>>,
    /// What the receiver saw, in order of arrival, of all endpoints.
    pub receipts: Option<&'a [Receipt]>,
    /// Whether the receiver kept only a part.
    pub receipts_truncated: bool,
}

impl Claims<'_> {
    fn is_strict(&self, mailbox: &Mailbox) -> bool {
        self.strict.is_none_or(|strict| strict.contains(&(mailbox.tenant.clone(), mailbox.endpoint.clone())))
    }
}

/// What the receiver's side comes to.
#[derive(Default)]
struct Received {
    taken: HashSet<DeliveryId>,
    duplicates: u64,
    order_violations: u64,
    sequence_gaps: u64,
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

        let ended = |id, end| self.ends.get(id).is_some_and(|ends| ends.first() == Some(&end));
        let count = |end| self.deliveries.keys().filter(|id| ended(id, end)).count() as u64;
        let to_cells = self.deliveries.iter().filter(|(_, owed)| owed.forwarded);
        let received = received.unwrap_or_default();
        faults.sort();
        Statement {
            accepted: claims.accepted.map_or(self.events.len(), <[_]>::len) as u64,
            matched: self.deliveries.len() as u64,
            delivered: count(End::Delivered),
            verified: received.taken.len() as u64,
            dead_lettered: count(End::DeadLettered),
            forwarded: to_cells.filter(|(id, _)| ended(id, End::Delivered)).count() as u64,
            mailboxes: self.deliveries.values().map(|owed| &owed.mailbox).collect::<HashSet<_>>().len()
                as u64,
            widest: self.widest(claims),
            expired: count(End::Expired),
            cancelled: count(End::Cancelled),
            in_progress: self.unsettled().in_progress,
            unmatched: self.unmatched,
            duplicates: received.duplicates,
            order_violations: received.order_violations,
            sequence_gaps: received.sequence_gaps,
            balanced: faults.is_empty(),
            faults,
        }
    }

    /// The split that the highest bucket of a rate-sized mailbox tells of.
    fn widest(&self, claims: &Claims<'_>) -> u32 {
        let mailboxes = self.deliveries.values().map(|owed| &owed.mailbox);
        let buckets = mailboxes.filter(|mailbox| !claims.is_strict(mailbox)).map(|mailbox| mailbox.bucket);
        buckets.max().map_or(0, |bucket| bucket.saturating_add(1).next_power_of_two())
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
        let (mut unknown, mut changed) = (HashSet::new(), HashSet::new());
        for receipt in receipts.iter().filter(|receipt| receipt.verified) {
            let id = receipt.webhook_id.parse::<DeliveryId>().ok();
            let Some((delivery, owed)) = id.and_then(|id| self.deliveries.get_key_value(&id)) else {
                if !self.is_earlier(receipt) && unknown.insert(&receipt.webhook_id) {
                    faults.push(Fault::ReceivedUnknown(receipt.webhook_id.clone()));
                }
                continue;
            };
            if receipt.is_accepted() && !received.taken.insert(*delivery) {
                received.duplicates += 1;
            }
            if has_other_body(receipt, owed, claims) && changed.insert(*delivery) {
                faults.push(Fault::BodyChanged(*delivery));
            }
            if claims.is_strict(&owed.mailbox) && line.is_late(*delivery, owed, receipt.is_accepted()) {
                received.order_violations += 1;
                faults.push(Fault::OutOfOrder { mailbox: owed.mailbox.key(), delivery: *delivery });
            }
        }
        received.sequence_gaps = sequence_gaps(receipts);
        received
    }

    /// Whether it came of an event from before the books were opened.
    fn is_earlier(&self, receipt: &Receipt) -> bool {
        let event = receipt.event_id.as_ref().and_then(|id| id.parse().ok());
        event.is_some_and(|event: EventId| self.earlier.contains(&event))
    }
}

/// What the numbers of all receipts tell. A gap is no fault: what expires or is cancelled before it is sent leaves one.
fn sequence_gaps(receipts: &[Receipt]) -> u64 {
    let mut tallies = HashMap::<&str, Tally>::new();
    for receipt in receipts {
        tallies.entry(&receipt.endpoint).or_insert_with(|| Tally::new(DELIVERIES_MAX)).take(receipt);
    }
    tallies.values().map(|tally| tally.counts().sequence_gaps).sum()
}

fn has_other_body(receipt: &Receipt, owed: &Owed, claims: &Claims<'_>) -> bool {
    let body = claims.bodies.and_then(|bodies| bodies.get(&owed.event));
    body.is_some_and(|sha256| *sha256 != receipt.body_sha256)
}
