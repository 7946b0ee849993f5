//! Counts receipts: duplicates by delivery, order by group. Pure; limits are arguments.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::receipt::{Counts, Order, Receipt};
use super::sequence::Sequence;
use super::series::Series;

/// What is known of one endpoint.
#[derive(Debug)]
pub(crate) struct Tally {
    counts: Counts,
    deliveries: HashMap<[u8; 16], Known>,
    groups: HashMap<String, Heads>,
    series: Series,
    deliveries_max: usize,
    truncated: bool,
}

/// What is known of one delivery.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    accepted: bool,
    out_of_order: bool,
    /// The number of its last request.
    sequence: Option<Sequence>,
}

/// Highest sequence of a group so far. Both orders are kept: a delivery may be asked for in order, fail, and be taken
/// only after its successor, which is the reordering that a receiver suffers from.
#[derive(Debug, Clone, Copy, Default)]
struct Heads {
    arrived: u64,
    accepted: u64,
}

impl Tally {
    /// A tally that tells apart at most `deliveries_max` deliveries.
    pub(crate) fn new(deliveries_max: usize) -> Self {
        Self {
            counts: Counts::default(),
            deliveries: HashMap::new(),
            groups: HashMap::new(),
            series: Series::default(),
            deliveries_max,
            truncated: false,
        }
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether more deliveries came than are told apart.
    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// The number that the delivery gets if it is new.
    pub(crate) fn number_if_new(&self, webhook_id: &str) -> Option<u64> {
        (!self.deliveries.contains_key(&short(webhook_id))).then_some(self.counts.deliveries + 1)
    }

    /// Counts one receipt. Receipts come in the order of arrival.
    pub(crate) fn take(&mut self, receipt: &Receipt) {
        self.counts.received += 1;
        if !receipt.verified {
            self.counts.bad_signature += 1;
            return;
        }
        self.counts.verified += 1;
        let accepted = receipt.is_accepted();
        self.counts.accepted += u64::from(accepted);

        let id = short(&receipt.webhook_id);
        let before = self.deliveries.get(&id).copied();
        let mut now = before.unwrap_or_default();
        self.counts.deliveries += u64::from(before.is_none());
        self.counts.duplicates += u64::from(now.accepted);
        let first_accepted = accepted && !now.accepted;
        self.counts.delivered += u64::from(first_accepted);
        now.accepted |= accepted;

        if let Some(order) = &receipt.order
            && self.is_late(order, before.is_none(), first_accepted)
            && !now.out_of_order
        {
            now.out_of_order = true;
            self.counts.order_violations += 1;
        }
        match receipt.sequence.as_deref().and_then(Sequence::parse) {
            Some(sequence) => {
                let before = now.sequence.replace(sequence);
                self.truncated |= !self.series.take(sequence, before, self.deliveries_max, &mut self.counts);
            }
            None => self.counts.sequence_unread += 1,
        }
        if before.is_some() || self.deliveries.len() < self.deliveries_max {
            self.deliveries.insert(id, now);
        } else {
            self.truncated = true;
        }
    }

    fn is_late(&mut self, order: &Order, first_arrived: bool, first_accepted: bool) -> bool {
        if !self.groups.contains_key(&order.group) && self.groups.len() >= self.deliveries_max {
            self.truncated = true;
            return false;
        }
        // Equal sequences are one event for two subscriptions of an endpoint: no order between them.
        let heads = self.groups.entry(order.group.clone()).or_default();
        let mut late = false;
        if first_arrived {
            late |= order.sequence < heads.arrived;
            heads.arrived = heads.arrived.max(order.sequence);
        }
        if first_accepted {
            late |= order.sequence < heads.accepted;
            heads.accepted = heads.accepted.max(order.sequence);
        }
        late
    }
}

/// 16 bytes that stand for an id, whatever its length.
fn short(webhook_id: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&Sha256::digest(webhook_id.as_bytes())[..16]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(id: &str, sequence: u64, status: Option<u16>) -> Receipt {
        let order = Some(Order { group: "g".into(), sequence });
        Receipt { order, ..Receipt::bare("shop", id, status) }
    }

    fn counts(receipts: &[(&str, u64, Option<u16>)]) -> Counts {
        let mut tally = Tally::new(100);
        for (id, sequence, status) in receipts {
            tally.take(&receipt(id, *sequence, *status));
        }
        tally.counts()
    }

    #[test]
    fn a_repeat_is_a_duplicate_only_after_a_2xx() {
        let seen = counts(&[
            ("a", 1, Some(503)),
            ("a", 1, None),
            ("a", 1, Some(200)),
            ("a", 1, Some(200)),
            ("b", 2, Some(204)),
        ]);
        assert_eq!((seen.received, seen.accepted), (5, 3));
        assert_eq!((seen.deliveries, seen.delivered, seen.duplicates), (2, 2, 1));
        assert_eq!(seen.order_violations, 0);
    }

    #[test]
    fn a_retry_and_a_repeat_break_no_order() {
        let ok = Some(200);
        // 1 is sent again after a crash, when 2 had been taken: at-least-once, not a reordering.
        assert_eq!(
            counts(&[("a", 1, Some(500)), ("a", 1, ok), ("b", 2, ok), ("a", 1, ok)]).order_violations,
            0
        );
        // One event for two subscriptions of the endpoint.
        assert_eq!(counts(&[("a", 1, ok), ("b", 2, ok), ("c", 2, ok), ("d", 3, ok)]).order_violations, 0);
        // A dead letter: never taken, its successors go on.
        assert_eq!(counts(&[("a", 1, Some(400)), ("b", 2, ok), ("c", 3, ok)]).order_violations, 0);
    }

    #[test]
    fn a_late_arrival_and_a_late_acceptance_are_each_one_violation() {
        let ok = Some(200);
        assert_eq!(counts(&[("b", 2, ok), ("a", 1, ok), ("c", 3, ok)]).order_violations, 1);
        // Asked for in order, taken out of order.
        assert_eq!(counts(&[("a", 1, Some(503)), ("b", 2, ok), ("a", 1, ok)]).order_violations, 1);
        // Asked for out of order, taken in order.
        assert_eq!(counts(&[("b", 2, Some(503)), ("a", 1, ok), ("b", 2, ok)]).order_violations, 1);
        // Late twice is still one delivery.
        assert_eq!(counts(&[("b", 2, ok), ("a", 1, Some(503)), ("a", 1, ok)]).order_violations, 1);
    }

    #[test]
    fn groups_have_no_order_between_them() {
        let mut tally = Tally::new(100);
        for (id, group, sequence) in [("a", "x", 5), ("b", "y", 1), ("c", "x", 6), ("d", "y", 2)] {
            let mut receipt = receipt(id, sequence, Some(200));
            receipt.order = Some(Order { group: group.into(), sequence });
            tally.take(&receipt);
        }
        assert_eq!(tally.counts().order_violations, 0);
    }

    #[test]
    fn an_unverified_request_counts_for_nothing_else() {
        let mut tally = Tally::new(100);
        let mut forged = receipt("a", 9, Some(401));
        forged.verified = false;
        tally.take(&forged);
        tally.take(&receipt("a", 1, Some(200)));
        let seen = tally.counts();
        assert_eq!((seen.bad_signature, seen.verified, seen.duplicates, seen.order_violations), (1, 1, 0, 0));
    }

    #[test]
    fn memory_is_bounded_and_says_so() {
        let mut tally = Tally::new(2);
        for id in ["a", "b", "c", "c"] {
            tally.take(&receipt(id, 1, Some(200)));
        }
        assert!(tally.is_truncated());
        assert_eq!(tally.deliveries.len(), 2);
        assert_eq!(tally.counts().received, 4);
    }
}
