//! The service: owns partitions of the events topic and runs the pipeline of each.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use mailrail_limits::Sizer;
use mailrail_log::{Log, LogError, OwnOptions, Subject, own_partitions};
use mailrail_store::Directory;
use mailrail_telemetry::{Metrics, Traces};
use mailrail_types::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::catalog::Catalog;
use crate::find_matches::Known;
use crate::follow::Follower;
use crate::partition::Matching;
use crate::pool::Pool;
use crate::table::Table;

/// Most threads that match. There are as many as the process has processors.
const THREADS_MAX: usize = 64;

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
    /// deliveries are stamped with. Starts the threads that match.
    ///
    /// # Errors
    /// [`LogError`] when no client for reading can be made, or no thread.
    pub fn new(
        config: Config,
        log: Arc<dyn Log>,
        directory: Arc<Directory>,
        sizer: Sizer,
        metrics: &Metrics,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Result<Self, LogError> {
        let readers = log.readers()?;
        let threads = available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
        let pool = Pool::start(threads)
            .map_err(|error| LogError::Config(format!("no threads to match on: {error}; allow more")))?;
        let matching = Matching {
            config: Arc::new(config),
            log,
            readers,
            known: Known { directory, table: Arc::new(Table::default()), traces: Traces::off() },
            pool,
            sizer,
            metrics: metrics.matching.clone(),
            mailboxes: metrics.mailbox.clone(),
            clock,
        };
        Ok(Self { matching: Arc::new(matching) })
    }

    /// With traces of what it matches. Without it there are none.
    #[must_use]
    pub fn with_traces(mut self, traces: Traces) -> Self {
        if let Some(matching) = Arc::get_mut(&mut self.matching) {
            matching.known.traces = traces;
        }
        self
    }

    /// Works until `stop`; then every partition finishes what it has read and the group is left.
    ///
    /// # Errors
    /// [`LogError`] when the group cannot be joined.
    pub async fn run(self, stop: CancellationToken) -> Result<(), LogError> {
        let Matching { config, known: Known { directory, table, .. }, .. } = &*self.matching;
        let subject = Subject { topic: config.events_topic.clone(), group: config.group.clone() };
        let options = OwnOptions {
            commit_interval: config.commit_interval,
            hand_over: config.hand_over,
            // Nothing of this stage leaves the log, where a delivery appended twice is known by its id.
            lease: None,
            stopped: config.stopped.clone(),
        };
        // Before the first event: a table that knows of nobody would call it unwanted.
        let catalog = Catalog::new(directory.clone(), table.clone());
        let follower = Follower::start(directory, catalog).await;
        let owning = own_partitions(self.matching.log.clone(), subject, self.matching.clone(), options, stop);
        tokio::select! {
            owned = owning => owned,
            () = follower.run() => Ok(()),
        }
    }
}
