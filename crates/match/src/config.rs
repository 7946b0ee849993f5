//! What stage one needs to know.

use std::sync::Arc;
use std::time::Duration;

use mailrail_log::StoppedPartitions;
use mailrail_types::PartitionCount;

/// Settings of stage one.
#[derive(Debug, Clone)]
pub struct Config {
    /// The pipeline, as mailbox names carry it.
    pub pipeline: Arc<str>,
    /// The region that mailbox names carry; empty where there is one.
    pub region: Arc<str>,
    /// Events come from here.
    pub events_topic: String,
    /// Deliveries go here.
    pub deliveries_topic: String,
    /// Records that cannot be understood go here.
    pub quarantine_topic: String,
    /// Consumer group on the events topic.
    pub group: String,
    /// Pinned partitions of the deliveries topic.
    pub partitions: PartitionCount,
    /// How long a delivery is owed, from the acceptance of its event.
    pub delivery_lifetime: Duration,
    /// Where partitions that stand still are counted.
    pub stopped: StoppedPartitions,
    /// Between two commits.
    pub commit_interval: Duration,
    /// How long a partition may finish its batch when it is revoked.
    pub hand_over: Duration,
}

/// Records of one batch. Bounds the work between two looks at the stop signal.
pub(crate) const BATCH_RECORDS_MAX: usize = 1_000;
