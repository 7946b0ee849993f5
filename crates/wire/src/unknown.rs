//! Fields of a newer version: found on reading, written back on writing.
//!
//! prost drops what it does not know. A rolling upgrade runs two versions side by side, so a record that passes through
//! the older one must keep what the newer one wrote.

use bytes::{Buf, Bytes, BytesMut};
use prost::encoding::{DecodeContext, decode_key, skip_field};

use crate::Error;

include!(concat!(env!("OUT_DIR"), "/known_tags.rs"));

/// The top-level fields of `record` whose numbers are not in `known`, as they stand. Empty (and no copy) for records
/// of this version.
pub(crate) fn unknown_fields(record: &Bytes, known: &[u32]) -> Result<Bytes, Error> {
    let mut rest = record.clone();
    let mut kept = BytesMut::new();
    while rest.has_remaining() {
        let start = record.len() - rest.remaining();
        let (tag, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default())?;
        let end = record.len() - rest.remaining();
        if !known.contains(&tag) {
            kept.extend_from_slice(&record[start..end]);
        }
    }
    Ok(kept.freeze())
}

/// The encoded message followed by the fields of a newer version. Order of fields does not matter in protobuf.
pub(crate) fn encode_with<M: prost::Message>(message: &M, unknown: &Bytes) -> Bytes {
    let mut out = BytesMut::with_capacity(message.encoded_len() + unknown.len());
    // A BytesMut grows as needed: encoding into it cannot fail.
    let _ = message.encode(&mut out);
    out.extend_from_slice(unknown);
    out.freeze()
}
