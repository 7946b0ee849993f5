//! The match stage, measured end to end: events of a backlog in Kafka → deliveries in Kafka, beside a bare loop that consumes
//! the same records and produces as many.
//!
//! Both are timed by the records that they produced: from when a tenth of them was there to the last one.

mod floor;
mod report;
mod rig;
mod turn;

use std::num::NonZeroU32;

use anyhow::Result;

pub(crate) use self::floor::{Args as LoopArgs, run as run_loop};
use self::report::Report;
use self::rig::Rig;
use crate::recipe::ServicesArgs;

/// One event in so many matches a subscription; all others match none.
pub(crate) const ONE_IN: u64 = 100;

/// How much is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; in each, the stage and the floor go through the same records.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Events of a round.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100_000..=100_000_000))]
    events: u64,
    /// Subscriptions to the events' type; each asks for two values of the body.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    subscriptions: u32,
    /// Bytes of an event's body, about.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(800..=100_000))]
    body_bytes: u32,
    /// Async worker threads of the stage. It matches on threads of its own, as many as there are processors.
    #[arg(long, default_value = "2")]
    workers: NonZeroU32,
    /// Partitions of the topics.
    #[arg(long, default_value = "16")]
    partitions: NonZeroU32,
    #[command(flatten)]
    services: ServicesArgs,
}

/// Runs the rounds and prints the report.
pub(crate) async fn run(args: Args) -> Result<()> {
    let mut rig = Rig::start(&args).await?;
    let measured = measure(&args, &mut rig).await;
    rig.end().await;
    let report = measured?;
    eprint!("{}", report.table());
    println!("{}", serde_json::to_string(&report.summary())?);
    Ok(())
}

async fn measure(args: &Args, rig: &mut Rig) -> Result<Report> {
    let mut report = Report::default();
    for round in 0..args.rounds {
        let round_of = format!("round {} of {}", round + 1, args.rounds);
        eprintln!("{round_of}: appending {} events ...", args.events);
        let from = rig.fill(args).await?;
        // The other one begins each time.
        let stage_first = round % 2 == 0;
        for stage in [stage_first, !stage_first] {
            let turn =
                if stage { turn::stage(args, rig).await? } else { turn::floor(args, rig, &from).await? };
            eprintln!("{round_of}: {} {turn}", if stage { "stage" } else { "floor" });
            report.add(stage, turn);
        }
    }
    rig.check(u64::from(args.rounds) * args.events).await?;
    Ok(report)
}
