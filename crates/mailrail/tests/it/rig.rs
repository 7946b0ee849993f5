//! An installation under test: mailrail processes and what is asked of them.

mod end;
mod producer;
mod set_up;
mod socket;

use std::collections::BTreeMap;
use std::net::TcpListener as StdListener;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use mailrail_demo::receiver::ReceiverHandle;
use mailrail_egress::operator::ApiClient;

pub(crate) use crate::process::TOKEN;
use crate::process::{Process, Recipe, binary, last_lines};
use crate::services;

pub(crate) use producer::post_until_accepted;
use set_up::start_receiver;
pub(crate) use set_up::{TOLERANT, create_database, secret};
pub(crate) use socket::{http_get, try_get, try_request};

pub(crate) const PARTITIONS: u32 = 4;
pub(crate) const TENANTS: [&str; 2] = ["acme", "globex"];
/// Longest wait for anything that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Below what Linux gives to connections (32768 and more), and below the services of `tests/services`.
const FIRST_PORT: u16 = 10_000;
const PORTS_MAX: u16 = 9_000;

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

/// A port that nobody has, given once. It is none of those that the kernel gives to connections: one of these could take it before its
/// process does.
pub(crate) fn free_port() -> u16 {
    static TURN: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::random_range(0..PORTS_MAX)));
    let mut all = (0..PORTS_MAX).map(|_| FIRST_PORT + TURN.fetch_add(1, Ordering::Relaxed) % PORTS_MAX);
    all.find(|port| StdListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
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
        let mut recipe = Recipe::of_role(role, settings, admin, self.folder.path());
        if role == "dev" {
            let data = self.folder.path().join("data");
            recipe.args.extend(["--data".to_owned(), data.display().to_string()]);
        }
        recipe.env.extend(self.env.clone());
        recipe
    }

    /// Waits until every process is ready.
    pub(crate) async fn wait_ready(&self) {
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
        last_lines(self.folder.path(), &["dev", "ingest", "match", "deliver", "control"], 15)
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

    /// SIGTERM to every process; each must drain and end with 0.
    pub(crate) async fn stop_all(&mut self) {
        for process in std::mem::take(&mut self.processes) {
            let status = process.stop().await;
            assert!(status.success(), "a drain ended with {status}: {}", self.logs());
        }
    }
}
