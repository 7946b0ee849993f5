//! The service: owns partitions of the deliveries topic and works through the mailboxes of each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mailrail_egress::Egress;
use mailrail_limits::{Leases, LocalLeases, Terms};
use mailrail_log::{Claim, Log, LogError, OwnOptions, Owner, Owning, Readers, Subject, own_partitions};
use mailrail_store::Directory;
use mailrail_telemetry::{DeliverMetrics, Metrics, Traces};
use mailrail_types::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::budget::Budget;
use crate::cut::CutAttempts;
use crate::gate::Gates;
use crate::partition::Partition;
use crate::permit::Permits;
use crate::places::Places;
use crate::route::Routes;

/// How long after a change of the set-up what follows from the one before is forgotten; attempts that looked it up have used it by
/// then, and many changes cost no more than one.
const FORGET_AFTER: Duration = Duration::from_secs(1);
/// The least that the rest of a released partition takes beyond its longest attempt: what a timer is late.
const REST_MARGIN: Duration = Duration::from_secs(1);

/// What all partitions of a process share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) log: Arc<dyn Log>,
    /// For the deliveries.
    pub(crate) readers: Box<dyn Readers>,
    /// For the ends of the journals.
    pub(crate) journals: Box<dyn Readers>,
    /// For what is read of the journals again.
    pub(crate) backlogs: Box<dyn Readers>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) egress: Egress,
    pub(crate) permits: Permits,
    pub(crate) places: Arc<Places>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) routes: Routes,
    pub(crate) cut: CutAttempts,
    /// Unlike that of any other run of the program, and never 0: says in a claim whether the owner before has died.
    pub(crate) process: u64,
    pub(crate) budget: Budget,
    pub(crate) metrics: DeliverMetrics,
    pub(crate) traces: Traces,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// A random number in `0.0..1.0`, for jitter.
    #[allow(
        clippy::unused_self,
        reason = "randomness is asked for where time is, so that both have one owner"
    )]
    pub(crate) fn unit_random(&self) -> f64 {
        rand::random::<f64>()
    }
}

/// Stage two.
pub struct Service(pub(crate) Arc<Shared>);

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Service {
    /// A service over a log, the view of what tenants set up, and the way out. `clock` gives wall-clock time.
    ///
    /// # Errors
    /// [`LogError`] when no client for reading can be made.
    pub fn new(
        config: Config,
        log: Arc<dyn Log>,
        directory: Arc<Directory>,
        egress: Egress,
        metrics: DeliverMetrics,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Result<Self, LogError> {
        let (readers, journals, backlogs) = (log.readers()?, log.readers()?, log.readers()?);
        let permits = Permits::new(config.attempts_in_flight_max, metrics.clone());
        let leases = Leases::new(Arc::new(LocalLeases::new()), Terms::default(), Metrics::new().limits);
        let gates = Gates::new(config.breaker, leases);
        let budget = Budget::new(config.bytes_max);
        let places = Places::new(config.attempts_in_flight_max);
        Ok(Self(Arc::new(Shared {
            config,
            log,
            readers,
            journals,
            backlogs,
            directory,
            egress,
            permits,
            places,
            gates,
            routes: Routes::default(),
            cut: CutAttempts::default(),
            process: rand::random::<u64>().max(1),
            budget,
            metrics,
            traces: Traces::off(),
            clock,
        })))
    }

    /// With limits of attempts at a time that hold over all processes that share the store of `leases`. Without it they hold
    /// for this process. Runs them.
    #[must_use]
    pub fn with_leases(mut self, leases: Leases) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.gates = Gates::new(shared.config.breaker, leases);
        }
        self
    }

    /// With traces of its attempts. Without it there are none.
    #[must_use]
    pub fn with_traces(mut self, traces: Traces) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.traces = traces;
        }
        self
    }

    /// Works until `stop`; then running attempts finish within the hand-over time and the group is left.
    ///
    /// # Errors
    /// [`LogError`] when the group cannot be joined.
    pub async fn run(self, stop: CancellationToken) -> Result<(), LogError> {
        let config = &self.0.config;
        let subject = Subject { topic: config.deliveries_topic.clone(), group: config.group.clone() };
        let options = OwnOptions {
            commit_interval: config.commit_interval,
            hand_over: config.hand_over,
            lease: config.lease,
            stopped: config.stopped.clone(),
        };
        let (leases, ended) = (self.0.gates.leases().clone(), CancellationToken::new());
        let forgetting = forget_old_routes(self.0.clone(), ended.clone());
        let work = async {
            let log = self.0.log.clone();
            let result = own_partitions(log, subject, Arc::new(Partitions(self.0)), options, stop).await;
            ended.cancel();
            result
        };
        tokio::join!(work, leases.run(ended.clone()), forgetting).0
    }
}

/// Keeps no keys of endpoints that are gone, or of secrets that were changed.
async fn forget_old_routes(shared: Arc<Shared>, ended: CancellationToken) {
    let mut changes = shared.directory.changes();
    let forgetting = async {
        while changes.changed().await.is_ok() {
            tokio::time::sleep(FORGET_AFTER).await;
            changes.mark_unchanged();
            shared.routes.forget_old(&shared.directory);
        }
        // Nobody changes the set-up any more.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = forgetting => {}
        () = ended.cancelled() => {}
    }
}

struct Partitions(Arc<Shared>);

#[async_trait]
impl Owner for Partitions {
    async fn own(&self, claim: Claim) -> Owning {
        // The lease is of the member: that of the first claim is that of all.
        let lease = claim.lease.clone();
        self.0.egress.ask_before_sending(move || lease.holds(Instant::now()));
        Partition::own(self.0.clone(), claim).await
    }

    fn rest_max(&self) -> Duration {
        self.0.config.attempt_timeout + REST_MARGIN
    }

    async fn rest(&self, partition: u32) {
        let now = self.0.now();
        if let Some(until) = self.0.cut.over_by(partition, now) {
            tracing::info!(partition, "waiting for attempts that were cut and not handed over");
            tokio::time::sleep(until.since(now)).await;
        }
    }
}
