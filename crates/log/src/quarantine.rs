//! Records that cannot be understood: kept with their raw bytes and coordinates, so that one of them stops nothing and
//! none is lost.

use bytes::Bytes;

use crate::{NewRecord, StoredRecord};

/// Header: `topic/partition/offset` of the record.
pub const ORIGIN_HEADER: &str = "mailrail-origin";
/// Header: why it was set aside.
pub const PROBLEM_HEADER: &str = "mailrail-problem";
/// Longest problem text in bytes.
const PROBLEM_MAX_BYTES: usize = 500;

/// The quarantine record of `record`: its raw bytes, its headers, where it stood and what is wrong with it.
#[must_use]
pub fn quarantine_record(topic: &str, partition: u32, record: &StoredRecord, problem: &str) -> NewRecord {
    let mut end = problem.len().min(PROBLEM_MAX_BYTES);
    while !problem.is_char_boundary(end) {
        end -= 1;
    }
    let mut headers = record.headers.clone();
    headers.push((ORIGIN_HEADER.to_owned(), format!("{topic}/{partition}/{}", record.offset).into()));
    headers.push((PROBLEM_HEADER.to_owned(), Bytes::copy_from_slice(&problem.as_bytes()[..end])));
    NewRecord { key: record.key.clone(), value: record.value.clone(), headers }
}
