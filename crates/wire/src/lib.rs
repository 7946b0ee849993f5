//! The records: protobuf, and its conversion from and to the nouns of `types` and the journal entries of `mailbox`.
//!
//! **Always holds**: what was decoded and is encoded again keeps every top-level field, those of a newer version included;
//! an event's body is copied, never re-serialised; a record that cannot be understood is an [`Error`], never a guess. A
//! journal entry is not written again, so nothing of a newer version is kept of it; a kind that is unknown is an error.
//!
//! **Deliberately absent**: business rules. The only serialisation of records; the `.proto` files are in `proto/`.

mod attempt;
mod dead_letter;
mod delivery;
mod error;
mod event;
mod journal;
mod redrive;
mod unknown;

pub use attempt::{decode_attempt, encode_attempt};
pub use dead_letter::{decode_dead_letter, encode_dead_letter};
pub use delivery::{decode_delivery, encode_delivery};
pub use error::Error;
pub use event::{EventReader, decode_event, encode_event};
pub use journal::{decode_entry, encode_entry};
pub use redrive::{decode_redrive, encode_redrive};

/// Generated from `proto/`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod proto {
    pub mod event {
        include!(concat!(env!("OUT_DIR"), "/mailrail.event.v1.rs"));
    }
    pub mod delivery {
        include!(concat!(env!("OUT_DIR"), "/mailrail.delivery.v1.rs"));
    }
    pub mod attempt {
        include!(concat!(env!("OUT_DIR"), "/mailrail.attempt.v1.rs"));
    }
    pub mod deadletter {
        include!(concat!(env!("OUT_DIR"), "/mailrail.deadletter.v1.rs"));
    }
    pub mod journal {
        include!(concat!(env!("OUT_DIR"), "/mailrail.journal.v1.rs"));
    }
    pub mod redrive {
        include!(concat!(env!("OUT_DIR"), "/mailrail.redrive.v1.rs"));
    }
}
