//! Measurements: what a part costs beside the least that it could cost, as ratios of one run on real services (acceptance N24).
//!
//! **Always holds**: the variants of a run take turns, round by round, so that what else the machine does meets all of
//! them; what was answered 202 is counted in the log at the end; standard output is one line of JSON.
//!
//! **Deliberately absent**: verdicts on time. A goal that is missed is printed, and is no failure.

mod clients;
mod deliver;
mod door;
mod events;
mod figures;
mod floor;
mod http;
mod lag;
mod mail;
mod matching;
mod post;
mod process;
mod recipe;
mod sink;
mod stage;
mod takeover;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

/// Measures mailrail beside a floor. The last line of standard output is JSON.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The front door beside a bare handler that only produces the same bytes, on real Kafka, Postgres and Redis.
    Door(door::Args),
    /// Deliver beside a bare client, and the way from the door to a receiver beside two bare hops through Kafka.
    Deliver(deliver::Args),
    /// The bare client itself; `deliver` starts it as a process of its own.
    #[command(hide = true)]
    Post(post::Args),
    /// How long a new owner needs for partitions with 50,000 blocked mailboxes whose owner was killed.
    Takeover(takeover::Args),
    /// The index of filters beside crates that match or read JSON, in time on the processor; needs no service.
    Match(matching::Args),
    /// The match stage beside a bare loop that consumes the same records and produces as many, on real Kafka.
    MatchStage(stage::Args),
    /// Records what an autoscaler reads: the lag of match and deliver under known loads, on real Kafka.
    Lag(lag::Args),
    /// The bare loop itself; `match-stage` starts it as a process of its own.
    #[command(hide = true)]
    Loop(stage::LoopArgs),
    /// The bare handler itself; `door` starts it as a process of its own.
    #[command(hide = true)]
    Floor(floor::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        // One thread sends all the load: what it takes from the servers is the same for every variant.
        Command::Door(args) => one_thread()?.block_on(door::run(args)),
        Command::Deliver(args) => one_thread()?.block_on(deliver::run(args)),
        Command::Takeover(args) => one_thread()?.block_on(takeover::run(args)),
        Command::MatchStage(args) => one_thread()?.block_on(stage::run(args)),
        Command::Lag(args) => one_thread()?.block_on(lag::run(args)),
        Command::Loop(args) => stage::run_loop(&args),
        Command::Match(args) => matching::run(&args),
        // As the binary makes its own, so that TOKIO_WORKER_THREADS holds for both.
        Command::Floor(args) => many_threads()?.block_on(floor::run(args)),
        Command::Post(args) => many_threads()?.block_on(post::run(args)),
    }
}

fn one_thread() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn many_threads() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
