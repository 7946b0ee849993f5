//! Record → delivery.

use mailrail_log::StoredRecord;
use mailrail_types::{Attempt, Delivery};

/// A delivery in the window of its partition, with what was tried by this owner.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) delivery: Delivery,
    /// The last attempts, newest last; at most as many as a dead letter keeps.
    pub(crate) attempts: Vec<Attempt>,
}

/// Reads the record of a delivery; an unreadable one goes to quarantine with the reason.
pub(crate) fn decode(record: &StoredRecord) -> Result<Held, String> {
    match mailrail_wire::decode_delivery(&record.value) {
        Ok(delivery) => Ok(Held { delivery, attempts: Vec::new() }),
        Err(error) => Err(error.to_string()),
    }
}
