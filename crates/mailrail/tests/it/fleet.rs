//! Deliver processes under test: a topic to fill, a receiver, processes to maltreat, and the history at the end.

mod commits;
mod end;
mod patience;
mod plan;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use mailrail_demo::receiver::ReceiverHandle;
use mailrail_egress::operator::ApiClient;
use mailrail_log::{KafkaConfig, KafkaLog, Log};

use crate::feed::{Claims, Ends, Feeder, TENANT, Tail};
use crate::process::{Process, Recipe, binary, last_lines};
use crate::rig::{TOKEN, free_port, secret, try_get};
use crate::services;

use commits::{Commits, watch_commits};
pub(crate) use patience::{PATIENCE, sized, until, until_within};
pub(crate) use plan::{PRODUCER_KEY, Plan, Recipient};
use plan::{settings, start_receiver};

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
        let mut recipe = Recipe::of_role(role, &self.settings, admin, self.folder.path());
        if self.plan.named {
            // No two processes have the same port.
            recipe
                .env
                .insert("MAILRAIL__LOG__KAFKA__GROUP_INSTANCE_ID".to_owned(), format!("{role}-{admin}"));
        }
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
        last_lines(self.folder.path(), &["control", "deliver"], 40)
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
