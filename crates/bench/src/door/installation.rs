//! What is measured: one set-up, one topic, three doors and the floor, each a process of its own.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailrail_log::{KafkaLog, Log};

use super::load::Target;
use super::slow::{SlowRedis, redirect};
use super::{Args, Variant};
use crate::events::EVENT_TYPE;
use crate::floor::WIDTH;
use crate::http::get;
use crate::process::Process;
use crate::recipe::{Recipe, free_address, ready};

/// How long the log may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Whose name the floor writes into its records: as long as those of the doors.
pub(crate) const FLOOR_TENANT: &str = "bench-floor";
/// The strict class of the door without sizing, as wide as the others get: what is compared is the work of sizing, not
/// that of writing to more partitions.
const FIXED_CLASS: &str = "fixed-wide";
/// Where the doors write to.
const EVENTS: &str = "events";

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

impl Installation {
    pub(super) async fn start(args: &Args, delay: Duration) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let services = &args.services;
        let recipe = Recipe::new(services, args.partitions.get(), args.workers.get())?;
        let (_, redis) = super::slow::parse(&services.redis)?;
        let slow_redis = SlowRedis::start(redis, delay).await?;
        let late = redirect(&services.redis, slow_redis.address)?;
        recipe.set_up(folder.path(), &setup_file(&recipe), &[]).await?;
        let mut servers = Vec::new();
        for (variant, redis) in [
            (Variant::SizingOn, services.redis.as_str()),
            (Variant::SizingOff, services.redis.as_str()),
            (Variant::SlowRedis, late.as_str()),
        ] {
            servers.push(door(&recipe, folder.path(), variant, redis).await?);
        }
        servers.push(floor(&recipe, folder.path()).await?);
        let log = recipe.log()?;
        recipe.online(&log, &recipe.topic(EVENTS)).await?;
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
        let records = self.recipe.records(&self.log, EVENTS).await?;
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
        self.recipe.remove(&[]).await;
    }
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
        .args(["--topic", &recipe.topic(EVENTS), "--partitions", &recipe.partitions.to_string()])
        .env("TOKIO_WORKER_THREADS", recipe.workers.to_string());
    let mut process = Process::start(FLOOR_TENANT, folder, &mut command)?;
    // Any answer will do: it has one path only.
    ready(&mut process, listen, "/v1/events").await?;
    let target = Target { address: listen, token: recipe.token(FLOOR_TENANT).into() };
    Ok(Server { variant: Variant::Floor, process, target, admin: None })
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
