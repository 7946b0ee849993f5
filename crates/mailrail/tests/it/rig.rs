//! An installation under test: mailrail processes, a receiver, a producer, and the books at the end.

use std::collections::{BTreeMap, HashSet};
use std::net::TcpListener as StdListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use indicatif::ProgressBar;
use mailrail_demo::books::{Accepted, Books, Claims, Pipeline, Statement, settle};
use mailrail_demo::receiver::{Receiver, ReceiverEndpoint, ReceiverHandle, ReceiverSettings, json_order};
use mailrail_egress::operator::ApiClient;
use mailrail_log::{KafkaConfig, KafkaLog, LocalLog, Log, StoredRecord, TopicSpec};
use mailrail_types::{Delivery, DeliveryId, EndpointId, EventId, SubscriptionId, TenantId};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::process::{Process, Recipe, binary};
use crate::services;

pub(crate) const PARTITIONS: u32 = 4;
pub(crate) const TENANTS: [&str; 2] = ["acme", "globex"];
pub(crate) const TOKEN: &str = "integration-test-admin-token-0123456789";
/// Longest wait for anything that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Of one producer: slower than the slowest endpoint, so that what waits is what kills made wait.
const BETWEEN_EVENTS: Duration = Duration::from_millis(25);
/// Endpoints of each tenant and how each answers; the delay lets kills hit open requests.
const ENDPOINTS: [(&str, &str); 4] = [
    ("steady", "delay=15,ok"),
    ("flaky", "every=9:503"),
    ("picky", "field=/kind=odd:400"),
    // The only one whose mailboxes tolerate reordering: they are sized by rate.
    (TOLERANT, "ok"),
];
/// The endpoint of class `tolerant`; the others are strict.
pub(crate) const TOLERANT: &str = "wide";

/// Where the parts of an installation are.
pub(crate) enum Place {
    /// `mailrail dev` in this folder.
    Embedded,
    /// A process for each role, and a second deliver, on these services.
    Services { kafka: String, postgres: String },
}

pub(crate) struct Rig {
    pub(crate) processes: Vec<Process>,
    pub(crate) receiver: ReceiverHandle,
    pub(crate) ingest: String,
    control: String,
    admins: Vec<String>,
    place: Place,
    prefix: String,
    /// Of every process.
    env: BTreeMap<String, String>,
    folder: tempfile::TempDir,
}

pub(crate) fn free_port() -> u16 {
    StdListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port()
}

/// A key that is the producer's; long enough, and one for each tenant.
fn key(tenant: &str) -> String {
    format!("integration-test-key-of-tenant-{tenant}")
}

impl Rig {
    pub(crate) async fn start(place: Place) -> Self {
        let redis = matches!(place, Place::Services { .. })
            .then(|| services::address("MAILRAIL_TEST_REDIS"))
            .flatten();
        Self::start_with_redis(place, redis).await
    }

    /// With rates in this Redis; `None`: in each process.
    pub(crate) async fn start_with_redis(place: Place, redis: Option<String>) -> Self {
        Self::start_with(place, redis, &[]).await
    }

    /// With these variables in the environment of every process.
    pub(crate) async fn start_with(place: Place, redis: Option<String>, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let prefix = format!("it-{:08x}.", rand::random::<u32>());
        let (ingest, control) = (free_port(), free_port());
        let mut rig = Rig {
            processes: Vec::new(),
            receiver: start_receiver().await,
            ingest: format!("http://127.0.0.1:{ingest}"),
            control: format!("http://127.0.0.1:{control}"),
            admins: Vec::new(),
            place,
            prefix,
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            folder,
        };
        let settings = rig.settings(ingest, control, redis).await;
        let roles: &[&'static str] = match rig.place {
            Place::Embedded => &["dev"],
            Place::Services { .. } => &["ingest", "match", "deliver", "deliver", "control"],
        };
        for role in roles {
            let recipe = rig.recipe(role, &settings);
            rig.processes.push(Process::start(recipe));
        }
        rig.wait_ready().await;
        rig.apply().await;
        rig
    }

