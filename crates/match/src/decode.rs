//! Record → event.

use mailrail_log::StoredRecord;
use mailrail_types::Event;
use mailrail_wire::EventReader;

/// What a record turned out to be.
pub(crate) enum Decoded {
    /// An event.
    Event(Box<Event>),
    /// Not an event, with the reason: it goes to quarantine and the partition goes on.
    Unreadable(String),
}

/// Reads the record of an event, into the memory of one that was given back.
pub(crate) fn decode(reader: &mut EventReader, record: &StoredRecord) -> Decoded {
    match reader.read(&record.value) {
        Ok(event) => Decoded::Event(event),
        Err(error) => Decoded::Unreadable(error.to_string()),
    }
}
