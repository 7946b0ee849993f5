//! What stage two needs to know.

use std::time::Duration;

use mailrail_log::{LeaseTerms, StoppedPartitions};
use mailrail_mailbox::Limits;
use mailrail_policy::{BreakerOptions, RetrySchedule};

/// Settings of stage two.
#[derive(Debug, Clone)]
pub struct Config {
    /// Deliveries come from here.
    pub deliveries_topic: String,
    /// What happened goes here.
    pub attempts_topic: String,
    /// What was given up goes here.
    pub dead_letters_topic: String,
    /// Records that cannot be understood go here.
    pub quarantine_topic: String,
    /// What waits goes here, and comes back; it has the partitions of the deliveries.
    pub journal_topic: String,
    /// Name of this process in the journal, for people.
    pub member: String,
    /// Consumer group on the deliveries topic.
    pub group: String,
    /// What the window of one partition may hold.
    pub window: Limits,
    /// Bytes that the windows of this process may hold together.
    pub bytes_max: usize,
    /// Attempts of this process that run at the same time.
    pub attempts_in_flight_max: usize,
    /// Total time of one attempt. An endpoint may have a shorter one of its own; a longer one would outlive the session that
    /// the settings were checked against.
    pub attempt_timeout: Duration,
    /// When a failed delivery is tried again.
    pub retry: RetrySchedule,
    /// When an endpoint that fails is left alone for a while.
    pub breaker: BreakerOptions,
    /// Where partitions that stand still are counted.
    pub stopped: StoppedPartitions,
    /// Between two commits.
    pub commit_interval: Duration,
    /// How long running attempts may finish when a partition is revoked or the process stops.
    pub hand_over: Duration,
    /// How long after an accepted commit an attempt may start; `None`: for ever, for logs that take no membership away.
    pub lease: Option<LeaseTerms>,
}

/// Ids of deliveries that a partition remembers to know duplicates: a restarted match appends its last batch again.
pub(crate) const RECENT_IDS: usize = 50_000;

/// Records of the deliveries taken at once. With the ingest limit of 1 MiB it bounds how far a window overshoots its bytes.
pub(crate) const DELIVERIES_MAX: usize = 32;

/// Records of the journal taken at once.
pub(crate) const BATCH_RECORDS_MAX: usize = 256;

/// Entries appended to the journal at once.
pub(crate) const ENTRIES_MAX: usize = 256;

/// Records of attempts appended at once.
pub(crate) const ATTEMPTS_MAX: usize = 256;

/// Steps that are taken in one turn of a partition's loop.
pub(crate) const STEPS_MAX: usize = 64;

/// Mailboxes of a partition that were told to ask again and did not yet. One more asks when its time comes.
pub(crate) const WOKEN_MAX: usize = 1024;
