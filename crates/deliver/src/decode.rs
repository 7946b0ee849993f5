//! Record → delivery, how its mailbox is drained, and what it is about.

use mailrail_log::StoredRecord;
use mailrail_mailbox::{OrderKey, Shape, Traits};
use mailrail_store::Directory;
use mailrail_types::{Delivery, PRIORITY_DEFAULT};
use xxhash_rust::xxh3::xxh3_64;

use crate::contents::Held;

/// Reads the record of a delivery; an unreadable one goes to quarantine with the reason.
pub(crate) fn decode(record: &StoredRecord) -> Result<Held, String> {
    mailrail_wire::decode_delivery(&record.value).map(Held::new).map_err(|error| error.to_string())
}

/// How the mailbox of this delivery is drained, by the class that it has now. The same attribute decides the width of the
/// mailbox (crate `match`). What is not set up any more is strict: its deliveries end as cancelled.
pub(crate) fn traits(directory: &Directory, delivery: &Delivery) -> Traits {
    let strict = Traits { priority: PRIORITY_DEFAULT, ..Traits::STRICT };
    let Some(view) = directory.tenant(&delivery.event.tenant) else { return strict };
    let endpoint = view.endpoints.get(&delivery.endpoint).map(|e| &**e);
    let forwarded = delivery.event.forwarded.as_deref();
    let integration = forwarded.and_then(|f| view.integrations.get(&f.integration)).map(|i| &**i);
    let Some(class) = mailrail_surfaces::mailbox_class(&delivery.event, endpoint, integration) else {
        return strict;
    };
    let class = directory.class(&class);
    let threads = if class.tolerates_reordering { usize::try_from(class.threads).unwrap_or(1) } else { 1 };
    Traits { threads, tolerant: class.tolerates_reordering, priority: class.priority }
}

/// What the protocol must know of a delivery whose record, or entry, has `bytes`.
pub(crate) fn shape(directory: &Directory, delivery: &Delivery, bytes: usize) -> Shape {
    Shape { bytes, key: order_key(delivery), traits: traits(directory, delivery) }
}

/// What the delivery is about: deliveries of a mailbox that share it go one at a time.
fn order_key(delivery: &Delivery) -> Option<OrderKey> {
    delivery.event.ordering_key.as_deref().map(|key| xxh3_64(key.as_bytes()))
}
