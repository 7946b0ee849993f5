//! What is measured: one set-up, one topic, three doors and the floor, each a process of its own.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mailrail_log::{KafkaConfig, KafkaLog, Log};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;

use super::events::EVENT_TYPE;
use super::load::{Target, get};
use super::process::Process;
use super::slow::{SlowRedis, redirect};
use super::{Args, Variant};
use crate::floor::WIDTH;

/// Longest wait for a process to be ready.
const READY_WAIT: Duration = Duration::from_secs(60);
/// Between two looks whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the log may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Whose name the floor writes into its records: as long as those of the doors.
pub(crate) const FLOOR_TENANT: &str = "bench-floor";
/// The strict class of the door without sizing, as wide as the others get: what is compared is the work of sizing, not
/// that of writing to more partitions.
const FIXED_CLASS: &str = "fixed-wide";
/// Topics of a pipeline.
const TOPICS: [&str; 5] = ["events", "deliveries", "attempts", "dead-letters", "quarantine"];

/// Where the services are.
pub(super) struct Services<'a> {
    pub(super) kafka: &'a str,
    pub(super) postgres: &'a str,
    pub(super) redis: &'a str,
}

struct Server {
    variant: Variant,
    process: Process,
    target: Target,
    /// The floor has none.
    admin: Option<SocketAddr>,
}

/// Everything that was started. Processes are killed when it is dropped.
pub(super) struct Installation {
    servers: Vec<Server>,
    slow_redis: SlowRedis,
    log: KafkaLog,
    recipe: Recipe,
    _folder: tempfile::TempDir,
}

/// What the processes have in common.
struct Recipe {
    mailrail: PathBuf,
    kafka: String,
    postgres: String,
    prefix: String,
    database: String,
    partitions: u32,
    workers: u32,
    /// Administrator's token, and what the keys of producers begin with.
    secret: String,
}

impl Installation {
    pub(super) async fn start(args: &Args, services: &Services<'_>, delay: Duration) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let number = rand::random::<u64>();
        let recipe = Recipe {
            mailrail: mailrail(args)?,
            kafka: services.kafka.to_owned(),
            postgres: services.postgres.to_owned(),
            prefix: format!("bench-{number:016x}."),
            database: format!("bench_{number:016x}"),
            partitions: args.partitions.get(),
            workers: args.workers.get(),
            secret: format!("bench-secret-of-one-run-{:016x}", rand::random::<u64>()),
        };
        recipe.psql(&format!("CREATE DATABASE {}", recipe.database))?;
        let (_, redis) = super::slow::parse(services.redis)?;
        let slow_redis = SlowRedis::start(redis, delay).await?;
        let late = redirect(services.redis, slow_redis.address)?;
        set_up(&recipe, folder.path()).await?;
        let mut servers = Vec::new();
        for (variant, redis) in [
            (Variant::SizingOn, services.redis),
            (Variant::SizingOff, services.redis),
            (Variant::SlowRedis, late.as_str()),
        ] {
            servers.push(door(&recipe, folder.path(), variant, redis).await?);
        }
        servers.push(floor(&recipe, folder.path()).await?);
        let config =
            KafkaConfig { replication_factor: 1, min_insync_replicas: 1, ..KafkaConfig::new(services.kafka) };
        let log = KafkaLog::connect(config)?;
        online(&log, &recipe).await?;
        Ok(Self { servers, slow_redis, log, recipe, _folder: folder })
    }

    fn server(&self, variant: Variant) -> &Server {
        // Each variant was started, or there is no installation.
        self.servers.iter().find(|it| it.variant == variant).unwrap_or(&self.servers[0])
    }

    pub(super) fn target(&self, variant: Variant) -> &Target {
        &self.server(variant).target
    }

    pub(super) fn cpu(&self, variant: Variant) -> Option<Duration> {
        self.server(variant).process.cpu()
    }

    pub(super) fn slow_down_redis(&self) {
        self.slow_redis.slow_down();
    }

    pub(super) fn last_log_lines(&self) -> String {
        self.servers.iter().map(|it| it.process.last_log_lines()).collect()
    }

