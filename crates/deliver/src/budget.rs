//! Bytes that the windows of a process hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mailrail_telemetry::DeliverMetrics;

/// Counts the bytes of all windows against one limit. Cheap clone.
#[derive(Clone)]
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    max: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Self { used: Arc::default(), max }
    }

    /// The part of one partition; gives everything back when dropped.
    pub(crate) fn share(&self, metrics: DeliverMetrics) -> Share {
        Share { budget: self.clone(), metrics, bytes: 0, records: 0, held: 0 }
    }
}

/// What one partition uses.
pub(crate) struct Share {
    budget: Budget,
    metrics: DeliverMetrics,
    bytes: usize,
    records: usize,
    held: usize,
}

impl Share {
    /// Notes what the partition holds now.
    pub(crate) fn set(&mut self, records: usize, bytes: usize, held: usize) {
        if (records, bytes, held) == (self.records, self.bytes, self.held) {
            // Asked in every turn of a partition, and all partitions count in the same place.
            return;
        }
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.metrics.window_bytes.inc_by(signed(bytes) - signed(self.bytes));
        self.metrics.window_records.inc_by(signed(records) - signed(self.records));
        self.metrics.held.inc_by(signed(held) - signed(self.held));
        (self.records, self.bytes, self.held) = (records, bytes, held);
    }

    /// Whether the partition may take more. One that holds nothing always may: else a process whose budget is used up by
    /// stuck partitions would never look at the others.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes == 0 || self.budget.used.load(Ordering::Relaxed) < self.budget.max
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0, 0, 0);
    }
}

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Counts an owned partition, however its owner ends.
pub(crate) struct Owned(DeliverMetrics);

impl Owned {
    pub(crate) fn new(metrics: DeliverMetrics) -> Self {
        metrics.partitions.inc();
        Self(metrics)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.partitions.dec();
    }
}
