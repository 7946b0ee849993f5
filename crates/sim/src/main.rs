//! The command line of the simulations. What a person reads goes to standard error; the one line of JSON to standard out.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use mailrail_sim::autoscale::{mutation, summary, survey};
use mailrail_sim::journal;
use mailrail_sim::mailboxes::{RATE_MAX, RATE_MIN, Summary, Survey, plot};

/// Simulations in virtual time.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The delivery protocol under everything that goes wrong; fails if a seed does, or if a rule can be left out unseen.
    Journal {
        /// How many seeds; each is a run of its own.
        #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
        seeds: u64,
        /// The first of them.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Prints all that happens, of the one seed given with `--seeds 1`.
        #[arg(long)]
        trace: bool,
        /// Runs with this rule switched off, as the table names it; only with `--trace`.
        #[arg(long, requires = "trace")]
        without: Option<String>,
    },
    /// How the chart scales match and deliver, with recorded lag; fails if it flaps, moves partitions too often, is too slow, or
    /// scales on what waits; and if the model is not as recorded.
    Autoscale {
        /// The chart's values.
        #[arg(long, default_value = "helm/mailrail/values.yaml")]
        values: PathBuf,
        /// Moments, out of 15 seconds, at which KEDA and the autoscaler each may look first: so many, in all pairs.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=15))]
        phases: u64,
        /// Loads that stay, from little to what the most replicas can just do: so many.
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=200))]
        levels: u32,
    },
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

/// Seeds that a rule is looked for at least: each is missed within this many.
const CATCH_MIN: u64 = 1000;

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Journal { seed, trace: true, without, seeds } => {
            anyhow::ensure!(seeds == 1, "--trace is of one seed: add --seeds 1");
            trace(seed, without.as_deref())
        }
        Command::Journal { seeds, seed, .. } => protocol(&journal::Survey { seed, seeds }),
        Command::Autoscale { values, phases, levels } => autoscale(&values, phases, levels),
        Command::Mailboxes { rates, hours, seed, plot } => mailboxes(&Survey { rates, hours, seed }, plot),
    }
}

fn protocol(survey: &journal::Survey) -> Result<()> {
    let journal::Survey { seed, seeds } = *survey;
    eprintln!("journal: {seeds} seeds from {seed} on");
    let step = seeds.div_ceil(10);
    let total = survey.run(|done| {
        if done.is_multiple_of(step) || done == seeds {
            eprintln!("  {done} of {seeds}");
        }
    });
    eprintln!(
        "{} deliveries, {} takeovers; received again: {} because an answer was lost, {} after a takeover",
        total.deliveries, total.takeovers, total.reply_lost, total.after_takeover
    );
    for failed in &total.failed {
        eprintln!("FAILED seed {}: {}", failed.seed, failed.failure);
        eprintln!("  replay: cargo run -p mailrail-sim -- journal --seeds 1 --trace --seed {}", failed.seed);
    }
    eprintln!("each rule switched off, and the first seed that sees it:");
    let caught: Vec<_> = journal::Mutation::ALL
        .iter()
        .map(|mutation| {
            let caught = journal::Survey { seed, seeds: seeds.max(CATCH_MIN) }.catches(mutation);
            eprintln!("{}", journal::row(mutation, caught.as_ref()));
            caught
        })
        .collect();
    println!("{}", serde_json::to_string(&journal::Summary::of(seeds, &total, &caught))?);
    Ok(journal::Summary::check(&total, &caught)?)
}

fn trace(seed: u64, without: Option<&str>) -> Result<()> {
    let named = |name| journal::Mutation::ALL.iter().find(|mutation| mutation.name == name);
    let mutation = match without {
        Some(name) => Some(named(name).with_context(|| format!("no rule is called {name}"))?),
        None => None,
    };
    let mut print = |line: String| println!("{line}");
    let run = journal::run(seed, mutation, Some(&mut print));
    println!("{run:?}");
    run.failure.map_or(Ok(()), |failure| Err(failure.into()))
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

fn autoscale(values: &Path, phases: u64, levels: u32) -> Result<()> {
    let text =
        std::fs::read_to_string(values).with_context(|| format!("cannot read {}", values.display()))?;
    let survey = survey::Survey::new(&text, phases, levels)?;
    eprintln!("autoscale: figures of {}, lag and rates as recorded", values.display());
    for (role, rates) in survey.rates() {
        eprintln!(
            "  {}: a replica does {:.0} records/s, commits are {:.2} s behind, a hand-over takes {:.1} s",
            role.name(),
            rates.per_replica,
            rates.behind,
            rates.hand_over
        );
    }
    eprintln!("the model beside what was recorded:");
    let proofs = survey.proofs();
    proofs.iter().for_each(|proof| eprintln!("{}", summary::proof_row(proof)));
    eprintln!("scenarios, the worst of {} phases; {}:", phases * phases, summary::limits_row());
    let outcomes = survey.run(|outcome| eprintln!("{}", summary::outcome_row(outcome)));
    eprintln!("wrong figures, and what notices them:");
    let caught: Vec<bool> = mutation::MUTATIONS
        .iter()
        .map(|mutation| {
            let caught = survey.catches(mutation);
            eprintln!("{}", summary::mutation_row(mutation, caught.as_ref()));
            caught.is_some()
        })
        .collect();
    let summary = summary::Summary::of(&outcomes, &proofs, &caught);
    println!("{}", serde_json::to_string(&summary)?);
    Ok(summary.check()?)
}
