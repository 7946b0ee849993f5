//! The service: owns partitions of the events topic and runs the pipeline of each.

use std::sync::Arc;

use mailrail_limits::Sizer;
use mailrail_log::{Log, LogError, OwnOptions, Subject, own_partitions};
use mailrail_store::Directory;
use mailrail_telemetry::Metrics;
use mailrail_types::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::filters::Filters;
use crate::partition::Matching;

/// Reads the wall clock; an argument, so that tests own time.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Stage one.
pub struct Service {
    matching: Arc<Matching>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    /// A service over a log, the view of what tenants set up, and the sizer of mailboxes. `clock` gives the time that
    /// deliveries are stamped with.
    ///
    /// # Errors
    /// [`LogError`] when no client for reading can be made.
    pub fn new(
        config: Config,
        log: Arc<dyn Log>,
        directory: Arc<Directory>,
        sizer: Sizer,
        metrics: &Metrics,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Result<Self, LogError> {
        let readers = log.readers()?;
        let matching = Matching {
            config,
            log,
            readers,
            directory,
            filters: Filters::default(),
            sizer,
            metrics: metrics.matching.clone(),
            mailboxes: metrics.mailbox.clone(),
            clock,
        };
        Ok(Self { matching: Arc::new(matching) })
    }

    /// Works until `stop`; then every partition finishes its batch and the group is left.
    ///
    /// # Errors
    /// [`LogError`] when the group cannot be joined.
    pub async fn run(self, stop: CancellationToken) -> Result<(), LogError> {
        let config = &self.matching.config;
        let subject = Subject { topic: config.events_topic.clone(), group: config.group.clone() };
        let options = OwnOptions {
            commit_interval: config.commit_interval,
            hand_over: config.hand_over,
            // Nothing of this stage leaves the log, where a delivery appended twice is known by its id.
            lease: None,
            stopped: config.stopped.clone(),
        };
        own_partitions(self.matching.log.clone(), subject, self.matching, options, stop).await
    }
}
