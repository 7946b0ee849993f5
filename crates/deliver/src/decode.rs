//! Record → delivery, how its mailbox is drained, and what it is about.

use std::sync::Arc;

use mailrail_log::StoredRecord;
use mailrail_mailbox::{OrderKey, Shape, Traits};
use mailrail_store::Directory;
use mailrail_types::{Delivery, MailboxClass, PRIORITY_DEFAULT};
use xxhash_rust::xxh3::xxh3_64;

use crate::contents::Held;

/// Reads the record of a delivery; an unreadable one goes to quarantine with the reason.
pub(crate) fn decode(record: &StoredRecord) -> Result<Held, String> {
    mailrail_wire::decode_delivery(&record.value).map(Held::new).map_err(|error| error.to_string())
}

/// The class that the mailbox of this delivery has now. `None`: what it belongs to is not set up any more.
pub(crate) fn class(directory: &Directory, delivery: &Delivery) -> Option<Arc<MailboxClass>> {
    let view = directory.tenant(&delivery.event.tenant)?;
    let endpoint = view.endpoints.get(&delivery.endpoint).map(|e| &**e);
    let forwarded = delivery.event.forwarded.as_deref();
    let integration = forwarded.and_then(|f| view.integrations.get(&f.integration)).map(|i| &**i);
    let class = mailrail_surfaces::mailbox_class(&delivery.event, endpoint, integration)?;
    Some(directory.class(&class))
}

/// How a mailbox of this class is drained. The same attribute decides the width of the mailbox (crate `match`). What is not set up
/// any more is strict: its deliveries end as cancelled.
fn traits(class: Option<&MailboxClass>) -> Traits {
    let Some(class) = class else { return Traits { priority: PRIORITY_DEFAULT, ..Traits::STRICT } };
    let threads = if class.tolerates_reordering { usize::try_from(class.threads).unwrap_or(1) } else { 1 };
    Traits { threads, tolerant: class.tolerates_reordering, priority: class.priority }
}

/// What the protocol must know of a delivery whose record, or entry, has `bytes`, and whose mailbox is of `class`.
pub(crate) fn shape(class: Option<&MailboxClass>, delivery: &Delivery, bytes: usize) -> Shape {
    Shape { bytes, key: order_key(delivery), traits: traits(class) }
}

/// What the delivery is about: deliveries of a mailbox that share it go one at a time.
fn order_key(delivery: &Delivery) -> Option<OrderKey> {
    delivery.event.ordering_key.as_deref().map(|key| xxh3_64(key.as_bytes()))
}
