//! Stage one on the embedded log and store.

mod answers;
mod appends;
mod following;
mod policies;
mod sizing;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailrail_limits::{LocalWindows, Sizer, Windows};
use mailrail_log::{LocalLog, Log, NewRecord, ORIGIN_HEADER, StoppedPartitions, StoredRecord, TopicSpec};
use mailrail_store::{Directory, EncryptionKey, Store, TenantSetup};
use mailrail_telemetry::Metrics;
use mailrail_testkit::read_topic;
use mailrail_types::*;
use tokio_util::sync::CancellationToken;

use crate::{Config, Service};

const PARTITIONS: u32 = 4;

fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("valid")
}

struct Rig {
    log: Arc<dyn Log>,
    store: Store,
    directory: Arc<Directory>,
    sizer: Sizer,
    metrics: Metrics,
    hand_over: Duration,
    /// By subscription; the default for all others.
    policies: HashMap<&'static str, FilterErrorPolicy>,
    /// Of the app.
    permissions: BTreeSet<String>,
    stop_following: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop_following.cancel();
    }
}

impl Rig {
    async fn start() -> Self {
        Self::start_with(Arc::new(LocalWindows::default())).await
    }

    async fn start_with(windows: Arc<dyn Windows>) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let log = LocalLog::open(&folder.path().join("log.db")).expect("log");
        let topics = ["events", "deliveries", "quarantine"].map(|t| TopicSpec {
            name: t.to_owned(),
            partitions: PARTITIONS,
            retention: None,
        });
        log.ensure_topics(&topics).await.expect("topics");
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let store = Store::open(&url, EncryptionKey::generate()).await.expect("store");
        let directory = Directory::load(store.clone()).await.expect("directory");
        let stop_following = CancellationToken::new();
        tokio::spawn(directory.clone().follow(stop_following.clone()));
        let sizer = Sizer::new(windows, Arc::new(|| Timestamp(7_000)));
        let (log, metrics) = (Arc::new(log), Metrics::new());
        let hand_over = Duration::from_secs(5);
        let (policies, permissions) = (HashMap::new(), BTreeSet::new());
        let _folder = folder;
        Rig {
            log,
            store,
            directory,
            sizer,
            metrics,
            hand_over,
            policies,
            permissions,
            stop_following,
            _folder,
        }
    }

    /// Subscriptions `(id, event type, pattern)`, each to an endpoint of its own name.
    async fn apply(&self, subscriptions: &[(&str, &str, Option<&str>)]) -> u64 {
        let seq = self.save(subscriptions).await;
        self.directory.reached(seq).await;
        seq
    }

    /// As `apply`, without waiting until the directory has it.
    async fn save(&self, subscriptions: &[(&str, &str, Option<&str>)]) -> u64 {
        let endpoint = |(id, _, _): &(&str, &str, Option<&str>)| {
            let (id, app) = (name(id), name("app"));
            Endpoint {
                id,
                app,
                url: "https://receiver.example.com/".to_owned(),
                secrets: Vec::new(),
                headers: Vec::new(),
                class: name("tolerant"),
                timeout: None,
                head_max_age: None,
                max_in_flight: None,
                rate_per_second: None,
                paused: false,
            }
            .into()
        };
        let subscription = |(id, event_type, pattern): &(&str, &str, Option<&str>)| Subscription {
            id: name(id),
            app: name("app"),
            endpoint: name(id),
            event_types: vec![(*event_type).to_owned()],
            filter: pattern
                .map(|text| FilterSource { language: FilterLanguage::Pattern, text: text.to_owned() }),
            on_filter_error: self.policies.get(*id).copied().unwrap_or_default(),
        };
        let setup = TenantSetup {
            apps: vec![App { id: name("app"), name: String::new(), permissions: self.permissions.clone() }],
            endpoints: subscriptions.iter().map(endpoint).collect(),
            subscriptions: subscriptions.iter().map(subscription).collect(),
            ..TenantSetup::new(Tenant { id: name("acme"), name: String::new(), source_class: name("strict") })
        };
        self.store.apply(&[setup], true).await.expect("applied").seq
    }

    fn config(&self) -> Config {
        Config {
            pipeline: "default".into(),
            region: "".into(),
            events_topic: "events".into(),
            deliveries_topic: "deliveries".into(),
            quarantine_topic: "quarantine".into(),
            group: "match".into(),
            partitions: PartitionCount(PARTITIONS.try_into().expect("not zero")),
            delivery_lifetime: Duration::from_secs(60),
            stopped: StoppedPartitions::default(),
            commit_interval: Duration::from_millis(20),
            hand_over: self.hand_over,
        }
    }

    fn run(&self) -> (CancellationToken, tokio::task::JoinHandle<()>) {
        let clock = Arc::new(|| Timestamp(7_000));
        let (log, directory) = (self.log.clone(), self.directory.clone());
        let service = Service::new(self.config(), log, directory, self.sizer.clone(), &self.metrics, clock)
            .expect("service");
        let stop = CancellationToken::new();
        let token = stop.clone();
        (stop, tokio::spawn(async move { service.run(token).await.expect("ran") }))
    }

    /// Runs the stage until the events of partition 0 up to `count` are committed, then stops it.
    async fn run_until(&self, count: u64) {
        let (stop, task) = self.run();
        while self.committed().await < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
        task.await.expect("stopped");
    }

    async fn committed(&self) -> u64 {
        self.log.committed("match", "events", 0).await.expect("committed").map_or(0, |c| c.offset)
    }

    async fn append(&self, value: Bytes) {
        let record = NewRecord { key: Bytes::new(), value, headers: Vec::new() };
        self.log.append("events", 0, vec![record]).await.expect("appended");
    }

    async fn read(&self, topic: &str) -> Vec<StoredRecord> {
        read_topic(&*self.log, topic, PARTITIONS).await
    }

    async fn deliveries(&self) -> Vec<Delivery> {
        let decode = |r: &StoredRecord| mailrail_wire::decode_delivery(&r.value).expect("a delivery");
        self.read("deliveries").await.iter().map(decode).collect()
    }
}

