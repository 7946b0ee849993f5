//! A deliver service with everything it needs, in a temporary folder.

mod mail;
mod reading;
mod set_up;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mailrail_demo::receiver::{Receiver, ReceiverEndpoint, ReceiverHandle, ReceiverSettings, json_order};
use mailrail_egress::{Egress, EgressConfig, UrlPolicy};
use mailrail_limits::{LeaseStore, Leases, Terms};
use mailrail_log::{LocalLog, Log, StoppedPartitions, TopicSpec};
use mailrail_mailbox::Limits;
use mailrail_policy::{BreakerOptions, RetrySchedule};
use mailrail_store::{Directory, EncryptionKey, Store};
use mailrail_telemetry::Metrics;
use mailrail_testkit::Interposed;
use mailrail_types::{Secret, Timestamp};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cutting::Muted;
use crate::service::Shared;
use crate::{Config, Service};

pub(super) const PARTITIONS: u32 = 2;
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const TOPICS: [&str; 5] = ["deliveries", "journal", "attempts", "dead-letters", "quarantine"];

/// Long enough for something wrong to show, short enough to wait for.
pub(super) fn quick() -> Duration {
    Duration::from_millis(300)
}

pub(super) struct Rig {
    pub(super) receiver: ReceiverHandle,
    pub(super) directory: Arc<Directory>,
    pub(super) metrics: Metrics,
    store: Store,
    pub(super) log: Arc<Interposed<Muted>>,
    pub(super) stopped: StoppedPartitions,
    waits: Vec<Duration>,
    secret: Secret,
    class: &'static str,
    head_max_age: Option<Duration>,
    hand_over: Duration,
    breaker: BreakerOptions,
    limits: (Option<u32>, Option<u32>),
    room: usize,
    attempt_timeout: Duration,
    leases: Option<Arc<dyn LeaseStore>>,
    pub(super) stop_following: CancellationToken,
    _folder: tempfile::TempDir,
}

pub(super) struct Run {
    stop: CancellationToken,
    task: JoinHandle<()>,
    shared: Arc<Shared>,
}

impl Run {
    /// Asks to stop and waits for the drain.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("drained");
    }

    /// How many endpoints' routes are kept.
    pub(super) fn routes(&self) -> usize {
        self.shared.routes.len()
    }

    /// Drops everything at once, as a crash does.
    pub(super) async fn cut(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop_following.cancel();
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(i64::try_from(since.as_millis()).expect("fits"))
}

fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("valid")
}

impl Rig {
    /// Endpoint `main` answers by `script`, endpoint `other` with 200.
    pub(super) async fn start(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let local = LocalLog::open(&folder.path().join("log.db")).expect("log");
        let log = Muted::before(local);
        let topics =
            TOPICS.map(|t| TopicSpec { name: t.to_owned(), partitions: PARTITIONS, retention: None });
        log.ensure_topics(&topics).await.expect("topics");

        let secret = mailrail_sign::secret_from_bytes(&[7; 32]);
        let endpoint = |name: &str, script: &str| ReceiverEndpoint {
            name: name.to_owned(),
            secret: secret.expose().to_owned(),
            behaviour: script.parse().expect("a script"),
        };
        let mut settings = ReceiverSettings::new(vec![endpoint("main", script), endpoint("other", "ok")]);
        settings.order_of = Some(json_order("key", "seq"));
        settings.keep_bodies = true;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let receiver = Receiver::start(listener, settings).expect("receiver");

        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let store = Store::open(&url, EncryptionKey::generate()).await.expect("store");
        let directory = Directory::load(store.clone()).await.expect("directory");
        let stop_following = CancellationToken::new();
        tokio::spawn(directory.clone().follow(stop_following.clone()));
        let rig = Rig {
            receiver,
            directory,
            metrics: Metrics::new(),
            store,
            log: Arc::new(log),
            stopped: StoppedPartitions::default(),
            waits: vec![Duration::from_millis(20); 3],
            secret,
            class: "strict",
            head_max_age: None,
            hand_over: Duration::from_secs(5),
            breaker: BreakerOptions { failures: 0, ..BreakerOptions::default() },
            limits: (None, None),
            room: 16,
            attempt_timeout: ATTEMPT_TIMEOUT,
            leases: None,
            stop_following,
            _folder: folder,
        };
        rig.apply(&["sub"]).await;
        rig
    }

    pub(super) fn with_waits(mut self, waits: Vec<Duration>) -> Self {
        self.waits = waits;
        self
    }

    pub(super) fn with_hand_over(mut self, hand_over: Duration) -> Self {
        self.hand_over = hand_over;
        self
    }

    /// So many attempts at the same time, and a window for four times as many records; each attempt may take for ever.
    pub(super) fn with_room_for_patient(mut self, attempts: usize) -> Self {
        (self.room, self.attempt_timeout) = (attempts, Duration::from_secs(600));
        self
    }

    /// Limits hold over all processes that share this store.
    pub(super) fn with_leases(mut self, store: Arc<dyn LeaseStore>) -> Self {
        self.leases = Some(store);
        self
    }

    pub(super) fn with_breaker(mut self, failures: u32) -> Self {
        let open = Duration::from_millis(200);
        self.breaker =
            BreakerOptions { failures, open_min: open, open_max: open, ..BreakerOptions::default() };
        self
    }

    /// An endpoint that failed once is left alone for so long.
    pub(super) fn with_circuit(mut self, open: Duration) -> Self {
        self.breaker =
            BreakerOptions { failures: 1, open_min: open, open_max: open, ..BreakerOptions::default() };
        self
    }

    pub(super) fn egress() -> Egress {
        let config = EgressConfig { url: UrlPolicy::development(), ..EgressConfig::default() };
        Egress::new(config).expect("egress")
    }

    pub(super) fn run(&self) -> Run {
        self.run_through(Self::egress())
    }

    pub(super) fn run_through(&self, egress: Egress) -> Run {
        self.run_with(self.config(), egress)
    }

    /// Of the pipeline whose topics this rig has.
    pub(super) fn config(&self) -> Config {
        Config {
            deliveries_topic: "deliveries".into(),
            attempts_topic: "attempts".into(),
            dead_letters_topic: "dead-letters".into(),
            quarantine_topic: "quarantine".into(),
            journal_topic: "journal".into(),
            member: "test".to_owned(),
            group: "deliver".into(),
            window: Limits { records_max: 4 * self.room, bytes_max: 1 << 20 },
            bytes_max: 8 << 20,
            attempts_in_flight_max: self.room,
            attempt_timeout: self.attempt_timeout,
            retry: RetrySchedule::list(self.waits.clone()).expect("a schedule"),
            breaker: self.breaker,
            stopped: self.stopped.clone(),
            commit_interval: Duration::from_millis(20),
            hand_over: self.hand_over,
            lease: None,
        }
    }

    /// A process of its own, over the same log and set-up.
    pub(super) fn run_with(&self, config: Config, egress: Egress) -> Run {
        let service = Service::new(
            config,
            self.log.clone(),
            self.directory.clone(),
            egress,
            self.metrics.deliver.clone(),
            Arc::new(now),
        )
        .expect("service");
        let service = match &self.leases {
            Some(store) => {
                let limits = self.metrics.limits.clone();
                service.with_leases(Leases::new(store.clone(), Terms::default(), limits))
            }
            None => service,
        };
        let stop = CancellationToken::new();
        let (token, shared) = (stop.clone(), service.0.clone());
        Run { stop, shared, task: tokio::spawn(async move { service.run(token).await.expect("ran") }) }
    }
}
