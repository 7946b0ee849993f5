//! The replicas of a recording: started, replaced and stopped as Kubernetes does it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Args;
use super::plan::{Act, Role};
use crate::http::get;
use crate::process::Process;
use crate::recipe::{Recipe, free_address, ready};

/// How long a new replica is ready before an old one is stopped; the chart has `minReadySeconds: 10`.
const MIN_READY: Duration = Duration::from_secs(5);

/// Processes of one role.
pub(super) struct Fleet {
    role: Role,
    running: Vec<(Process, SocketAddr)>,
    started: u32,
}

/// What changes in the fleet, told before it happens.
pub(super) trait Notes {
    fn replicas(&self, admins: &[SocketAddr]);
    fn event(&self, what: &str);
}

impl Fleet {
    pub(super) fn new(role: Role) -> Self {
        Self { role, running: Vec::new(), started: 0 }
    }

    /// Starts replicas and waits until they are ready.
    pub(super) async fn grow(
        &mut self,
        by: u32,
        (args, recipe, folder): (&Args, &Recipe, &Path),
        notes: &dyn Notes,
    ) -> Result<()> {
        if by == 0 {
            return Ok(());
        }
        notes.event("starting");
        let first = self.running.len();
        for _ in 0..by {
            let admin = free_address()?;
            let mut command = recipe.mailrail(self.role.name(), &[("ADMIN", admin)])?;
            command.envs(settings(args));
            self.start(&mut command, admin, folder)?;
        }
        self.await_ready(first).await?;
        notes.replicas(&self.admins());
        notes.event("ready");
        Ok(())
    }

    fn start(&mut self, command: &mut Command, admin: SocketAddr, folder: &Path) -> Result<()> {
        self.started += 1;
        let name = format!("{}-{}", self.role.name(), self.started);
        self.running.push((Process::start(&name, folder, command)?, admin));
        Ok(())
    }

    /// Waits for the replicas from the `first` on. They are among those that run, also when one is not ready: its log is shown.
    async fn await_ready(&mut self, first: usize) -> Result<()> {
        for (process, admin) in &mut self.running[first..] {
            ready(process, *admin, "/readyz").await?;
        }
        Ok(())
    }

    /// The new replica is ready for a while, then the oldest one is stopped.
    async fn replace(&mut self, with: (&Args, &Recipe, &Path), notes: &dyn Notes) -> Result<()> {
        self.grow(1, with, notes).await?;
        tokio::time::sleep(MIN_READY).await;
        let (oldest, _) = self.running.remove(0);
        notes.replicas(&self.admins());
        notes.event("stopping");
        oldest.stop().await?;
        notes.event("stopped");
        Ok(())
    }

    /// Does what the plan says of replicas.
    pub(super) async fn act(
        &mut self,
        act: Act,
        with: (&Args, &Recipe, &Path),
        notes: &dyn Notes,
    ) -> Result<()> {
        match act {
            Act::Start(count) => self.grow(count, with, notes).await,
            Act::Replace => self.replace(with, notes).await,
            Act::Outage | Act::Recovery => Ok(()),
        }
    }

    pub(super) async fn stop(&mut self) -> Result<()> {
        for (process, _) in self.running.drain(..) {
            process.stop().await?;
        }
        Ok(())
    }

    pub(super) fn last_log_lines(&self) -> String {
        self.running.iter().map(|(process, _)| process.last_log_lines()).collect()
    }

    fn admins(&self) -> Vec<SocketAddr> {
        self.running.iter().map(|(_, admin)| *admin).collect()
    }
}

/// Retries are soon, so that a recording of a minute sees them.
fn settings(args: &Args) -> [(&'static str, String); 5] {
    [
        ("MAILRAIL__EGRESS__ALLOW_HTTP", "true".to_owned()),
        ("MAILRAIL__EGRESS__ALLOW_CIDRS", "127.0.0.0/8".to_owned()),
        ("MAILRAIL__DELIVER__RETRY__DELAYS", "5s,15s,15s,30s,30s,60s,60s".to_owned()),
        ("MAILRAIL__DELIVER__ATTEMPTS_IN_FLIGHT_MAX", args.in_flight.to_string()),
        ("MAILRAIL__LIMITS__REDIS", args.services.redis.clone()),
    ]
}

/// Deliveries that these processes hold for later, by their own metrics. One that cannot be asked now holds none that we know of.
pub(super) async fn held(admins: &[SocketAddr]) -> Result<u64> {
    let mut held = 0;
    for admin in admins {
        let Ok((_, page)) = get(*admin, "/metrics").await else { continue };
        let line = page.lines().find_map(|line| line.strip_prefix("mailrail_deliver_held "));
        held +=
            line.map_or(Ok(0), str::parse::<u64>).context("the metric of held deliveries is no number")?;
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_replica_that_ends_at_once_is_among_those_whose_log_is_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut fleet = Fleet::new(Role::Deliver);
        let admin = free_address().expect("an address");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such topic; exit 3"]);
        fleet.start(&mut command, admin, folder.path()).expect("a process");
        let failure = fleet.await_ready(0).await.expect_err("it ended");
        assert!(failure.to_string().contains("deliver-1 ended with exit status: 3"), "{failure}");
        let said = fleet.last_log_lines();
        assert!(said.contains("--- deliver-1\nno such topic"), "{said}");
    }
}
