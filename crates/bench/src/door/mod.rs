//! The front door, measured: sizing on, sizing off, and sizing on a Redis that answers late, beside the floor.

mod installation;
mod load;
mod report;
mod slow;

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use self::installation::FLOOR_TENANT;
use self::installation::Installation;
use self::report::{Figures, Report};
use crate::events::Events;
use crate::recipe::ServicesArgs;

/// Requests that are not measured at the begin of every round: connections and producers are warm by then.
const WARM_UP_OF_ROUND: u32 = 320;
/// Sent to each variant before the first round. Past 1,024 a sender is at the widest split and stays there.
const WARM_UP: u32 = 3_000;
/// Redraws of a bar cost time: it moves every so many requests of a connection.
const BAR_STEP: u32 = 64;

/// How much is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; in each, every variant has a turn.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Events of a turn.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    events: u32,
    /// Keep-alive connections; each has one request under way.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,
    /// Async worker threads of every server.
    #[arg(long, default_value = "2")]
    workers: NonZeroU32,
    /// Partitions of the topic.
    #[arg(long, default_value = "64")]
    partitions: NonZeroU32,
    /// Decides what the events say.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// By how much the slow Redis is late, in milliseconds.
    #[arg(long, default_value_t = 5_000)]
    redis_delay_ms: u64,
    #[command(flatten)]
    services: ServicesArgs,
}

/// What takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Floor,
    SizingOn,
    SizingOff,
    SlowRedis,
}

impl Variant {
    const ALL: [Self; 4] = [Self::Floor, Self::SizingOn, Self::SizingOff, Self::SlowRedis];

    const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::SizingOn => "door, sizing on",
            Self::SizingOff => "door, sizing off",
            Self::SlowRedis => "door, slow redis",
        }
    }
}

/// Runs the rounds and prints the report.
pub(crate) async fn run(args: Args) -> Result<()> {
    let delay = Duration::from_millis(args.redis_delay_ms);
    eprintln!("door: starting a bare handler and three doors with {} workers each ...", args.workers);
    let mut installation = Installation::start(&args, delay).await?;
    let measured = measure(&args, &mut installation).await;
    let checked = match &measured {
        Ok((_, accepted)) => installation.check(*accepted).await,
        Err(_) => Ok(()),
    };
    let measured = measured.and_then(|(report, _)| checked.map(|()| report));
    let report = measured.inspect_err(|_| eprint!("{}", installation.last_log_lines()))?;
    installation.end().await;
    eprint!("{}", report.table());
    println!("{}", serde_json::to_string(&report.summary())?);
    Ok(())
}

/// The rounds, and how many events were accepted in all.
async fn measure(args: &Args, installation: &mut Installation) -> Result<(Report, u64)> {
    let mut events = Events::new(args.seed);
    let mut accepted = 0;
    eprintln!("door: warming up");
    for variant in Variant::ALL {
        let warm_up = Turn { count: WARM_UP, connections: args.connections, bar: &ProgressBar::hidden() };
        accepted += warm_up.take(installation.target(variant), &mut events).await?.accepted;
    }
    installation.slow_down_redis();
    let bar = bar(u64::from(args.rounds) * u64::from(args.events) * Variant::ALL.len() as u64);
    let mut report = Report::default();
    for round in 0..args.rounds {
        // Another one begins each time: none of them always follows the same one.
        let mut order = Variant::ALL;
        order.rotate_left(round as usize % Variant::ALL.len());
        let mut line = format!("round {} of {}:", round + 1, args.rounds);
        for variant in order {
            bar.set_message(variant.name());
            let target = installation.target(variant);
            let warm_up =
                Turn { count: WARM_UP_OF_ROUND, connections: args.connections, bar: &ProgressBar::hidden() };
            accepted += warm_up.take(target, &mut events).await?.accepted;
            let cpu = installation.cpu(variant);
            let turn = Turn { count: args.events, connections: args.connections, bar: &bar };
            let taken = turn.take(target, &mut events).await.with_context(|| variant.name())?;
            accepted += taken.accepted;
            let cpu = installation.cpu(variant).zip(cpu).map(|(after, before)| after.saturating_sub(before));
            let figures = Figures::of(taken, cpu);
            line += &format!("  {} {:.0}/s", variant.name(), figures.events_per_s);
            report.add(variant, figures);
        }
        bar.suspend(|| eprintln!("{line}"));
    }
    bar.finish_and_clear();
    Ok((report, accepted))
}

/// One turn of a variant.
struct Turn<'a> {
    count: u32,
    connections: u32,
    bar: &'a ProgressBar,
}

impl Turn<'_> {
    async fn take(&self, target: &load::Target, events: &mut Events) -> Result<load::Taken> {
        let requests = events.requests(self.count);
        let taken = load::run(target, self.connections, requests, self.bar).await?;
        ensure!(
            taken.accepted == u64::from(self.count),
            "{} of {} were answered",
            taken.accepted,
            self.count
        );
        Ok(taken)
    }
}

fn bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}
