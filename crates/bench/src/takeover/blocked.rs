//! An installation whose mailboxes are blocked, and its one owner.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use mailrail_log::{KafkaLog, Log};

use super::{Args, PATIENCE};
use crate::events::Bodies;
use crate::http::get;
use crate::mail::{Mail, TENANT, To, setup_file};
use crate::process::Process;
use crate::recipe::{LOOK_EVERY, Recipe, free_address, ready};
use crate::sink::{self, DEAD_PATH, Receipts};

/// Endpoints that answer 503; the mailboxes are theirs in equal parts.
const DEAD: u32 = 50;
/// The one that answers 200.
const ALIVE: u32 = DEAD;
const CLASS: &str = "{id: fixed, tolerates_reordering: false, fixed_buckets: 64}";
/// How long the log may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Settings of the owner: what is tried once waits for longer than the run, and the group notices a killed member soon.
const SETTINGS: [(&str, &str); 7] = [
    ("MAILRAIL__EGRESS__ALLOW_HTTP", "true"),
    ("MAILRAIL__EGRESS__ALLOW_CIDRS", "127.0.0.0/8"),
    ("MAILRAIL__DELIVER__RETRY__DELAYS", "4h"),
    ("MAILRAIL__DELIVER__ATTEMPT_TIMEOUT", "2s"),
    ("MAILRAIL__LOG__KAFKA__SESSION_TIMEOUT", "12s"),
    ("MAILRAIL__LOGS__FILTER", "info"),
    ("MAILRAIL__LOGS__FORMAT", "json"),
];

/// The installation.
pub(super) struct Blocked {
    recipe: Recipe,
    log: Arc<KafkaLog>,
    mail: Mail,
    receipts: Arc<Receipts>,
    folder: tempfile::TempDir,
    owner: Option<Owner>,
    owners: u32,
    mailboxes: u32,
    /// A mailbox of the living endpoint in each partition.
    alive: Vec<To>,
    /// Number of the next event.
    next: u64,
}

struct Owner {
    process: Process,
    admin: SocketAddr,
}

