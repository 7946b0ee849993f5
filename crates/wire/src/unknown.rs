//! Fields of a newer version: found on reading, written back on writing.
//!
//! prost drops what it does not know. A rolling upgrade runs two versions side by side, so a record that passes through
//! the older one must keep what the newer one wrote.

use bytes::{Buf, Bytes, BytesMut};
use prost::encoding::{DecodeContext, decode_key, skip_field};

use crate::Error;

include!(concat!(env!("OUT_DIR"), "/known_tags.rs"));

/// What the top level of a record holds.
pub(crate) struct Fields {
    /// The fields whose numbers are not known, as they stand. Empty (and no copy) for records of this version.
    pub(crate) unknown: Bytes,
    /// Bit n: field n is there. Of fields below 64.
    present: u64,
}

impl Fields {
    /// Whether the field of this number, below 64, is there.
    pub(crate) fn has(&self, tag: u32) -> bool {
        self.present & 1_u64.checked_shl(tag).unwrap_or(0) != 0
    }
}

/// Goes over the top-level fields of `record`.
pub(crate) fn fields(record: &[u8], known: &[u32]) -> Result<Fields, Error> {
    let mut rest = record;
    let mut unknown = BytesMut::new();
    let mut present = 0;
    while rest.has_remaining() {
        let start = record.len() - rest.remaining();
        let (tag, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default())?;
        let end = record.len() - rest.remaining();
        present |= 1_u64.checked_shl(tag).unwrap_or(0);
        if !known.contains(&tag) {
            unknown.extend_from_slice(&record[start..end]);
        }
    }
    Ok(Fields { unknown: unknown.freeze(), present })
}

/// The top-level fields of `record` whose numbers are not in `known`, as they stand. Empty (and no copy) for records
/// of this version.
pub(crate) fn unknown_fields(record: &[u8], known: &[u32]) -> Result<Bytes, Error> {
    Ok(fields(record, known)?.unknown)
}

/// The encoded message followed by the fields of a newer version. Order of fields does not matter in protobuf.
pub(crate) fn encode_with<M: prost::Message>(message: &M, unknown: &Bytes) -> Bytes {
    let mut out = BytesMut::with_capacity(message.encoded_len() + unknown.len());
    // A BytesMut grows as needed: encoding into it cannot fail.
    let _ = message.encode(&mut out);
    out.extend_from_slice(unknown);
    out.freeze()
}
