//! What the processes of an installation have in common: where the services are, names of their own, secrets.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mailrail_log::{KafkaConfig, KafkaLog, Log};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;

use crate::http::get;
use crate::process::Process;

/// Longest wait for a process to be ready.
const READY_WAIT: Duration = Duration::from_secs(60);
/// Between two looks whether something came.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Name of the pipeline.
pub(crate) const PIPELINE: &str = "default";
/// Topics of a pipeline.
const TOPICS: [&str; 6] = ["events", "deliveries", "attempts", "dead-letters", "quarantine", "journal"];

/// What the processes have in common.
pub(crate) struct Recipe {
    pub(crate) mailrail: PathBuf,
    pub(crate) kafka: String,
    pub(crate) postgres: String,
    pub(crate) prefix: String,
    pub(crate) database: String,
    pub(crate) partitions: u32,
    pub(crate) workers: u32,
    /// Administrator's token, and what the keys of producers begin with.
    pub(crate) secret: String,
}

/// Where the services are, and how wide everything is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServicesArgs {
    /// The binary to measure. Default: the one beside this.
    #[arg(long)]
    mailrail: Option<PathBuf>,
    /// `host:port` of a broker.
    #[arg(long, env = "MAILRAIL_TEST_KAFKA")]
    pub(crate) kafka: String,
    /// `postgres://…` of a database beside which another may be made.
    #[arg(long, env = "MAILRAIL_TEST_POSTGRES", hide_env_values = true)]
    postgres: String,
    /// `redis://…`
    #[arg(long, env = "MAILRAIL_TEST_REDIS", hide_env_values = true)]
    pub(crate) redis: String,
}

impl Recipe {
    /// Names that nobody else has, and a database of that name.
    pub(crate) fn new(services: &ServicesArgs, partitions: u32, workers: u32) -> Result<Self> {
        let number = rand::random::<u64>();
        let recipe = Self {
            mailrail: mailrail(services.mailrail.as_ref())?,
            kafka: services.kafka.clone(),
            postgres: services.postgres.clone(),
            prefix: format!("bench-{number:016x}."),
            database: format!("bench_{number:016x}"),
            partitions,
            workers,
            secret: format!("bench-secret-of-one-run-{:016x}", rand::random::<u64>()),
        };
        recipe.psql(&format!("CREATE DATABASE {}", recipe.database))?;
        Ok(recipe)
    }

    /// Name of a topic: `events`, `deliveries`, …
    pub(crate) fn topic(&self, kind: &str) -> String {
        format!("{}{kind}.{PIPELINE}", self.prefix)
    }

    /// What a producer of the tenant shows at the door.
    pub(crate) fn token(&self, tenant: &str) -> String {
        format!("{}-{tenant}", self.secret)
    }

    /// A role, or another command, with settings in its environment only.
    pub(crate) fn mailrail(&self, role: &str, listen: &[(&str, SocketAddr)]) -> Result<Command> {
        let mut url = url::Url::parse(&self.postgres).context("the URL of Postgres cannot be read")?;
        url.set_path(&self.database);
        let mut command = Command::new(&self.mailrail);
        command
            .arg(role)
            .env("MAILRAIL__TOPIC_PREFIX", &self.prefix)
            .env("MAILRAIL__PIPELINE__PARTITIONS", self.partitions.to_string())
            .env("MAILRAIL__LOG__KAFKA__BROKERS", &self.kafka)
            .env("MAILRAIL__LOG__KAFKA__REPLICATION_FACTOR", "1")
            .env("MAILRAIL__LOG__KAFKA__MIN_INSYNC_REPLICAS", "1")
            .env("MAILRAIL__STORE__URL", url.as_str())
            .env("MAILRAIL__LOGS__FILTER", "warn")
            .env("MAILRAIL_ADMIN_TOKEN", &self.secret)
            .env("MAILRAIL_ENCRYPTION_KEY", "00".repeat(32))
            .env("TOKIO_WORKER_THREADS", self.workers.to_string());
        for (section, address) in listen {
            command.env(format!("MAILRAIL__{section}__LISTEN"), address.to_string());
        }
        Ok(command)
    }

