//! Deliver processes under test: a topic to fill, a receiver, processes to maltreat, and the history at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use mailrail_demo::receiver::{Receiver, ReceiverEndpoint, ReceiverHandle, ReceiverSettings, json_order};
use mailrail_egress::operator::ApiClient;
use mailrail_log::{KafkaConfig, KafkaLog, Log};
use tokio::net::TcpListener;

use crate::feed::{Claims, Ends, Feeder, TENANT, Tail};
use crate::history::{Budget, History, Seen, Verdict};
use crate::process::{Process, Recipe, binary};
use crate::rig::{TOKEN, create_database, free_port, secret, try_get};
use crate::services;

/// Longest wait for anything that must come. A test that waits longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two looks at the commits.
const COMMITS_EVERY: Duration = Duration::from_millis(250);
/// Receipts of the longest run.
const RECEIPTS_MAX: usize = 4_000_000;

/// Whether runs are as long as a nightly one may be.
pub(crate) fn is_long() -> bool {
    std::env::var("MAILRAIL_TEST_LONG").as_deref() == Ok("1")
}

/// The first in CI, the second in the long run.
pub(crate) fn sized<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Waits until `holds`; panics with `what` when that takes too long.
pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, what, holds).await;
}

/// As [`until`], for at most `cap`.
pub(crate) async fn until_within(cap: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !holds().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(cap, reached).await.is_ok(), "it never came to this: {what}");
}

/// An endpoint: its name, how it answers, and the class of its mailboxes.
pub(crate) type Recipient = (&'static str, &'static str, &'static str);

/// What a fleet is made of.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) recipients: Vec<Recipient>,
    pub(crate) partitions: u32,
    pub(crate) delivers: usize,
    pub(crate) retry_delays: &'static str,
    /// Seconds that an attempt may take; the session is as short as that lets it be.
    pub(crate) attempt_seconds: u32,
    /// More lines of `[deliver]`.
    pub(crate) deliver: &'static str,
    /// Brokers, when they are not the ones that all tests share; and how many copies there are.
    pub(crate) brokers: Option<String>,
    pub(crate) copies: u16,
}

impl Plan {
    pub(crate) fn new(recipients: &[Recipient]) -> Self {
        Self {
            recipients: recipients.to_vec(),
            partitions: 4,
            delivers: 1,
            retry_delays: r#"["50ms", "100ms", "200ms", "200ms"]"#,
            attempt_seconds: 2,
            deliver: "",
            brokers: None,
            copies: 1,
        }
    }
}

/// A process and where it is asked how it is.
pub(crate) struct Member {
    pub(crate) process: Process,
    pub(crate) admin: String,
}

pub(crate) struct Fleet {
    pub(crate) plan: Plan,
    pub(crate) members: Vec<Member>,
    /// Kept alive.
    others: Vec<Member>,
    pub(crate) receiver: ReceiverHandle,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) prefix: String,
    pub(crate) control: String,
    settings: PathBuf,
    folder: tempfile::TempDir,
    commits: Commits,
}

/// Offsets that the group had committed, by partition, as they are looked at.
type Commits = Arc<Mutex<BTreeMap<u32, Vec<u64>>>>;

impl Fleet {
    /// Starts everything and applies the set-up. `None`, said aloud, without services.
    pub(crate) async fn start(plan: Plan) -> Option<Self> {
        let kafka = plan.brokers.clone().or_else(|| services::address("MAILRAIL_TEST_KAFKA"))?;
        let postgres = services::address("MAILRAIL_TEST_POSTGRES")?;
        let folder = tempfile::tempdir().expect("folder");
        let prefix = format!("fleet-{:08x}.", rand::random::<u32>());
        let control = free_port();
        let settings = settings(&plan, &kafka, &postgres, &prefix, control).await;
        let path = folder.path().join("mailrail.toml");
        std::fs::write(&path, settings).expect("settings");
        let config = KafkaConfig {
            replication_factor: plan.copies,
            min_insync_replicas: plan.copies.saturating_sub(1).max(1),
            session_timeout: Duration::from_secs(12),
            ..KafkaConfig::new(&kafka)
        };
        let log: Arc<dyn Log> = Arc::new(KafkaLog::connect(config).expect("kafka"));
        let mut fleet = Self {
            members: Vec::new(),
            others: Vec::new(),
            receiver: start_receiver(&plan).await,
            commits: watch_commits(log.clone(), &prefix, plan.partitions),
            log,
            prefix,
            control: format!("http://127.0.0.1:{control}"),
            settings: path,
            folder,
            plan,
        };
        fleet.make_topics().await;
        fleet.apply_recipients().await;
        for _ in 0..fleet.plan.delivers {
            fleet.add();
        }
        fleet.wait_all_ready().await;
        Some(fleet)
    }

