//! Match → delivery → record: some recipients at a time, on the threads that match.

use bytes::Bytes;
use mailrail_limits::Counter;
use mailrail_log::NewRecord;
use mailrail_types::{Delivery, DeliveryId, Event, History, Timestamp};

use crate::Config;
use crate::append::Room;
use crate::find_matches::Matched;
use crate::tag::Tagged;
use crate::targets::Target;

/// A recipient, and the mailbox where its delivery goes.
pub(crate) struct Owed {
    /// Place of the event in the piece.
    pub(crate) event: usize,
    pub(crate) target: Target,
    pub(crate) tagged: Tagged,
}

/// Records of deliveries.
#[derive(Default)]
pub(crate) struct FannedOut {
    /// Place behind the last recipient that has its record here.
    pub(crate) upto: usize,
    /// Partition and record, in order.
    pub(crate) records: Vec<(u32, NewRecord)>,
    /// What they count for.
    pub(crate) counters: Vec<Counter>,
}

/// Makes the records of recipients from place `from` on: of one at least, and of no more than there is room for before the
/// next one is made.
pub(crate) fn fan_out(
    matched: &[Matched],
    owed: &[Owed],
    from: usize,
    mut room: Room,
    now: Timestamp,
    config: &Config,
) -> FannedOut {
    let mut made = FannedOut { upto: from, ..FannedOut::default() };
    for owed in owed.get(from..).unwrap_or_default() {
        if made.upto > from && room.is_used_up() {
            break;
        }
        made.upto += 1;
        let Some(Matched { event, headers, setup_seq, .. }) = matched.get(owed.event) else { continue };
        let delivery = delivery(event, owed, *setup_seq, now, config);
        let key = delivery.mailbox.key();
        let record = NewRecord {
            key: Bytes::copy_from_slice(key.as_str().as_bytes()),
            value: mailrail_wire::encode_delivery(&delivery),
            headers: headers.clone(),
        };
        room.take(record.value.len());
        made.records.push((key.partition(config.partitions), record));
        made.counters.extend(owed.tagged.counter.clone());
    }
    made
}

/// The delivery that a recipient is owed. Its id follows from event and subscription; its deadline from the acceptance
/// of the event, so that matching later does not lengthen it.
fn delivery(event: &Event, owed: &Owed, setup_seq: u64, now: Timestamp, config: &Config) -> Delivery {
    let lifetime = match event.forwarded {
        Some(_) => mailrail_surfaces::FORWARD_LIFETIME.min(config.delivery_lifetime),
        None => config.delivery_lifetime,
    };
    let Target { app, subscription, endpoint, .. } = &owed.target;
    Delivery {
        id: DeliveryId::derive(&event.id, &event.tenant, subscription),
        event: event.clone(),
        app: app.clone(),
        subscription: subscription.clone(),
        endpoint: endpoint.clone(),
        mailbox: owed.tagged.mailbox.clone(),
        setup_seq,
        matched_at: now,
        deadline: event.accepted_at.plus(lifetime),
        history: History::default(),
        unknown: Bytes::new(),
    }
}
