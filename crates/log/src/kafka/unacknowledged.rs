//! The bound of what waits for the brokers' acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::config::{PRODUCER_QUEUE_KIB, PRODUCER_QUEUE_RECORDS};
use crate::LogError;

/// Records and bytes that wait for acknowledgement, half of librdkafka's queue: a call that does not fit is refused
/// before its first record.
const RECORDS_MAX: usize = PRODUCER_QUEUE_RECORDS / 2;
const BYTES_MAX: usize = PRODUCER_QUEUE_KIB / 2 * 1024;

/// What waits for acknowledgement.
#[derive(Default)]
pub(super) struct Budget {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

/// The place of one call, until it is dropped.
pub(super) struct Reserved {
    budget: Arc<Budget>,
    records: usize,
    bytes: usize,
}

impl Reserved {
    /// Takes the place of a call.
    ///
    /// # Errors
    /// [`LogError::Config`]: it is larger than all there is; [`LogError::Unavailable`]: too much waits.
    pub(super) fn take(budget: &Arc<Budget>, records: usize, bytes: usize) -> Result<Self, LogError> {
        if records > RECORDS_MAX || bytes > BYTES_MAX {
            return Err(LogError::Config(format!(
                "an append of {records} records and {bytes} bytes is over the limit of {RECORDS_MAX} and {BYTES_MAX}; \
                 append in parts"
            )));
        }
        let before = budget.records.fetch_add(records, Ordering::Relaxed);
        let bytes_before = budget.bytes.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Self { budget: budget.clone(), records, bytes };
        if before + records > RECORDS_MAX || bytes_before + bytes > BYTES_MAX {
            return Err(LogError::Unavailable("too much waits for kafka's acknowledgement".to_owned()));
        }
        Ok(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.records.fetch_sub(self.records, Ordering::Relaxed);
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
