//! Lag, recorded: real roles on a real Kafka under a known load, and what KEDA's Kafka trigger would read meanwhile.
//!
//! Nothing is judged here. The recordings are small files that `mailrail-sim autoscale` learns from: what one replica does in a
//! second, how far commits are behind what is done, what a change of owners costs; and they prove its model.

mod file;
mod fleet;
mod offsets;
mod plan;
mod receiver;
mod recording;

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use self::plan::PLANS;
use self::recording::Recording;
use crate::recipe::ServicesArgs;

/// What is recorded, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the recordings.
    #[arg(long, default_value = "crates/sim/data/lag")]
    out: PathBuf,
    /// Only these recordings, by name.
    #[arg(long)]
    only: Vec<String>,
    /// Partitions of each topic.
    #[arg(long, default_value = "8")]
    partitions: NonZeroU32,
    /// Async worker threads of each process.
    #[arg(long, default_value = "1")]
    workers: NonZeroU32,
    /// Requests that one deliver process has open at once. With the receiver's answer time it decides what a process does.
    #[arg(long, default_value = "4")]
    in_flight: NonZeroU32,
    /// How long the receiver takes to answer, in milliseconds.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    answer_ms: u64,
    /// Decides the bodies and how arrivals vary.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    services: ServicesArgs,
}

/// Makes the recordings, one after the other, each on topics of its own.
pub(crate) async fn run(args: Args) -> Result<()> {
    for name in &args.only {
        let names: Vec<&str> = PLANS.iter().map(|plan| plan.name).collect();
        ensure!(
            names.contains(&name.as_str()),
            "no recording is called {name}: there are {}",
            names.join(", ")
        );
    }
    std::fs::create_dir_all(&args.out)?;
    let mut samples = 0;
    let mut made = 0;
    for plan in PLANS.iter().filter(|plan| args.only.is_empty() || args.only.iter().any(|it| it == plan.name))
    {
        eprintln!("lag: {} ({} s of load) ...", plan.name, plan.seconds());
        let mut recording = Recording::start(&args, plan).await?;
        let recorded = recording.run(plan).await;
        if recorded.is_err() {
            eprint!("{}", recording.last_log_lines());
        }
        recording.end().await;
        let rows = recorded?;
        samples += rows.len();
        made += 1;
        let path = args.out.join(format!("{}.csv", plan.name));
        std::fs::write(&path, file::text(&args, plan, &rows))?;
        eprintln!("lag: {} samples in {}", rows.len(), path.display());
    }
    println!("{}", serde_json::json!({ "recordings": made, "samples": samples }));
    Ok(())
}