    /// That what was accepted is in the log, and that the doors did what they are compared for.
    pub(super) async fn check(&self, accepted: u64) -> Result<()> {
        let mut records: u64 = 0;
        for partition in 0..self.recipe.partitions {
            let bounds = self.log.bounds(&self.recipe.topic(TOPICS[0]), partition).await?;
            records += bounds.high - bounds.low;
        }
        ensure!(records == accepted, "{accepted} events were answered 202 and the log has {records}");
        eprintln!("door: the log has each of the {accepted} events that were answered 202");
        for (variant, reason) in [
            (Variant::SizingOn, "bucketed"),
            (Variant::SizingOff, "fixed"),
            (Variant::SlowRedis, "sizing_unavailable"),
        ] {
            let admin = self.server(variant).admin.context("a door without an admin server")?;
            let (_, page) = get(admin, "/metrics").await?;
            let (so_routed, all) = (routed(&page, Some(reason)), routed(&page, None));
            eprintln!("{}: {so_routed} of {all} events were routed as '{reason}'", variant.name());
            ensure!(so_routed > 0, "{} was not what it is called", variant.name());
        }
        Ok(())
    }

    /// Ends the processes and removes what was made. What cannot be removed is told and is no failure.
    pub(super) async fn end(mut self) {
        for server in self.servers.drain(..) {
            // The floor has nothing to drain: it is killed.
            if server.admin.is_some()
                && let Err(error) = server.process.stop().await
            {
                eprintln!("warning: {error:#}");
            }
        }
        self.log.close(CLOSE_WAIT).await;
        if let Err(error) = self.recipe.remove().await {
            eprintln!("warning: {} is left in Kafka or Postgres: {error:#}", self.recipe.database);
        }
    }
}

impl Recipe {
    fn topic(&self, kind: &str) -> String {
        format!("{}{kind}.default", self.prefix)
    }

    fn token(&self, tenant: &str) -> String {
        format!("{}-{tenant}", self.secret)
    }

    /// A role, or another command, with settings in its environment only.
    fn mailrail(&self, role: &str, listen: &[(&str, SocketAddr)]) -> Result<Command> {
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

    fn psql(&self, statement: &str) -> Result<()> {
        let output = Command::new("psql")
            .args([&self.postgres, "-qc", statement])
            .output()
            .context("psql cannot be started: install the Postgres client")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "psql: {}", said.trim());
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.psql(&format!("DROP DATABASE {} WITH (FORCE)", self.database))?;
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &self.kafka).create()?;
        let topics = TOPICS.map(|kind| self.topic(kind));
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        for removed in admin.delete_topics(&names, &AdminOptions::new()).await? {
            removed.map_err(|(topic, code)| anyhow::anyhow!("{topic}: {code}"))?;
        }
        Ok(())
    }
}

