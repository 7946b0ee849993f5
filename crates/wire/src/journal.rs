//! Entries of the journal. The delivery protocol gives them their meaning; here they are only written and read.

mod read;
mod write;

use bytes::Bytes;
use mailrail_mailbox::{Aside, Entry, Kind};
use prost::Message;

use crate::Error;
use crate::proto::journal as pb;

/// The record of an entry.
///
/// `content` is the record of the delivery, as it came from the deliveries; it is copied once, into the result. A
/// [`Kind::Park`], and a [`Kind::Aside`] that names no place of its content, must be given one: without it nobody could
/// send the delivery, and [`decode_entry`] refuses the record. Other kinds hold none.
#[must_use]
pub fn encode_entry(entry: &Entry, content: Option<&[u8]>) -> Bytes {
    debug_assert_eq!(content.is_some(), holds_content(&entry.kind), "content belongs to what holds it");
    write::entry(entry, content)
}

/// Reads the record of an entry, and the content that it holds: the record of a delivery, which shares memory with this
/// one.
///
/// # Errors
/// [`Error`] when it is not such a record, lacks a field or is of a kind that only a newer version knows. Then the reader
/// stops: without this entry its state is not the writer's.
pub fn decode_entry(record: &Bytes) -> Result<(Entry, Option<Bytes>), Error> {
    read::entry(pb::Entry::decode(record.clone())?)
}

/// Whether the content of a delivery is in such an entry.
fn holds_content(kind: &Kind) -> bool {
    matches!(kind, Kind::Park(_) | Kind::Aside(Aside { content: None, .. }))
}