    /// A client of the log, with the settings that the processes have.
    pub(crate) fn log(&self) -> Result<KafkaLog> {
        let config =
            KafkaConfig { replication_factor: 1, min_insync_replicas: 1, ..KafkaConfig::new(&self.kafka) };
        Ok(KafkaLog::connect(config)?)
    }

    /// Applies the set-up through a control role, which makes the topics and ends before anything is measured.
    pub(crate) async fn set_up(&self, folder: &Path, setup: &str, env: &[(&str, &str)]) -> Result<()> {
        let file = folder.join("setup.yaml");
        std::fs::write(&file, setup)?;
        let (listen, admin) = (free_address()?, free_address()?);
        let mut command = self.mailrail("control", &[("CONTROL", listen), ("ADMIN", admin)])?;
        command.envs(env.iter().copied());
        let mut control = Process::start("control", folder, &mut command)?;
        ready(&mut control, admin, "/readyz").await?;
        let output = Command::new(&self.mailrail)
            .args(["apply", "-f"])
            .arg(&file)
            .args(["--url", &format!("http://{listen}"), "--token", &self.secret])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the set-up was not applied: {}", said.trim());
        control.stop().await
    }

    /// Records that partitions of a topic have, or had.
    pub(crate) async fn records(&self, log: &dyn Log, kind: &str) -> Result<u64> {
        let mut records = 0;
        for partition in 0..self.partitions {
            let bounds = log.bounds(&self.topic(kind), partition).await?;
            records += bounds.high - bounds.low;
        }
        Ok(records)
    }

    /// Waits until the broker leads every partition of a new topic. Its metadata name a leader before it is one; what is
    /// produced meanwhile is refused and sent again, which is not what is measured.
    pub(crate) async fn online(&self, log: &dyn Log, topic: &str) -> Result<()> {
        let all = async {
            for partition in 0..self.partitions {
                while log.bounds(topic, partition).await.is_err() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        };
        tokio::time::timeout(READY_WAIT, all)
            .await
            .with_context(|| format!("{topic} has no leaders after {READY_WAIT:?}"))
    }

    fn psql(&self, statement: &str) -> Result<()> {
        let output = Command::new("psql")
            .args([&self.postgres, "-qc", statement])
            .output()
            .context("psql cannot be started: install the Postgres client")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "psql: {}", said.trim());
        Ok(())
    }

    pub(crate) fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        Ok(ClientConfig::new().set("bootstrap.servers", &self.kafka).create()?)
    }

    /// Removes what was made, and `more` topics. What cannot be removed is told and is no failure.
    pub(crate) async fn remove(&self, more: &[&str]) {
        if let Err(error) = self.try_remove(more).await {
            eprintln!("warning: {} is left in Kafka or Postgres: {error:#}", self.database);
        }
    }

    async fn try_remove(&self, more: &[&str]) -> Result<()> {
        self.psql(&format!("DROP DATABASE {} WITH (FORCE)", self.database))?;
        let topics = TOPICS.map(|kind| self.topic(kind));
        let names: Vec<&str> = topics.iter().map(String::as_str).chain(more.iter().copied()).collect();
        for removed in self.admin()?.delete_topics(&names, &AdminOptions::new()).await? {
            removed.map_err(|(topic, code)| anyhow::anyhow!("{topic}: {code}"))?;
        }
        Ok(())
    }
}

fn mailrail(given: Option<&PathBuf>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("mailrail"),
    };
    ensure!(
        path.is_file(),
        "{} is not there: build mailrail in the same profile, or give --mailrail",
        path.display()
    );
    Ok(path)
}

/// Waits until a process answers this page, but not with a server error.
pub(crate) async fn ready(process: &mut Process, address: SocketAddr, path: &str) -> Result<()> {
    let answers = async {
        loop {
            process.check()?;
            match get(address, path).await {
                Ok((..500, _)) => return anyhow::Ok(()),
                Ok(_) | Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    };
    match tokio::time::timeout(READY_WAIT, answers).await {
        Ok(ready) => ready,
        Err(_) => bail!("not ready within {READY_WAIT:?}:\n{}", process.last_log_lines()),
    }
}

/// One that was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
