//! How many bytes things are: the same count in both adapters.

use bytes::Bytes;

use crate::{Committed, LogError, NewRecord, StoredRecord};

/// Kafka's default for `offset.metadata.max.bytes`.
const METADATA_BYTES_MAX: usize = 4096;

/// Key, value and headers of a record.
pub(crate) fn record_bytes(record: &NewRecord) -> usize {
    record.key.len() + record.value.len() + header_bytes(&record.headers)
}

/// The same of a stored record.
pub(crate) fn stored_bytes(record: &StoredRecord) -> usize {
    record.key.len() + record.value.len() + header_bytes(&record.headers)
}

fn header_bytes(headers: &[(String, Bytes)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// Refuses metadata that the log would refuse or cut.
pub(crate) fn check_metadata(commits: &[(u32, Committed)]) -> Result<(), LogError> {
    match commits.iter().find(|(_, it)| it.metadata.len() > METADATA_BYTES_MAX) {
        None => Ok(()),
        Some((partition, it)) => Err(LogError::Config(format!(
            "commit metadata of {} bytes for partition {partition} is over the limit of {METADATA_BYTES_MAX}",
            it.metadata.len()
        ))),
    }
}