    fn member(&self, role: &'static str) -> Member {
        let admin = free_port();
        let env = BTreeMap::from([
            ("MAILRAIL__ADMIN__LISTEN".to_owned(), format!("127.0.0.1:{admin}")),
            ("MAILRAIL_ADMIN_TOKEN".to_owned(), TOKEN.to_owned()),
            ("MAILRAIL_ENCRYPTION_KEY".to_owned(), "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".to_owned()),
        ]);
        let args = vec![role.to_owned(), "--config".to_owned(), self.settings.display().to_string()];
        let recipe = Recipe { name: role, args, env, log: self.folder.path().join(format!("{role}.log")) };
        Member { process: Process::start(recipe), admin: format!("127.0.0.1:{admin}") }
    }

    /// Starts one more deliver process.
    pub(crate) fn add(&mut self) {
        let member = self.member("deliver");
        self.members.push(member);
    }

    /// SIGTERM to the `count` deliver processes that were started first; each must end with 0.
    pub(crate) async fn stop(&mut self, count: usize) {
        let stops = self.members.drain(..count).map(|member| member.process.stop());
        for status in futures::future::join_all(stops).await {
            assert!(status.success(), "a drain ended with {status}: {}", self.logs());
        }
    }

    pub(crate) async fn wait_all_ready(&self) {
        self.wait_ready(&self.members).await;
    }

    async fn wait_ready(&self, members: &[Member]) {
        for member in members {
            let api = ApiClient::new(&format!("http://{}", member.admin), None).expect("client");
            let what = format!("{} is ready: {}", member.process.name(), self.logs());
            until(&what, async || api.get("/readyz").await.is_ok()).await;
        }
    }

