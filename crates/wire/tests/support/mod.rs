//! What the tests of records share.

use std::path::PathBuf;

use bytes::Bytes;

/// Bytes that version 0.1.0 wrote, kept as hex. They are never written anew: a failure here means that records in running
/// logs can no longer be read.
pub(crate) fn fixture(name: &str) -> Bytes {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("0.1.0-{name}.hex"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex"))
        .collect::<Vec<_>>()
        .into()
}
