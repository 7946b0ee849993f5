//! How long things of leases last.

use std::time::Duration;

/// Times of leases. The same in all processes that share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// A lease that is not renewed lives this long: what a killed process held is free by then.
    pub term: Duration,
    /// Between two renewals. Less than half of `term`, so that one may fail.
    pub renew_every: Duration,
    /// How long a delivery that asks for a lease waits for the store before it is held.
    pub ask_budget: Duration,
    /// How long the store may take before it counts as away. Nobody waits that long.
    pub answer_within: Duration,
    /// Between two tries while the store is away.
    pub retry_after: Duration,
    /// Between two asks of a process whose deliveries wait for a lease.
    pub poll_every: Duration,
    /// How long such a process keeps its place before others without asking: some polls.
    pub queue_for: Duration,
    /// How long a lease may go from one delivery to the next without the store, when there are other processes.
    pub reuse_for: Duration,
    /// How long a free lease is kept for the next delivery, when there are other processes.
    pub keep_for: Duration,
    /// As `keep_for`, for a process that is alone.
    pub keep_alone_for: Duration,
    /// When a delivery that waits asks again, should nobody wake it.
    pub ask_again: Duration,
    /// Between two signs of life.
    pub beat_every: Duration,
    /// How long a sign of life lasts.
    pub alive_for: Duration,
}

impl Default for Terms {
    /// 15 s a lease, renewed every 5 s; a sign of life every 5 s that lasts 15 s.
    fn default() -> Self {
        Self {
            term: Duration::from_secs(15),
            renew_every: Duration::from_secs(5),
            ask_budget: Duration::from_millis(50),
            answer_within: Duration::from_millis(500),
            retry_after: Duration::from_secs(1),
            poll_every: Duration::from_millis(50),
            queue_for: Duration::from_millis(500),
            reuse_for: Duration::from_millis(500),
            keep_for: Duration::from_millis(50),
            keep_alone_for: Duration::from_secs(1),
            ask_again: Duration::from_secs(1),
            beat_every: Duration::from_secs(5),
            alive_for: Duration::from_secs(15),
        }
    }
}
