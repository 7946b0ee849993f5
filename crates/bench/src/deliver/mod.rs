//! Deliver, measured: deliveries/s of one process beside a bare client, and the way from the door to the receiver
//! beside two bare hops through the log.

mod hops;
mod latency;
mod report;
mod rig;
mod stages;
mod turn;

use std::num::NonZeroU32;

use anyhow::{Result, ensure};

use self::report::Report;
use self::rig::Rig;
use crate::recipe::ServicesArgs;

/// How much is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds of deliveries/s; in each, deliver and the floor have a turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Deliveries of a turn.
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    deliveries: u32,
    /// Requests under way: attempts of deliver, connections of the floor.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    in_flight: u32,
    /// Async worker threads of deliver and of the floor.
    #[arg(long, default_value = "2")]
    workers: NonZeroU32,
    /// Partitions of the topics.
    #[arg(long, default_value = "64")]
    partitions: NonZeroU32,
    /// Endpoints; each has 64 mailboxes.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    endpoints: u32,
    /// Rounds of latencies; in each, the pipeline and the hops have a turn. 0: none.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    latency_rounds: u32,
    /// Events/s of those, sent whether or not the ones before have arrived.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How long mailrail and the hops wait for more records before they send some, in milliseconds. The log's own default
    /// is 5.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    linger_ms: u32,
    /// Decides what the events say.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    services: ServicesArgs,
}

impl Args {
    /// Events of the run, at most.
    fn events_max(&self) -> u64 {
        let turns = u64::from(self.rounds) * 2 * u64::from(self.deliveries);
        let seconds = u64::from(self.latency_rounds) * u64::from(self.seconds) + latency::WARM_UP_SECONDS;
        turns + seconds * u64::from(self.rate)
    }
}

/// Runs the rounds and prints the report.
pub(crate) async fn run(args: Args) -> Result<()> {
    let mut rig = Rig::start(&args).await?;
    let measured = measure(&args, &mut rig).await;
    if measured.is_err() {
        eprint!("{}", rig.last_log_lines());
    }
    rig.end().await;
    let report = measured?;
    eprint!("{}", report.table());
    println!("{}", serde_json::to_string(&report.summary())?);
    Ok(())
}

async fn measure(args: &Args, rig: &mut Rig) -> Result<Report> {
    let mut report = Report::default();
    for round in 0..args.rounds {
        // The other one begins each time.
        let deliver_first = round % 2 == 0;
        for deliver in [deliver_first, !deliver_first] {
            let turn = if deliver { turn::deliver(args, rig).await? } else { turn::floor(args, rig).await? };
            let name = if deliver { "deliver" } else { "floor" };
            eprintln!("round {} of {}: {name} {turn}", round + 1, args.rounds);
            report.add_turn(deliver, turn);
        }
    }
    if args.latency_rounds > 0 {
        let first = rig.next;
        latency::run(args, rig, &mut report).await?;
        eprintln!("{}", stages::line(rig, first).await?);
    }
    rig.check().await?;
    ensure!(!report.is_empty(), "nothing was measured");
    Ok(report)
}