    /// The last log lines of every role, for a failure.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        for role in ["control", "deliver"] {
            if let Ok(log) = std::fs::read_to_string(self.folder.path().join(format!("{role}.log"))) {
                let last: Vec<&str> = log.lines().rev().take(40).collect();
                text += &format!("\n--- {role}\n");
                text.extend(last.into_iter().rev().map(|line| format!("{line}\n")));
            }
        }
        text
    }

    async fn apply_recipients(&self) {
        let urls: Vec<(Recipient, String)> =
            self.plan.recipients.iter().map(|it| (*it, self.receiver.url(it.0))).collect();
        self.apply(&urls).await;
    }

    /// Applies the set-up with these URLs.
    pub(crate) async fn apply(&self, recipients: &[(Recipient, String)]) {
        let mut text = format!(
            "version: 1\ntenants:\n- id: {TENANT}\n  keys: [{{id: producer, token: {PRODUCER_KEY}}}]\n  apps:\n  - id: app\n    endpoints:\n"
        );
        for ((name, _, class), url) in recipients {
            text +=
                &format!("    - {{id: {name}, url: \"{url}\", secret: \"{}\", class: {class}}}\n", secret());
        }
        text += "    subscriptions:\n";
        for ((name, _, _), _) in recipients {
            text += &format!("    - {{id: to-{name}, endpoint: {name}, event_types: [numbered]}}\n");
        }
        let file = self.folder.path().join("setup.yaml");
        std::fs::write(&file, text).expect("set-up file");
        self.operate(&["apply", "-f", file.to_str().expect("a path")]).await;
    }

    /// The settings that every process has.
    pub(crate) fn settings(&self) -> &std::path::Path {
        &self.settings
    }

    /// Runs a command of the operator against the control API.
    pub(crate) async fn operate(&self, args: &[&str]) {
        let mut command = tokio::process::Command::from(binary());
        let output = command.args(args).args(["--url", &self.control, "--token", TOKEN]).output().await;
        let output = output.expect("mailrail runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Asks the control API.
    pub(crate) async fn control(&self, method: Method, path: &str) -> serde_json::Value {
        let api = ApiClient::new(&self.control, Some(TOKEN)).expect("client");
        let answer = api.send(method, path, Vec::new(), bytes::Bytes::new()).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error} {}", self.logs()))
    }

    pub(crate) fn topic(&self, kind: &str) -> String {
        format!("{}{kind}.default", self.prefix)
    }

    pub(crate) fn group(&self) -> String {
        self.topic("deliver")
    }

    pub(crate) fn feeder(&self) -> Feeder {
        let strict = self.plan.recipients.iter();
        let strict = strict.map(|(name, _, class)| ((*name).to_owned(), *class == "strict")).collect();
        Feeder::new(self.log.clone(), self.topic("deliveries"), self.plan.partitions, strict)
    }

    pub(crate) fn tail(&self, kind: &str) -> Tail {
        Tail::new(self.log.clone(), self.topic(kind), self.plan.partitions)
    }

    pub(crate) fn ends(&self) -> Ends {
        Ends::new(self.tail("attempts"), self.tail("dead-letters"))
    }

    pub(crate) async fn claims(&self) -> Claims {
        Claims::read(self.tail("journal")).await
    }

    /// What one process shows at `/metrics` or `/readyz`; empty when it does not answer (yet).
    pub(crate) async fn page(&self, member: usize, path: &str) -> String {
        try_get(&self.members[member].admin, path).await.unwrap_or_default()
    }

    /// A gauge or counter without labels, of one process; 0 when it does not answer.
    pub(crate) async fn metric_of(&self, member: usize, name: &str) -> i64 {
        let text = self.page(member, "/metrics").await;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// The same, summed over the deliver processes.
    pub(crate) async fn metric(&self, name: &str) -> i64 {
        let each = (0..self.members.len()).map(|member| self.metric_of(member, name));
        futures::future::join_all(each).await.into_iter().sum()
    }

    /// Waits until every partition has an owner that works.
    pub(crate) async fn wait_owned(&self) {
        let all = i64::from(self.plan.partitions);
        let what = "every partition is owned";
        until(what, async || self.metric("mailrail_deliver_partitions").await == all).await;
    }

    /// Waits until requests were received, told by all endpoints together.
    pub(crate) async fn wait_received(&self, requests: u64) {
        let reached = self.receiver.reached(|report| report.total.received >= requests);
        if tokio::time::timeout(PATIENCE, reached).await.is_err() {
            panic!("{requests} requests never came: {:?} {}", self.receiver.snapshot(), self.logs());
        }
    }

    /// The offsets that the group has committed, and the ends of the partitions.
    pub(crate) async fn progress(&self) -> Vec<(u64, u64)> {
        let (group, topic) = (self.group(), self.topic("deliveries"));
        let mut progress = Vec::new();
        for partition in 0..self.plan.partitions {
            let committed = self.log.committed(&group, &topic, partition).await.expect("an answer");
            let high = self.log.bounds(&topic, partition).await.expect("bounds").high;
            progress.push((committed.map_or(0, |it| it.offset), high));
        }
        progress
    }

    /// Waits until every delivery has an end, ends the processes, and judges the whole history.
    pub(crate) async fn close(mut self, feeders: Vec<Feeder>, budget: &Budget) -> Verdict {
        let owed: Vec<_> = feeders.into_iter().flat_map(|feeder| feeder.owed).collect();
        let mut ends = self.ends();
        self.wait_ended(&mut ends, owed.len()).await;
        self.stop(self.members.len()).await;
        let commits = self.commits.lock().expect("not poisoned").clone();
        ends.catch_up().await;
        let seen = self.receiver.receipts().into_iter();
        let seen = seen.map(|receipt| Seen {
            accepted: receipt.is_accepted(),
            verified: receipt.verified,
            id: receipt.webhook_id,
        });
        let history = History { owed, seen: seen.collect(), ends: ends.of, commits };
        let verdict = history.check(budget);
        assert!(!self.receiver.snapshot().truncated, "every receipt was kept");
        println!(
            "owed {} received {} duplicates {} {:?} of {budget:?}",
            verdict.owed, verdict.received, verdict.duplicates, verdict.duplicates_of
        );
        let some: Vec<_> = verdict.faults.iter().take(20).collect();
        assert!(some.is_empty(), "{} faults: {some:#?} {}", verdict.faults.len(), self.logs());
        verdict
    }

    /// Waits until that many deliveries have an end.
    pub(crate) async fn wait_ended(&self, ends: &mut Ends, count: usize) {
        let (mut before, mut since) = (0, tokio::time::Instant::now());
        loop {
            ends.catch_up().await;
            if ends.of.len() >= count {
                return;
            }
            if ends.of.len() > before {
                (before, since) = (ends.of.len(), tokio::time::Instant::now());
            }
            let stuck = since.elapsed() > PATIENCE;
            assert!(!stuck, "{before} of {count} deliveries have an end, and no more come: {}", self.logs());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What was committed up to now is of a group that forgot it.
    pub(crate) fn forget_commits(&self) {
        self.commits.lock().expect("not poisoned").clear();
    }

    /// Starts the control process again, which makes the topics that are not there.
    pub(crate) async fn make_topics(&mut self) {
        self.others.clear();
        let control = self.member("control");
        self.wait_ready(std::slice::from_ref(&control)).await;
        self.others.push(control);
    }
}

impl Drop for Fleet {
    /// Of a test that failed, the logs of the processes stay.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            println!("the logs stay in {}", self.folder.path().display());
        }
    }
}

/// What the settings ask for.
const SESSION_BEYOND_ATTEMPT: u32 = 10;
/// The key of whoever posts events.
pub(crate) const PRODUCER_KEY: &str = "integration-test-key-of-the-producer";

/// The session is as short as the attempt's timeout lets it be: what a kill takes away comes back within it.
async fn settings(plan: &Plan, kafka: &str, postgres: &str, prefix: &str, control: u16) -> String {
    let database = format!("fleet_{:08x}", rand::random::<u32>());
    create_database(postgres, &database).await;
    let store = postgres.rsplit_once('/').expect("a database").0;
    let brokers: Vec<String> = kafka.split(',').map(|broker| format!("\"{broker}\"")).collect();
    let (copies, in_sync) = (plan.copies, plan.copies.saturating_sub(1).max(1));
    let Plan { partitions, retry_delays, deliver, attempt_seconds, .. } = plan;
    let session_seconds = attempt_seconds + SESSION_BEYOND_ATTEMPT;
    format!(
        "topic_prefix = \"{prefix}\"\n[pipeline]\npartitions = {partitions}\n\
         [control]\nlisten = \"127.0.0.1:{control}\"\n\
         [deliver]\nattempt_timeout = \"{attempt_seconds}s\"\ncommit_interval = \"100ms\"\nretry.delays = {retry_delays}\n{deliver}\n\
         [egress]\nallow_http = true\nallow_cidrs = [\"127.0.0.0/8\"]\n[logs]\nfilter = \"info\"\n\
         [store]\nurl = \"{store}/{database}\"\n[log]\nkind = \"kafka\"\n[log.kafka]\nbrokers = [{}]\n\
         replication_factor = {copies}\nmin_insync_replicas = {in_sync}\nsession_timeout = \"{session_seconds}s\"\n",
        brokers.join(", ")
    )
}

async fn start_receiver(plan: &Plan) -> ReceiverHandle {
    let endpoints = plan.recipients.iter().map(|(name, script, _)| ReceiverEndpoint {
        name: (*name).to_owned(),
        secret: secret(),
        behaviour: script.parse().expect("a script"),
    });
    let mut settings = ReceiverSettings::new(endpoints.collect());
    settings.order_of = Some(json_order("key", "seq"));
    settings.receipts_max = RECEIPTS_MAX;
    settings.deliveries_max = RECEIPTS_MAX;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    Receiver::start(listener, settings).expect("receiver")
}

/// Notes what the group has committed, as long as anybody wants to know.
fn watch_commits(log: Arc<dyn Log>, prefix: &str, partitions: u32) -> Commits {
    let commits = Commits::default();
    let noted = Arc::downgrade(&commits);
    let (group, topic) = (format!("{prefix}deliver.default"), format!("{prefix}deliveries.default"));
    tokio::spawn(async move {
        while noted.strong_count() > 0 {
            for partition in 0..partitions {
                let Ok(Some(committed)) = log.committed(&group, &topic, partition).await else { continue };
                let Some(commits) = noted.upgrade() else { return };
                let mut commits = commits.lock().expect("not poisoned");
                let seen = commits.entry(partition).or_default();
                if seen.last() != Some(&committed.offset) {
                    seen.push(committed.offset);
                }
            }
            tokio::time::sleep(COMMITS_EVERY).await;
        }
    });
    commits
}
