//! Numbers by which a receiver sees gaps, repetitions and changes of order: `mailrail-sequence`.
//!
//! Within an epoch (one ownership of a partition) the deliveries of an endpoint's ordering key are numbered from 1 without a
//! hole. A new epoch starts at 1 again; the offset grows across epochs, as long as the topic is the same.

use std::collections::HashMap;
use std::fmt::Write as _;

use mailrail_mailbox::{Place, Source};
use mailrail_types::{Delivery, EndpointId, MailboxKey, TenantId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::numbers::ByNumber;

/// Keys that are counted at a time. Beyond that a new series starts for all of them: memory is bounded, and a receiver sees a
/// new epoch, not a gap.
const KEYS_MAX: usize = 100_000;

/// Room for the header, made once.
const HEADER_CHARS: usize = 96;

/// What is numbered: the deliveries of an endpoint about one thing; those about nothing, by their mailbox.
type Key = (TenantId, EndpointId, u64);

/// The number of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    number: u64,
    key: u64,
    partition: u32,
    epoch: Place,
    series: u32,
    source: Source,
}

impl Sequence {
    /// A structured field item (RFC 9651): the number, what it counts, and which series and record it belongs to.
    pub(crate) fn header(self) -> String {
        let Self { number, key, partition, epoch, series, source } = self;
        let mut header = String::with_capacity(HEADER_CHARS);
        // A text takes everything.
        let _ = write!(
            header,
            "{number};key=\"{key:016x}\";epoch=\"{partition}.{epoch}.{series}\";offset={source}"
        );
        header
    }
}

/// The numbers of one ownership.
#[derive(Debug)]
pub(crate) struct Sequences {
    partition: u32,
    epoch: Place,
    series: u32,
    next: HashMap<Key, u64>,
    /// A delivery keeps its number over its attempts.
    given: ByNumber<Source, Sequence>,
}

impl Sequences {
    pub(crate) fn new(partition: u32, epoch: Place) -> Self {
        Self { partition, epoch, series: 0, next: HashMap::new(), given: ByNumber::default() }
    }

    /// The number of a delivery whose turn has come.
    pub(crate) fn number(&mut self, source: Source, delivery: &Delivery, mailbox: &MailboxKey) -> Sequence {
        if let Some(given) = self.given.get(&source) {
            return *given;
        }
        if self.next.len() >= KEYS_MAX {
            self.next.clear();
            self.series += 1;
        }
        let hash = hash_of(delivery, mailbox);
        let key = (delivery.event.tenant.clone(), delivery.endpoint.clone(), hash);
        let next = self.next.entry(key).or_insert(0);
        *next += 1;
        let (number, partition, epoch, series) = (*next, self.partition, self.epoch, self.series);
        let sequence = Sequence { number, key: hash, partition, epoch, series, source };
        self.given.insert(source, sequence);
        sequence
    }

    /// The delivery has ended.
    pub(crate) fn ended(&mut self, source: Source) {
        self.given.remove(&source);
    }
}

/// What the delivery is about, as a receiver tells it apart: the ordering key, or the mailbox of what has none.
fn hash_of(delivery: &Delivery, mailbox: &MailboxKey) -> u64 {
    match delivery.event.ordering_key.as_deref() {
        Some(key) => xxh3_64(key.as_bytes()),
        None => xxh3_64_with_seed(mailbox.as_str().as_bytes(), 1),
    }
}
