//! Takeover, measured: the owner of many blocked mailboxes is killed, and a new one must know all of them before it may
//! start its first delivery.
//!
//! The mailboxes become blocked as they do in life: one delivery for each goes to an endpoint that answers 503, and waits in
//! the journal for its retry.

mod blocked;
mod lines;
mod report;

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::blocked::Blocked;
use self::lines::Takeover;
use self::report::Report;
use crate::recipe::{LOOK_EVERY, ServicesArgs};

/// Longest wait for anything that must come.
const PATIENCE: Duration = Duration::from_secs(600);
/// An owner has committed by then, and a commit names the newest snapshot.
const SETTLED: Duration = Duration::from_secs(2);

/// How much is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Mailboxes that are blocked.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    mailboxes: u32,
    /// Partitions; one process owns all of them.
    #[arg(long, default_value = "8")]
    partitions: NonZeroU32,
    /// Kills.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Async worker threads of deliver.
    #[arg(long, default_value = "2")]
    workers: NonZeroU32,
    #[command(flatten)]
    services: ServicesArgs,
}

/// Runs the rounds and prints the report.
pub(crate) async fn run(args: Args) -> Result<()> {
    let mut blocked = Blocked::start(&args).await?;
    let measured = measure(&args, &mut blocked).await;
    if measured.is_err() {
        eprint!("{}", blocked.last_log_lines());
    }
    blocked.end().await;
    let report = measured?;
    eprint!("{}", report.table());
    println!("{}", serde_json::to_string(&report.summary())?);
    Ok(())
}

async fn measure(args: &Args, blocked: &mut Blocked) -> Result<Report> {
    eprintln!("takeover: blocking {} mailboxes in {} partitions ...", args.mailboxes, args.partitions);
    blocked.block().await?;
    let mut report = Report::new(args.mailboxes);
    for round in 0..args.rounds {
        tokio::time::sleep(SETTLED).await;
        let first = blocked.replace_owner().await?;
        let takeover = taken_over(args, blocked).await?;
        ensure!(
            takeover.backlogs == u64::from(args.mailboxes),
            "the new owner knows {} blocked mailboxes, not {}",
            takeover.backlogs,
            args.mailboxes
        );
        let first_deliveries = blocked.arrived(first, takeover.assigned).await?;
        eprintln!(
            "round {} of {}: {:.3} s, slowest partition {:.3} s, a first delivery of each after {:.3} s",
            round + 1,
            args.rounds,
            takeover.all.as_secs_f64(),
            takeover.slowest.as_secs_f64(),
            first_deliveries.as_secs_f64()
        );
        report.add(takeover, first_deliveries);
        blocked.all_held().await?;
    }
    report.set_journal_records(blocked.journal_records().await?);
    Ok(report)
}

/// Waits until the log of the new owner says that it has every partition.
async fn taken_over(args: &Args, blocked: &mut Blocked) -> Result<Takeover> {
    let partitions = args.partitions.get() as usize;
    let found = async {
        loop {
            if let Some(takeover) = lines::takeover(&blocked.owner_log()?, partitions)? {
                return anyhow::Ok(takeover);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(PATIENCE, found).await {
        Ok(found) => found,
        Err(_) => bail!("not every partition was taken over within {PATIENCE:?}"),
    }
    .context("the log of the new owner")
}