fn mailrail(args: &Args) -> Result<PathBuf> {
    let path = match &args.mailrail {
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

/// Applies the set-up through a control role, which ends before anything is measured.
async fn set_up(recipe: &Recipe, folder: &std::path::Path) -> Result<()> {
    let file = folder.join("setup.yaml");
    std::fs::write(&file, setup_file(recipe))?;
    let (listen, admin) = (free_address()?, free_address()?);
    let mut command = recipe.mailrail("control", &[("CONTROL", listen), ("ADMIN", admin)])?;
    let mut control = Process::start("control", folder, &mut command)?;
    ready(&mut control, admin, "/readyz").await?;
    let output = Command::new(&recipe.mailrail)
        .args(["apply", "-f"])
        .arg(&file)
        .args(["--url", &format!("http://{listen}"), "--token", &recipe.secret])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the set-up was not applied: {}", said.trim());
    control.stop().await
}

/// A tenant for each door, so that each is split by its own rate only.
fn setup_file(recipe: &Recipe) -> String {
    let mut text = format!(
        "version: 1\nclasses:\n- {{id: {FIXED_CLASS}, tolerates_reordering: false, fixed_buckets: {WIDTH}}}\ntenants:\n"
    );
    for variant in Variant::ALL.into_iter().filter(|it| *it != Variant::Floor) {
        let tenant = tenant(variant);
        let class = if variant == Variant::SizingOff { FIXED_CLASS } else { "tolerant" };
        text += &format!(
            "- id: {tenant}\n  source_class: {class}\n  keys: [{{id: producer, token: {}}}]\n  event_types: [{{name: \
             {EVENT_TYPE}, ordering_key: order.id}}]\n",
            recipe.token(tenant)
        );
    }
    text
}

const fn tenant(variant: Variant) -> &'static str {
    match variant {
        Variant::Floor => FLOOR_TENANT,
        Variant::SizingOn => "bench-sized",
        Variant::SizingOff => "bench-fixed",
        Variant::SlowRedis => "bench-slow-",
    }
}

async fn door(recipe: &Recipe, folder: &std::path::Path, variant: Variant, redis: &str) -> Result<Server> {
    let (listen, admin) = (free_address()?, free_address()?);
    let mut command = recipe.mailrail("ingest", &[("INGEST", listen), ("ADMIN", admin)])?;
    command.env("MAILRAIL__LIMITS__REDIS", redis);
    let mut process = Process::start(tenant(variant), folder, &mut command)?;
    ready(&mut process, admin, "/readyz").await?;
    let target = Target { address: listen, token: recipe.token(tenant(variant)).into() };
    Ok(Server { variant, process, target, admin: Some(admin) })
}

async fn floor(recipe: &Recipe, folder: &std::path::Path) -> Result<Server> {
    let listen = free_address()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["floor", "--listen", &listen.to_string(), "--kafka", &recipe.kafka])
        .args(["--topic", &recipe.topic(TOPICS[0]), "--partitions", &recipe.partitions.to_string()])
        .env("TOKIO_WORKER_THREADS", recipe.workers.to_string());
    let mut process = Process::start(FLOOR_TENANT, folder, &mut command)?;
    // Any answer will do: it has one path only.
    ready(&mut process, listen, "/v1/events").await?;
    let target = Target { address: listen, token: recipe.token(FLOOR_TENANT).into() };
    Ok(Server { variant: Variant::Floor, process, target, admin: None })
}

/// Waits until a process answers this page, but not with a server error.
async fn ready(process: &mut Process, address: SocketAddr, path: &str) -> Result<()> {
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

/// Waits until the broker leads every partition of the new topic. Its metadata name a leader before it is one; what is
/// produced meanwhile is refused and sent again, which is not what is measured.
async fn online(log: &KafkaLog, recipe: &Recipe) -> Result<()> {
    let topic = recipe.topic(TOPICS[0]);
    let all = async {
        for partition in 0..recipe.partitions {
            while log.bounds(&topic, partition).await.is_err() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    };
    tokio::time::timeout(READY_WAIT, all)
        .await
        .with_context(|| format!("{topic} has no leaders after {READY_WAIT:?}"))
}

/// One that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Events that a page of metrics says were routed, for this reason or for any.
fn routed(page: &str, reason: Option<&str>) -> u64 {
    let wanted = reason.map(|it| format!("reason=\"{it}\"")).unwrap_or_default();
    page.lines()
        .filter(|line| line.starts_with("mailrail_mailbox_routing_total{") && line.contains(&wanted))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routed_events_are_summed_by_reason() {
        let page = "# TYPE mailrail_mailbox_routing_total counter\n\
                    mailrail_mailbox_routing_total{reason=\"bucketed\",buckets=\"32\"} 5\n\
                    mailrail_mailbox_routing_total{reason=\"bucketed\",buckets=\"64\"} 7\n\
                    mailrail_mailbox_routing_total{reason=\"under_rate\",buckets=\"1\"} 1\nother 9\n";
        assert_eq!(routed(page, Some("bucketed")), 12);
        assert_eq!(routed(page, None), 13);
        assert_eq!(routed(page, Some("fixed")), 0);
    }

    /// Longer names would make longer records.
    #[test]
    fn the_names_of_all_variants_are_equally_long() {
        for variant in Variant::ALL {
            assert_eq!(tenant(variant).len(), FLOOR_TENANT.len(), "{variant:?}");
        }
    }
}
