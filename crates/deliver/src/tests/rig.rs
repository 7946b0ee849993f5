//! A deliver service with everything it needs, in a temporary folder.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use mailrail_demo::receiver::{Receiver, ReceiverEndpoint, ReceiverHandle, ReceiverSettings, json_order};
use mailrail_egress::{Egress, EgressConfig, UrlPolicy};
use mailrail_log::{Interposed, LocalLog, Log, NewRecord, StoppedPartitions, StoredRecord, TopicSpec};
use mailrail_mailbox::{Kind, Limits};
use mailrail_policy::{BreakerOptions, RetrySchedule};
use mailrail_store::{Directory, EncryptionKey, Store, TenantSetup};
use mailrail_telemetry::Metrics;
use mailrail_types::*;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cutting::Muted;
use crate::service::Shared;
use crate::{Config, Service};

const PARTITIONS: u32 = 2;
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
    stop_following: CancellationToken,
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

    /// The mailboxes of both endpoints tolerate reordering.
    pub(super) async fn tolerant(mut self) -> Self {
        self.class = "tolerant";
        self.apply(&["sub"]).await;
        self
    }

    pub(super) async fn add_subscription(&self, id: &str) {
        self.apply(&["sub", id]).await;
    }

    /// What is tried longer at the head of a strict mailbox is given up.
    pub(super) async fn with_head_max_age(mut self, max: Duration) -> Self {
        self.head_max_age = Some(max);
        self.apply(&["sub"]).await;
        self
    }

    /// At most so many attempts at the same time, and so many a second, of each endpoint.
    pub(super) async fn with_limits(mut self, in_flight: Option<u32>, per_second: Option<u32>) -> Self {
        self.limits = (in_flight, per_second);
        self.apply(&["sub"]).await;
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

    /// Every endpoint gets another secret.
    pub(super) async fn rotate_secret(&mut self) {
        self.secret = mailrail_sign::secret_from_bytes(&[8; 32]);
        self.apply(&["sub"]).await;
    }

    pub(super) async fn pause(&self) {
        let seq = self.store.pause_endpoint(&name("acme"), &name("main"), "test").await.expect("paused");
        self.directory.reached(seq).await;
    }

    pub(super) async fn resume(&self) {
        let seq = self.store.resume_endpoint(&name("acme"), &name("main")).await.expect("resumed");
        self.directory.reached(seq).await;
    }

    /// Deletes the subscription, and with it what is owed to it.
    pub(super) async fn unsubscribe(&self) {
        let setup = TenantSetup { subscriptions: Vec::new(), ..self.setup(&[]) };
        let applied = self.store.apply(&[setup], true).await.expect("applied");
        self.directory.reached(applied.seq).await;
    }

    /// What the journal of partition 0 holds, by kind.
    pub(super) async fn journal(&self) -> Vec<Kind> {
        let entry = |r: &StoredRecord| mailrail_wire::decode_entry(&r.value).expect("entry").0.kind;
        self.read("journal").await.iter().map(entry).collect()
    }

    /// Waits until so much is parked.
    pub(super) async fn wait_held(&self, count: i64) {
        while self.metrics.deliver.held.get() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the group has committed that the first `count` records of partition 0 are done or parked.
    pub(super) async fn wait_passed(&self, count: u64) {
        loop {
            let committed = self.log.committed("deliver", "deliveries", 0).await.expect("committed");
            if committed.is_some_and(|c| c.offset >= count) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A delivery of another mailbox of the same partition, to the endpoint that is always up.
    pub(super) fn other(&self, n: u64) -> Delivery {
        let mut delivery = self.delivery_with_body(&format!("other-{n}"), b"{}");
        delivery.endpoint = name("other");
        delivery.mailbox.endpoint = name("other");
        delivery
    }

    async fn apply(&self, subscriptions: &[&str]) {
        let applied = self.store.apply(&[self.setup(subscriptions)], false).await.expect("applied");
        self.directory.reached(applied.seq).await;
    }

    fn setup(&self, subscriptions: &[&str]) -> TenantSetup {
        let endpoint = |id: &str| Endpoint {
            id: name(id),
            app: name("app"),
            url: self.receiver.url(id),
            secrets: vec![self.secret.clone()],
            headers: vec![("x-team".to_owned(), "pay".to_owned())],
            class: name(self.class),
            timeout: None,
            head_max_age: self.head_max_age,
            max_in_flight: self.limits.0,
            rate_per_second: self.limits.1,
            paused: false,
        };
        let subscription = |id: &&str| Subscription {
            id: name(id),
            app: name("app"),
            endpoint: name("main"),
            event_types: vec!["t".to_owned()],
            filter: None,
            on_filter_error: FilterErrorPolicy::default(),
        };
        TenantSetup {
            apps: vec![App { id: name("app"), name: String::new(), permissions: Default::default() }],
            endpoints: vec![endpoint("main").into(), endpoint("other").into()],
            subscriptions: subscriptions.iter().map(subscription).collect(),
            ..TenantSetup::new(Tenant { id: name("acme"), name: String::new(), source_class: name("strict") })
        }
    }

    pub(super) fn egress() -> Egress {
        let config = EgressConfig { url: UrlPolicy::development(), ..EgressConfig::default() };
        Egress::new(config).expect("egress")
    }

    pub(super) fn run(&self) -> Run {
        self.run_through(Self::egress())
    }

    pub(super) fn run_through(&self, egress: Egress) -> Run {
        let config = Config {
            deliveries_topic: "deliveries".into(),
            attempts_topic: "attempts".into(),
            dead_letters_topic: "dead-letters".into(),
            quarantine_topic: "quarantine".into(),
            journal_topic: "journal".into(),
            member: "test".to_owned(),
            group: "deliver".into(),
            window: Limits { records_max: 64, bytes_max: 1 << 20 },
            bytes_max: 8 << 20,
            attempts_in_flight_max: 16,
            attempt_timeout: ATTEMPT_TIMEOUT,
            retry: RetrySchedule::list(self.waits.clone()).expect("a schedule"),
            breaker: self.breaker,
            stopped: self.stopped.clone(),
            commit_interval: Duration::from_millis(20),
            hand_over: self.hand_over,
            lease: None,
        };
        let service = Service::new(
            config,
            self.log.clone(),
            self.directory.clone(),
            egress,
            self.metrics.deliver.clone(),
            Arc::new(now),
        )
        .expect("service");
        let stop = CancellationToken::new();
        let (token, shared) = (stop.clone(), service.0.clone());
        Run { stop, shared, task: tokio::spawn(async move { service.run(token).await.expect("ran") }) }
    }

    pub(super) fn delivery_with_body(&self, id: &str, body: &[u8]) -> Delivery {
        let tenant: TenantId = name("acme");
        let event = Event {
            id: EventId::derive(&tenant, "/s", id),
            tenant: tenant.clone(),
            attributes: Attributes {
                id: id.into(),
                source: "/s".into(),
                event_type: "t".into(),
                ..Attributes::default()
            },
            ordering_key: None,
            body: Bytes::copy_from_slice(body),
            trace: None,
            accepted_at: now(),
            setup_seq: 0,
            forwarded: None,
            unknown: Bytes::new(),
        };
        let subscription: SubscriptionId = name("sub");
        Delivery {
            id: DeliveryId::derive(&event.id, &tenant, &subscription),
            event,
            app: name("app"),
            subscription,
            endpoint: name("main"),
            mailbox: Mailbox {
                pipeline: "default".into(),
                region: "".into(),
                tenant,
                endpoint: name("main"),
                event_type: None,
                bucket: 0,
            },
            setup_seq: 0,
            matched_at: now(),
            deadline: now().plus(Duration::from_secs(86_400)),
            history: History::default(),
            unknown: Bytes::new(),
        }
    }

    pub(super) fn numbered(&self, n: u64) -> Delivery {
        self.delivery_with_body(&n.to_string(), format!(r#"{{"key":"k","seq":{n}}}"#).as_bytes())
    }

    pub(super) async fn append_numbered(&self, range: Range<u64>) {
        for n in range {
            self.append(self.numbered(n)).await;
        }
    }

    pub(super) async fn append_to_other_partition(&self, range: Range<u64>) {
        for n in range {
            self.append_at(1, mailrail_wire::encode_delivery(&self.other(n))).await;
        }
    }

    pub(super) async fn append(&self, delivery: Delivery) {
        self.append_at(0, mailrail_wire::encode_delivery(&delivery)).await;
    }

    pub(super) async fn append_raw(&self, value: &'static [u8]) {
        self.append_at(0, Bytes::from_static(value)).await;
    }

    pub(super) async fn append_at(&self, partition: u32, value: Bytes) {
        let record = NewRecord { key: Bytes::new(), value, headers: Vec::new() };
        self.log.append("deliveries", partition, vec![record]).await.expect("appended");
    }

    /// Waits until both partitions are owned, the first `count` records of partition 0 are done, and nothing is parked.
    pub(super) async fn wait_done(&self, count: u64) {
        loop {
            let committed = self.log.committed("deliver", "deliveries", 0).await.expect("committed");
            let deliver = &self.metrics.deliver;
            let owned = deliver.partitions.get() == i64::from(PARTITIONS) && deliver.held.get() == 0;
            if owned && committed.is_some_and(|c| c.offset >= count) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until nothing of an owner that was cut is there any more.
    pub(super) async fn wait_nobody(&self) {
        while self.metrics.deliver.partitions.get() != 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until both partitions are owned.
    pub(super) async fn wait_owned(&self) {
        while self.metrics.deliver.partitions.get() < i64::from(PARTITIONS) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// All records of a topic, partition by partition.
    pub(super) async fn read(&self, topic: &str) -> Vec<StoredRecord> {
        let readers = self.log.readers().expect("readers");
        let mut records = Vec::new();
        for partition in 0..PARTITIONS {
            let bounds = self.log.bounds(topic, partition).await.expect("bounds");
            let mut reader = readers.open(topic, partition, bounds.low).expect("reader");
            let mut next = bounds.low;
            while next < bounds.high {
                let batch = reader.next(100).await.expect("records");
                next = batch.last().map_or(next, |r| r.offset + 1);
                records.extend(batch);
            }
        }
        records
    }

    pub(super) async fn attempts(&self) -> Vec<Attempt> {
        self.read("attempts")
            .await
            .iter()
            .map(|r| mailrail_wire::decode_attempt(&r.value).expect("attempt"))
            .collect()
    }

    pub(super) async fn dead_letters(&self) -> Vec<DeadLetter> {
        let decode = |r: &StoredRecord| mailrail_wire::decode_dead_letter(&r.value).expect("letter");
        self.read("dead-letters").await.iter().map(decode).collect()
    }
}
