//! Measurements: what a part costs beside the least that it could cost, as ratios of one run on real services.
//!
//! **Always holds**: the variants of a run take turns, round by round, so that what else the machine does meets all of
//! them; what was answered 202 is counted in the log at the end; standard output is one line of JSON.
//!
//! **Deliberately absent**: verdicts on time. A goal that is missed is printed, and is no failure.

mod door;
mod floor;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

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
        Command::Door(args) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(door::run(args))
        }
        // As the binary makes its own, so that TOKIO_WORKER_THREADS holds for both.
        Command::Floor(args) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(floor::run(args))
        }
    }
}
