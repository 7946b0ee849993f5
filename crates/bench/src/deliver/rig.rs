//! What is measured: one set-up, the sink, and the processes of a turn.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailrail_log::{KafkaLog, Log};

use super::Args;
use crate::events::Bodies;
use crate::mail::{Mail, To, setup_file};
use crate::process::Process;
use crate::recipe::{Recipe, free_address, ready};
use crate::sink::{self, Receipts};

/// Mailboxes of an endpoint.
pub(super) const WIDTH: u32 = 64;
/// Strict: one delivery of a mailbox is under way at a time.
const CLASS: &str = "{id: fixed, tolerates_reordering: false, fixed_buckets: 64}";
/// How long the log may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// The sink is on this machine, and is spoken to in the clear.
pub(super) const OPEN: [(&str, &str); 2] =
    [("MAILRAIL__EGRESS__ALLOW_HTTP", "true"), ("MAILRAIL__EGRESS__ALLOW_CIDRS", "127.0.0.0/8")];

/// Everything that a run has.
pub(super) struct Rig {
    pub(super) recipe: Recipe,
    pub(super) log: Arc<KafkaLog>,
    pub(super) mail: Mail,
    pub(super) bodies: Bodies,
    pub(super) sink: SocketAddr,
    pub(super) receipts: Arc<Receipts>,
    pub(super) folder: tempfile::TempDir,
    /// Number of the next event.
    pub(super) next: u64,
    /// Deliveries so far that deliver owed.
    pub(super) owed: u64,
    /// Topics beside those of the pipeline.
    pub(super) topics: Vec<String>,
    endpoints: u32,
    /// Logs of processes that ended, for an error.
    pub(super) running: Vec<Process>,
}

impl Rig {
    pub(super) async fn start(args: &Args) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let recipe = Recipe::new(&args.services, args.partitions.get(), args.workers.get())?;
        let receipts = Receipts::new(args.events_max());
        let sink = sink::start(receipts.clone())?;
        let endpoints: Vec<(u32, String)> =
            (0..args.endpoints).map(|n| (n, format!("http://{sink}/e{n:04}"))).collect();
        let setup = setup_file(CLASS, &recipe.token(crate::mail::TENANT), &endpoints);
        recipe.set_up(folder.path(), &setup, &OPEN).await?;
        let log = Arc::new(recipe.log()?);
        for kind in ["events", "deliveries", "attempts"] {
            recipe.online(&*log, &recipe.topic(kind)).await?;
        }
        let bodies = Bodies::new(args.seed);
        let mail = Mail::new(args.partitions, bodies.clone())?;
        let (endpoints, topics, running) = (args.endpoints, Vec::new(), Vec::new());
        let (next, owed) = (0, 0);
        Ok(Self { recipe, log, mail, bodies, sink, receipts, folder, next, owed, topics, endpoints, running })
    }

    /// Starts a role and waits until it is ready. It stays in `running`.
    pub(super) async fn role(&mut self, args: &Args, role: &str, listen: Option<SocketAddr>) -> Result<()> {
        let admin = free_address()?;
        let mut addresses = vec![("ADMIN", admin)];
        addresses.extend(listen.map(|address| ("INGEST", address)));
        let mut command = self.recipe.mailrail(role, &addresses)?;
        command
            .envs(OPEN)
            .env("MAILRAIL__DELIVER__ATTEMPTS_IN_FLIGHT_MAX", args.in_flight.to_string())
            .env("MAILRAIL__LIMITS__REDIS", &args.services.redis)
            .env("MAILRAIL__LOG__KAFKA__PROPERTIES__LINGER_MS", args.linger_ms.to_string());
        let mut process = Process::start(role, self.folder.path(), &mut command)?;
        ready(&mut process, admin, "/readyz").await?;
        self.running.push(process);
        Ok(())
    }

    /// Ends the roles that run, as an operator does.
    pub(super) async fn stop_roles(&mut self) -> Result<()> {
        for process in self.running.drain(..) {
            process.stop().await?;
        }
        Ok(())
    }

    /// The mailbox of an event: all of them in turn.
    pub(super) fn to(&self, number: u64) -> To {
        let turn = |number: u64, count: u32| u32::try_from(number % u64::from(count)).unwrap_or(0);
        To { endpoint: turn(number, self.endpoints), bucket: turn(number / u64::from(self.endpoints), WIDTH) }
    }

    /// That everything arrived once and was recorded once.
    pub(super) async fn check(&self) -> Result<()> {
        let counts = self.receipts.counts();
        ensure!(counts.strange == 0, "{} requests were not what was sent", counts.strange);
        ensure!(counts.repeated == 0, "{} deliveries came more than once", counts.repeated);
        ensure!(counts.total == self.next, "{} events were sent and {} came", self.next, counts.total);
        for (kind, expected) in [("attempts", self.owed), ("dead-letters", 0), ("quarantine", 0)] {
            let records = self.recipe.records(&*self.log, kind).await?;
            ensure!(records == expected, "{kind} has {records} records, not {expected}");
        }
        eprintln!("deliver: each of the {} deliveries came once and has its record", self.owed);
        Ok(())
    }

    pub(super) fn last_log_lines(&self) -> String {
        self.running.iter().map(Process::last_log_lines).collect()
    }

    /// Ends the processes and removes what was made.
    pub(super) async fn end(mut self) {
        self.running.clear();
        self.log.close(CLOSE_WAIT).await;
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        self.recipe.remove(&topics).await;
    }
}
