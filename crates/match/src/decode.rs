//! Record → event.

use mailrail_log::StoredRecord;
use mailrail_types::Event;

/// What a record turned out to be.
pub(crate) enum Decoded {
    /// An event.
    Event(Box<Event>),
    /// Not an event, with the reason: it goes to quarantine and the partition goes on.
    Unreadable(String),
}

/// Reads the record of an event.
pub(crate) fn decode(record: &StoredRecord) -> Decoded {
    match mailrail_wire::decode_event(&record.value) {
        Ok(event) => Decoded::Event(Box::new(event)),
        Err(error) => Decoded::Unreadable(error.to_string()),
    }
}
