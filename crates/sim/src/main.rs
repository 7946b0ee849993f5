//! The command line of the simulations. What a person reads goes to standard error; the one line of JSON to standard out.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use mailrail_sim::mailboxes::{RATE_MAX, RATE_MIN, Summary, Survey, plot};

/// Simulations in virtual time.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Width changes of senders that keep their rate; fails if our rule flaps, or if the plain one does not.
    Mailboxes {
        /// How many senders, their rates spread evenly over a logarithmic scale.
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        rates: u32,
        /// Virtual hours of each.
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        hours: u32,
        /// Decides the rates and the arrivals.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Writes the plot there, as SVG.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
}

fn main() -> Result<()> {
    let Command::Mailboxes { rates, hours, seed, plot } = Cli::parse().command;
    mailboxes(&Survey { rates, hours, seed }, plot)
}

fn mailboxes(survey: &Survey, path: Option<PathBuf>) -> Result<()> {
    let Survey { rates, hours, seed } = *survey;
    eprintln!(
        "mailboxes: {rates} senders of {RATE_MIN} to {RATE_MAX} payloads per minute, {hours} virtual hours each, seed {seed}"
    );
    let step = rates.div_ceil(10);
    let samples = survey.run(|done| {
        if done.is_multiple_of(step) || done == rates {
            eprintln!("  {done} of {rates}");
        }
    });
    eprint!("{}", Summary::table(survey, &samples));
    if let Some(path) = path {
        std::fs::write(&path, plot(survey, &samples))
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("plot: {}", path.display());
    }
    let summary = Summary::of(survey, &samples);
    println!("{}", serde_json::to_string(&summary)?);
    summary.check().with_context(|| format!("seed {seed}"))
}