    fn recipe(&mut self, role: &'static str, settings: &Path) -> Recipe {
        let admin = free_port();
        self.admins.push(format!("http://127.0.0.1:{admin}"));
        let mut args = vec![role.to_owned(), "--config".to_owned(), settings.display().to_string()];
        if role == "dev" {
            args.extend(["--data".to_owned(), self.folder.path().join("data").display().to_string()]);
        }
        let mut env = self.env.clone();
        env.extend([
            ("MAILRAIL__ADMIN__LISTEN".to_owned(), format!("127.0.0.1:{admin}")),
            ("MAILRAIL_ADMIN_TOKEN".to_owned(), TOKEN.to_owned()),
            ("MAILRAIL_ENCRYPTION_KEY".to_owned(), "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".to_owned()),
        ]);
        Recipe { name: role, args, env, log: self.folder.path().join(format!("{role}.log")) }
    }

    /// Retries come soon, so that a test ends; the session is as short as the attempt's timeout lets it be.
    async fn settings(&self, ingest: u16, control: u16, redis: Option<String>) -> std::path::PathBuf {
        let mut text = format!(
            "topic_prefix = \"{}\"\n[pipeline]\npartitions = {PARTITIONS}\n\
             [ingest]\nlisten = \"127.0.0.1:{ingest}\"\n[control]\nlisten = \"127.0.0.1:{control}\"\n\
             [deliver]\nattempt_timeout = \"2s\"\ncommit_interval = \"100ms\"\n\
             retry.delays = [\"50ms\", \"100ms\", \"200ms\", \"200ms\"]\n\
             [egress]\nallow_http = true\nallow_cidrs = [\"127.0.0.0/8\"]\n[logs]\nfilter = \"info\"\n",
            self.prefix
        );
        if let Place::Services { kafka, postgres } = &self.place {
            let database = format!("it_{:08x}", rand::random::<u32>());
            create_database(postgres, &database).await;
            let url = postgres.rsplit_once('/').expect("a database").0;
            text += &format!(
                "[store]\nurl = \"{url}/{database}\"\n[log]\nkind = \"kafka\"\n[log.kafka]\nbrokers = [\"{kafka}\"]\n\
                 replication_factor = 1\nmin_insync_replicas = 1\nsession_timeout = \"12s\"\n"
            );
        }
        if let Some(redis) = redis {
            text += &format!("[limits]\nredis = [\"{redis}\"]\n");
        }
        let path = self.folder.path().join("mailrail.toml");
        std::fs::write(&path, text).expect("settings");
        path
    }

