//! Record → delivery, and how its mailbox is drained.

use mailrail_log::StoredRecord;
use mailrail_mailbox::Traits;
use mailrail_store::Directory;
use mailrail_types::{Delivery, PRIORITY_DEFAULT};

use crate::contents::Held;

/// Reads the record of a delivery; an unreadable one goes to quarantine with the reason.
pub(crate) fn decode(record: &StoredRecord) -> Result<Held, String> {
    mailrail_wire::decode_delivery(&record.value).map(Held::new).map_err(|error| error.to_string())
}

/// How the mailbox of this delivery is drained, by the class that it has now. The same attribute decides the width of the
/// mailbox (crate `match`). What is not set up any more is strict: its deliveries end as cancelled.
pub(crate) fn traits(directory: &Directory, delivery: &Delivery) -> Traits {
    let strict = Traits { threads: 1, tolerant: false, priority: PRIORITY_DEFAULT };
    let Some(view) = directory.tenant(&delivery.event.tenant) else { return strict };
    let endpoint = view.endpoints.get(&delivery.endpoint).map(|e| &**e);
    let forwarded = delivery.event.forwarded.as_deref();
    let integration = forwarded.and_then(|f| view.integrations.get(&f.integration)).map(|i| &**i);
    let Some(class) = mailrail_surfaces::mailbox_class(&delivery.event, endpoint, integration) else {
        return strict;
    };
    let class = directory.class(&class);
    Traits { threads: 1, tolerant: class.tolerates_reordering, priority: class.priority }
}