impl Rig {
    /// Who got deliveries, sorted.
    async fn recipients(&self) -> Vec<String> {
        let mut all: Vec<_> =
            self.deliveries().await.iter().map(|d| d.subscription.as_str().to_owned()).collect();
        all.sort();
        all
    }
}

fn event(id: &str, event_type: &str, body: &'static str) -> Event {
    let tenant: TenantId = name("acme");
    Event {
        id: EventId::derive(&tenant, "/s", id),
        tenant,
        attributes: Attributes {
            id: id.into(),
            source: "/s".into(),
            event_type: event_type.into(),
            ..Attributes::default()
        },
        ordering_key: Some("k".into()),
        body: Bytes::from_static(body.as_bytes()),
        trace: None,
        accepted_at: Timestamp(5_000),
        setup_seq: 0,
        forwarded: None,
        unknown: Bytes::new(),
    }
}

/// A18, A06: type first, then the filter; each subscription that wants the event is owed one delivery.
#[tokio::test(flavor = "multi_thread")]
async fn a18_each_subscription_that_wants_it_gets_one_delivery() {
    let rig = Rig::start().await;
    let seq = rig
        .apply(&[
            ("all", "push", None),
            ("main", "push", Some(r#"{"ref":[{"prefix":"refs/heads/"}]}"#)),
            ("tags", "push", Some(r#"{"ref":[{"prefix":"refs/tags/"}]}"#)),
            ("issues", "issue", None),
        ])
        .await;
    let wanted = event("1", "push", r#"{"ref":"refs/heads/main"}"#);
    rig.append(mailrail_wire::encode_event(&wanted)).await;
    rig.append(mailrail_wire::encode_event(&event("2", "star", "{}"))).await;
    rig.run_until(2).await;

    let mut deliveries = rig.deliveries().await;
    deliveries.sort_by_key(|d| d.subscription.clone());
    let subscriptions: Vec<_> = deliveries.iter().map(|d| d.subscription.as_str()).collect();
    assert_eq!(subscriptions, ["all", "main"]);
    let delivery = &deliveries[0];
    assert_eq!(delivery.id, DeliveryId::derive(&wanted.id, &wanted.tenant, &delivery.subscription));
    assert_eq!(delivery.event, wanted, "the event goes on as it came");
    assert_eq!((delivery.setup_seq, delivery.matched_at), (seq, Timestamp(7_000)));
    assert_eq!(delivery.deadline, Timestamp(65_000), "counted from acceptance");
    assert_eq!(rig.metrics.matching.unmatched.get(), 1);
    for record in rig.read("deliveries").await {
        let delivery = mailrail_wire::decode_delivery(&record.value).expect("a delivery");
        assert_eq!(&record.key[..], delivery.mailbox.key().as_str().as_bytes());
    }
}

/// A19: matching the same events again gives the same ids, in the same order.
#[tokio::test(flavor = "multi_thread")]
async fn a19_matching_twice_gives_the_same_deliveries() {
    let rig = Rig::start().await;
    rig.apply(&[("all", "push", None)]).await;
    for n in 0..50 {
        rig.append(mailrail_wire::encode_event(&event(&n.to_string(), "push", "{}"))).await;
    }
    rig.run_until(50).await;
    let first: Vec<_> = rig.deliveries().await.iter().map(|d| d.id).collect();
    assert_eq!(first.len(), 50);
    // Another group starts from the log start, as one does whose commits were lost.
    let mut config = rig.config();
    config.group = "match-again".into();
    let clock = Arc::new(|| Timestamp(9_000));
    let metrics = Metrics::new();
    let service =
        Service::new(config, rig.log.clone(), rig.directory.clone(), rig.sizer.clone(), &metrics, clock)
            .expect("service");
    let stop = CancellationToken::new();
    let token = stop.clone();
    let task = tokio::spawn(async move { service.run(token).await.expect("ran") });
    while rig.deliveries().await.len() < 100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    task.await.expect("stopped");
    let both: Vec<_> = rig.deliveries().await.iter().map(|d| d.id).collect();
    assert_eq!(both[..50], first);
    assert_eq!(both[50..], first);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_event_goes_to_quarantine_and_the_next_is_matched() {
    let rig = Rig::start().await;
    rig.apply(&[("all", "push", None)]).await;
    rig.append(Bytes::from_static(b"\x0a\xff")).await;
    rig.append(mailrail_wire::encode_event(&event("1", "push", "{}"))).await;
    rig.run_until(2).await;
    let quarantined = rig.read("quarantine").await;
    assert_eq!(&quarantined[0].value[..], b"\x0a\xff");
    let origin = quarantined[0].headers.iter().find(|(name, _)| name == ORIGIN_HEADER).expect("origin");
    assert_eq!(&origin.1[..], b"events/0/0");
    assert_eq!(rig.deliveries().await.len(), 1);
}

/// An event accepted under a set-up that this process has not seen yet waits for it: it is never called unwanted.
#[tokio::test(flavor = "multi_thread")]
async fn a10_an_event_is_not_called_unwanted_on_an_older_set_up() {
    let rig = Rig::start().await;
    let early = Event { setup_seq: rig.directory.seq() + 1, ..event("1", "push", "{}") };
    rig.append(mailrail_wire::encode_event(&early)).await;
    let (stop, task) = rig.run();
    // Time for a wrong decision: the partition is owned and the record read well within it.
    while rig.metrics.matching.partitions.get() < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(rig.committed().await, 0);
    rig.apply(&[("all", "push", None)]).await;
    while rig.committed().await < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    task.await.expect("stopped");
    assert_eq!(rig.deliveries().await.len(), 1);
}

/// A wide fan-out of large bodies is appended in bounded parts, in order.
#[tokio::test(flavor = "multi_thread")]
async fn i14_a_wide_fan_out_is_appended_in_bounded_parts() {
    let rig = Rig::start().await;
    let names: Vec<String> = (0..60).map(|n| format!("s{n}")).collect();
    let subscriptions: Vec<_> = names.iter().map(|n| (n.as_str(), "push", None)).collect();
    rig.apply(&subscriptions).await;
    let body = Bytes::from(vec![b'x'; 400 * 1024]);
    for n in 0..2 {
        let large = Event { body: body.clone(), ..event(&n.to_string(), "push", "") };
        rig.append(mailrail_wire::encode_event(&large)).await;
    }
    rig.run_until(2).await;
    let deliveries = rig.deliveries().await;
    assert_eq!(deliveries.len(), 120);
    for name in &names {
        let of: Vec<_> = deliveries
            .iter()
            .filter(|d| d.subscription.as_str() == name)
            .map(|d| &d.event.attributes.id)
            .collect();
        assert_eq!(of, ["0", "1"], "each mailbox in order");
    }
}