    async fn wait_ready(&self) {
        for admin in &self.admins {
            let api = ApiClient::new(admin, None).expect("client");
            let ready = async {
                while api.get("/readyz").await.is_err() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            if tokio::time::timeout(PATIENCE, ready).await.is_err() {
                panic!("{admin} is not ready: {}", self.logs());
            }
        }
    }

    /// The last log lines of every process, for a failure.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        for role in ["dev", "ingest", "match", "deliver", "control"] {
            if let Ok(log) = std::fs::read_to_string(self.folder.path().join(format!("{role}.log"))) {
                let last: Vec<&str> = log.lines().rev().take(15).collect();
                text += &format!("\n--- {role}\n");
                text.extend(last.into_iter().rev().map(|line| format!("{line}\n")));
            }
        }
        text
    }

    async fn apply(&self) {
        let mut text = String::from("version: 1\ntenants:\n");
        for tenant in TENANTS {
            text += &format!(
                "- id: {tenant}\n  keys: [{{id: producer, token: {}}}]\n  apps:\n  - id: app\n    endpoints:\n",
                key(tenant)
            );
            for (name, _) in ENDPOINTS {
                text += &format!(
                    "    - {{id: {name}, url: \"{}\", secret: \"{}\", class: {}}}\n",
                    self.receiver.url(&format!("{tenant}-{name}")),
                    secret(),
                    if name == TOLERANT { "tolerant" } else { "strict" }
                );
            }
            text += "    subscriptions:\n";
            for (name, _) in ENDPOINTS {
                let filter = if name == "flaky" { ", filter: {pattern: {kind: [even, odd]}}" } else { "" };
                text +=
                    &format!("    - {{id: to-{name}, endpoint: {name}, event_types: [numbered]{filter}}}\n");
            }
        }
        let file = self.folder.path().join("setup.yaml");
        std::fs::write(&file, text).expect("set-up file");
        let output = binary()
            .args(["apply", "-f"])
            .arg(&file)
            .args(["--url", &self.control, "--token", TOKEN])
            .output()
            .expect("apply runs");
        assert!(output.status.success(), "apply: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// What the process of each role shows at `/metrics`.
    pub(crate) async fn metrics(&self) -> String {
        let mut text = String::new();
        for admin in &self.admins {
            let address = admin.strip_prefix("http://").expect("an address");
            text += &http_get(address, "/metrics").await;
        }
        text
    }

    /// Posts one event of the first tenant.
    pub(crate) async fn post(&self, id: &str, content_type: &str, body: Bytes) -> EventId {
        let api = ApiClient::new(&self.ingest, Some(&key(TENANTS[0]))).expect("client");
        post_until_accepted(&api, id, content_type, None, body).await
    }

    /// Posts `count` events of one ordering key of the first tenant, one after the other.
    pub(crate) fn produce_key(&self, name: String, count: u64) -> JoinHandle<Vec<Accepted>> {
        let api = ApiClient::new(&self.ingest, Some(&key(TENANTS[0]))).expect("client");
        tokio::spawn(async move {
            let mut accepted = Vec::new();
            for seq in 0..count {
                let id = format!("{name}-{seq}");
                let event =
                    post_until_accepted(&api, &id, "application/json", Some(&name), numbered(&name, seq))
                        .await;
                let tenant = TenantId::new(TENANTS[0]).expect("valid");
                accepted.push(Accepted { event, tenant, sequence: seq, ordering_key: Some(name.clone()) });
            }
            accepted
        })
    }

    /// Runs a command of the operator against the control API.
    pub(crate) fn operate(&self, args: &[&str]) {
        let output = binary()
            .args(args)
            .args(["--url", &self.control, "--token", TOKEN])
            .output()
            .expect("mailrail runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// As [`Rig::operate`]; gives the JSON that it prints.
    pub(crate) fn ask(&self, args: &[&str]) -> serde_json::Value {
        let mut command = binary();
        command.args(args).args(["--output", "json", "--url", &self.control, "--token", TOKEN]);
        let output = command.output().expect("mailrail runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said} {}", self.logs());
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Address of the control API.
    pub(crate) fn control(&self) -> &str {
        &self.control
    }

    /// The folder that everything of it is in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Stops all processes of a role; they are started again with [`Rig::start_again`].
    pub(crate) async fn stop_role(&mut self, role: &str) -> Vec<Recipe> {
        let (stopped, rest): (Vec<Process>, Vec<Process>) =
            std::mem::take(&mut self.processes).into_iter().partition(|p| p.name() == role);
        self.processes = rest;
        let mut recipes = Vec::new();
        for process in stopped {
            recipes.push(process.recipe());
            assert!(process.stop().await.success(), "{role} ends with 0");
        }
        recipes
    }

    pub(crate) fn start_again(&mut self, recipes: Vec<Recipe>) {
        self.processes.extend(recipes.into_iter().map(Process::start));
    }

    /// Every delivery of the deliveries topic, partition by partition.
    pub(crate) async fn deliveries(&self) -> Vec<Delivery> {
        let decode = |r: &StoredRecord| mailrail_wire::decode_delivery(&r.value).expect("delivery");
        self.delivery_records().await.iter().map(decode).collect()
    }

    /// As [`Rig::deliveries`], as they stand there.
    pub(crate) async fn delivery_records(&self) -> Vec<StoredRecord> {
        let (log, topic) = (self.log(), self.pipeline().deliveries.name);
        let readers = log.readers().expect("readers");
        let mut records = Vec::new();
        for partition in 0..PARTITIONS {
            let bounds = log.bounds(&topic, partition).await.expect("bounds");
            let mut reader = readers.open(&topic, partition, bounds.low).expect("reader");
            let mut next = bounds.low;
            while next < bounds.high {
                let batch = reader.next(500).await.expect("records");
                next = batch.last().map_or(next, |r| r.offset + 1);
                records.extend(batch);
            }
        }
        records
    }

    /// Posts events of one tenant until `stop`, each after the one before was accepted, whatever happens to the door
    /// meanwhile.
    pub(crate) fn produce(&self, tenant: &'static str, stop: CancellationToken) -> JoinHandle<Vec<Accepted>> {
        let api = ApiClient::new(&self.ingest, Some(&key(tenant))).expect("client");
        tokio::spawn(async move {
            let mut accepted = Vec::new();
            for seq in 0.. {
                if stop.is_cancelled() {
                    break;
                }
                let event = post_until_accepted(
                    &api,
                    &seq.to_string(),
                    "application/json",
                    None,
                    numbered(tenant, seq),
                )
                .await;
                let tenant = TenantId::new(tenant).expect("valid");
                accepted.push(Accepted { event, tenant, sequence: seq, ordering_key: None });
                tokio::time::sleep(BETWEEN_EVENTS).await;
            }
            accepted
        })
    }

    /// Waits until everything came to its end, and closes the books. An embedded log is read after its process ended.
    pub(crate) async fn close_books(&mut self, accepted: &[Accepted]) -> Statement {
        let expected = expected(accepted);
        if matches!(self.place, Place::Embedded) {
            let dead = accepted.iter().filter(|a| a.sequence % 2 == 1).count();
            let all = expected.len() - dead;
            let done = self.receiver.reached(|r| r.total.delivered as usize >= all);
            if tokio::time::timeout(PATIENCE, done).await.is_err() {
                panic!("not everything arrived: {:?} {}", self.receiver.snapshot(), self.logs());
            }
            // The last dead letters may still be on their way: the drain writes them.
            self.wait_settled().await;
            self.stop_all().await;
        }
        let mut books = Books::read(self.log(), self.pipeline()).await.expect("books");
        settle(&mut books, Some(&expected), PATIENCE, &ProgressBar::hidden()).await.expect("settled");
        let receipts = self.receiver.receipts();
        let names = TENANTS.iter().flat_map(|tenant| ENDPOINTS.map(|(endpoint, _)| (*tenant, endpoint)));
        let strict = names.filter(|(_, endpoint)| *endpoint != TOLERANT);
        let valid = |(tenant, endpoint): (&str, &str)| {
            (TenantId::new(tenant).expect("valid"), EndpointId::new(endpoint).expect("valid"))
        };
        let strict = strict.map(valid).collect();
        books.reconcile(&Claims {
            accepted: Some(accepted),
            // What the tolerant ones get is about no key, and several at a time.
            strict: Some(&strict),
            expected: Some(&expected),
            receipts: Some(&receipts),
            receipts_truncated: self.receiver.snapshot().truncated,
            ..Claims::default()
        })
    }

    /// SIGTERM to every process; each must drain and end with 0.
    pub(crate) async fn stop_all(&mut self) {
        for process in std::mem::take(&mut self.processes) {
            let status = process.stop().await;
            assert!(status.success(), "a drain ended with {status}: {}", self.logs());
        }
    }

    /// Waits until the control API says that nothing is waiting.
    async fn wait_settled(&self) {
        let api = ApiClient::new(&self.control, Some(TOKEN)).expect("client");
        let settled = async {
            loop {
                if let Ok(status) = api.get("/v1/status").await
                    && lag(&status, "deliveries") == Some(0)
                    && lag(&status, "events") == Some(0)
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, settled).await.is_err() {
            panic!("something still waits: {:?} {}", api.get("/v1/status").await, self.logs());
        }
    }

    fn log(&self) -> Arc<dyn Log> {
        match &self.place {
            Place::Embedded => Arc::new(
                LocalLog::open(&self.folder.path().join("data/log/log.db")).expect("the embedded log"),
            ),
            Place::Services { kafka, .. } => {
                let config =
                    KafkaConfig { replication_factor: 1, min_insync_replicas: 1, ..KafkaConfig::new(kafka) };
                Arc::new(KafkaLog::connect(config).expect("kafka"))
            }
        }
    }

    fn pipeline(&self) -> Pipeline {
        let topic = |kind: &str| TopicSpec {
            name: format!("{}{kind}.default", self.prefix),
            partitions: PARTITIONS,
            retention: None,
        };
        Pipeline {
            events: topic("events"),
            deliveries: topic("deliveries"),
            attempts: topic("attempts"),
            dead_letters: topic("dead-letters"),
            match_group: format!("{}match.default", self.prefix),
        }
    }
}

/// What waits in a queue, from the answer of `/v1/status`.
fn lag(status: &serde_json::Value, queue: &str) -> Option<u64> {
    status["pipelines"][0][queue]["waiting"].as_u64()
}

pub(crate) fn secret() -> String {
    format!("whsec_{}", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
}

async fn start_receiver() -> ReceiverHandle {
    let mut endpoints = Vec::new();
    for tenant in TENANTS {
        for (name, script) in ENDPOINTS {
            endpoints.push(ReceiverEndpoint {
                name: format!("{tenant}-{name}"),
                secret: secret(),
                behaviour: script.parse().expect("a script"),
            });
        }
    }
    let mut settings = ReceiverSettings::new(endpoints);
    settings.order_of = Some(json_order("key", "seq"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    Receiver::start(listener, settings).expect("receiver")
}

/// What the set-up wants, told without match: every event goes to all endpoints of its tenant.
fn expected(accepted: &[Accepted]) -> HashSet<DeliveryId> {
    let to = |a: &Accepted| {
        ENDPOINTS.map(|(name, _)| {
            let subscription = SubscriptionId::new(&format!("to-{name}")).expect("valid");
            DeliveryId::derive(&a.event, &a.tenant, &subscription)
        })
    };
    accepted.iter().flat_map(to).collect()
}

fn numbered(tenant: &str, seq: u64) -> Bytes {
    let kind = if seq.is_multiple_of(2) { "even" } else { "odd" };
    Bytes::from(format!(r#"{{"key":"{tenant}","seq":{seq},"kind":"{kind}"}}"#))
}

/// Posts one event, again and again with the same id while the door is away (killed) or busy, or the set-up has not
/// reached it yet.
async fn post_until_accepted(
    api: &ApiClient,
    id: &str,
    content_type: &str,
    partition_key: Option<&str>,
    body: Bytes,
) -> EventId {
    let header = |name: &'static str, value: &str| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
    };
    let mut headers = vec![
        header("ce-specversion", "1.0"),
        header("ce-id", id),
        header("ce-source", "/it"),
        header("ce-type", "numbered"),
        header("content-type", content_type),
    ];
    headers.extend(partition_key.map(|key| header("ce-partitionkey", key)));
    let posted = async {
        loop {
            match api.send(Method::POST, "/v1/events", headers.clone(), body.clone()).await {
                Ok(answer) => return answer["id"].as_str().expect("an id").parse().expect("an event id"),
                Err(error) if error.status.is_none_or(|s| s >= 500 || s == 401) => {}
                Err(error) => panic!("event {id} is refused: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, posted).await.expect("the door comes back")
}

pub(crate) async fn create_database(postgres: &str, name: &str) {
    let output = tokio::process::Command::new("psql")
        .args([postgres, "-qc", &format!("CREATE DATABASE {name}")])
        .output()
        .await
        .expect("psql runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A GET over a bare socket: the pages of the admin port are not JSON.
pub(crate) async fn http_get(address: &str, path: &str) -> String {
    try_get(address, path).await.unwrap_or_else(|error| panic!("{address}{path}: {error}"))
}

/// As [`http_get`], of a process that may not be there.
pub(crate) async fn try_get(address: &str, path: &str) -> std::io::Result<String> {
    try_request(address, "GET", path, &[], b"").await
}

/// One request over a bare socket, just as it is given; gives the whole answer, its head included.
pub(crate) async fn try_request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    head += &format!("content-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    // A body may not be taken to its end: the answer says why, and then the connection breaks.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        Err(error) if answer.is_empty() || body.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}