impl Blocked {
    pub(super) async fn start(args: &Args) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let recipe = Recipe::new(&args.services, args.partitions.get(), args.workers.get())?;
        let events = u64::from(args.mailboxes) + u64::from(args.rounds) * u64::from(args.partitions.get());
        let receipts = Receipts::new(events);
        let sink = sink::start(receipts.clone())?;
        let mut endpoints: Vec<(u32, String)> =
            (0..DEAD).map(|n| (n, format!("http://{sink}{DEAD_PATH}e{n:04}"))).collect();
        endpoints.push((ALIVE, format!("http://{sink}/alive")));
        let setup = setup_file(CLASS, &recipe.token(TENANT), &endpoints);
        recipe.set_up(folder.path(), &setup, &SETTINGS).await?;
        let log = Arc::new(recipe.log()?);
        for kind in ["deliveries", "journal", "attempts"] {
            recipe.online(&*log, &recipe.topic(kind)).await?;
        }
        let mail = Mail::new(args.partitions, Bodies::new(1))?;
        let alive = one_in_each(&mail, args.partitions.get())?;
        let (owner, owners, mailboxes, next) = (None, 0, args.mailboxes, 0);
        Ok(Self { recipe, log, mail, receipts, folder, owner, owners, mailboxes, alive, next })
    }

    /// Owes every dead mailbox a delivery, starts an owner, and waits until all of them wait for their retry.
    pub(super) async fn block(&mut self) -> Result<()> {
        let dead = (0..self.mailboxes).map(|n| To { endpoint: n % DEAD, bucket: n / DEAD });
        let records = dead.zip(0..).map(|(to, number)| self.mail.delivery(number, to));
        crate::mail::append(&self.log, &self.recipe.topic("deliveries"), records).await?;
        self.next = u64::from(self.mailboxes);
        self.start_owner().await?;
        self.all_held().await
    }

    /// Waits until everything that is owed is held, and nothing of it in a window: it is in the journal.
    pub(super) async fn all_held(&self) -> Result<()> {
        let admin = self.owner()?.admin;
        let held = async {
            loop {
                let (_, page) = get(admin, "/metrics").await?;
                let (held, open) =
                    (gauge(&page, "mailrail_deliver_held"), gauge(&page, "mailrail_deliver_window_records"));
                if held == Some(u64::from(self.mailboxes)) && open == Some(0) {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(PATIENCE, held).await {
            Ok(held) => held,
            Err(_) => bail!("the mailboxes are not blocked after {PATIENCE:?}"),
        }
    }

    /// Kills the owner, owes each partition one delivery that can be made, and starts another owner. Gives the number of the
    /// first of those deliveries.
    pub(super) async fn replace_owner(&mut self) -> Result<u64> {
        self.owner.take().context("there is an owner")?.process.kill()?;
        let first = self.next;
        let records = self.alive.iter().zip(first..).map(|(to, number)| self.mail.delivery(number, *to));
        crate::mail::append(&self.log, &self.recipe.topic("deliveries"), records).await?;
        self.next += self.alive.len() as u64;
        self.start_owner().await?;
        Ok(first)
    }

    async fn start_owner(&mut self) -> Result<()> {
        let admin = free_address()?;
        let mut command = self.recipe.mailrail("deliver", &[("ADMIN", admin)])?;
        command.envs(SETTINGS);
        self.owners += 1;
        let name = format!("owner-{}", self.owners);
        let mut process = Process::start(&name, self.folder.path(), &mut command)?;
        ready(&mut process, admin, "/readyz").await?;
        self.owner = Some(Owner { process, admin });
        Ok(())
    }

    fn owner(&self) -> Result<&Owner> {
        self.owner.as_ref().context("there is an owner")
    }

    /// Everything that the owner logged.
    pub(super) fn owner_log(&mut self) -> Result<String> {
        let owner = self.owner.as_mut().context("there is an owner")?;
        owner.process.check()?;
        Ok(owner.process.log())
    }

    /// Waits for the deliveries that can be made, from `first` on. Gives how long after `since` the last one came.
    pub(super) async fn arrived(&self, first: u64, since: SystemTime) -> Result<Duration> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(missing) = (first..self.next).find(|number| self.receipts.at(*number).is_none()) {
            ensure!(Instant::now() < deadline, "delivery {missing} did not come within {PATIENCE:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let last = (first..self.next).filter_map(|number| self.receipts.at(number)).max().unwrap_or(0);
        // Log lines have the wall clock, receipts a steady one.
        let ago = Duration::from_micros(self.receipts.micros(Instant::now()).saturating_sub(last));
        let came = SystemTime::now() - ago;
        Ok(came.duration_since(since).unwrap_or_default())
    }

    /// Records that the journal has now.
    pub(super) async fn journal_records(&self) -> Result<u64> {
        self.recipe.records(&*self.log, "journal").await
    }

    pub(super) fn last_log_lines(&self) -> String {
        self.owner.as_ref().map(|owner| owner.process.last_log_lines()).unwrap_or_default()
    }

    /// Ends the owner and removes what was made.
    pub(super) async fn end(mut self) {
        self.owner = None;
        self.log.close(CLOSE_WAIT).await;
        self.recipe.remove(&[]).await;
    }
}

/// A mailbox of the living endpoint in each partition.
fn one_in_each(mail: &Mail, partitions: u32) -> Result<Vec<To>> {
    let find = |partition: u32| {
        let all = (0..).map(|bucket| To { endpoint: ALIVE, bucket });
        for to in all.take(partitions as usize * 1_000) {
            if mail.partition(to)? == partition {
                return Ok(to);
            }
        }
        bail!("no mailbox is in partition {partition}")
    };
    (0..partitions).map(find).collect()
}

/// The value of a metric without labels.
fn gauge(page: &str, name: &str) -> Option<u64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn each_partition_has_a_living_mailbox() {
        let partitions = NonZeroU32::new(8).expect("not 0");
        let mail = Mail::new(partitions, Bodies::new(1)).expect("valid");
        let alive = one_in_each(&mail, 8).expect("found");
        let found: Vec<u32> = alive.iter().map(|to| mail.partition(*to).expect("valid")).collect();
        assert_eq!(found, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn a_gauge_is_found_by_its_whole_name() {
        let page = "# TYPE held gauge\nheld_more 3\nheld 7\n";
        assert_eq!(gauge(page, "held"), Some(7));
        assert_eq!(gauge(page, "hel"), None);
    }
}
