//! `mailrail dlq`: dead letters, and records in quarantine: listed, shown, counted, put back. Over the control API, or straight
//! from the log when that API is away.

mod filter;
mod replay;
mod source;
mod table;
mod topic;

use std::path::PathBuf;

use anyhow::{Result, bail};
use mailrail_control::{LetterCount, LetterList, QuarantineList, RATE_DEFAULT};
use serde::Serialize;
use serde_json::json;

use super::Output;
use super::access::ControlArgs;
use super::unknown;
use filter::{FilterArgs, Rate};
use source::Source;

/// Most pages that are asked for one list or count: a topic that does not end is a fault of what answers.
const PAGES_MAX: usize = 100_000;

/// Arguments of `mailrail dlq`.
#[derive(Debug, clap::Args)]
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    pub(crate) command: DlqCommand,
    /// Use the log itself, as the settings name it, and not the control API: for when that is down
    #[arg(long, global = true)]
    pub(crate) from_topic: bool,
    /// With --from-topic: the settings file; without it the environment alone is read
    #[arg(long, env = "MAILRAIL_CONFIG", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// With --from-topic: the folder of a `mailrail dev` that is stopped
    #[arg(long, value_name = "FOLDER", global = true)]
    pub(crate) data: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// What to do with dead letters.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters, the newest first
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// How many
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: u32,
        /// List the records that could not be read instead
        #[arg(long)]
        quarantine: bool,
    },
    /// Show one: by its delivery, or by its position as lists show it
    Show {
        /// The delivery (dlv_…), or partition:offset
        id: String,
        /// Show a record that could not be read instead, by its position
        #[arg(long)]
        quarantine: bool,
        /// Show the payload as well
        #[arg(long)]
        payload: bool,
    },
    /// Count dead letters by reason and endpoint
    Count {
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Put dead letters back into their mailboxes, behind what waits there; each letter once
    Replay(ReplayArgs),
    /// List replays: who ordered them, when, and how far they are
    Replays,
    /// Wait for a replay to be over
    Watch {
        /// The replay (rpl_…)
        replay: String,
    },
    /// Stop a replay; what it put back stays where it is
    Cancel {
        /// The replay (rpl_…)
        replay: String,
    },
}

/// Arguments of `mailrail dlq replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Needed without any filter: all dead letters are meant
    #[arg(long)]
    pub(crate) all: bool,
    /// Letters that were put back before as well
    #[arg(long)]
    pub(crate) again: bool,
    /// Say how many letters it would be; put nothing back
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Most letters per second, as 50 or 50/s
    #[arg(long, default_value_t = Rate(RATE_DEFAULT))]
    pub(crate) rate: Rate,
    /// Do not wait for the end: the control API carries it on
    #[arg(long, conflicts_with = "from_topic")]
    pub(crate) detach: bool,
}

/// Does what was asked and prints the result.
///
/// # Errors
/// When the control API, or the log, does not answer or refuses.
pub(crate) async fn run(args: DlqArgs) -> Result<()> {
    if !args.from_topic && args.data.is_some() {
        bail!("--data goes with --from-topic");
    }
    let writes = matches!(&args.command, DlqCommand::Replay(it) if !it.dry_run)
        || matches!(args.command, DlqCommand::Cancel { .. });
    let source = match args.from_topic {
        true => Source::Topic(topic::open(args.config.as_deref(), args.data.as_deref(), writes).await?),
        false => Source::Api(args.control.client()?),
    };
    let output = args.output;
    let done = answer(&source, args.command, output).await;
    source.close().await;
    done
}

async fn answer(source: &Source, command: DlqCommand, output: Output) -> Result<()> {
    match command {
        DlqCommand::List { filter, limit, quarantine: false } => {
            let letters = list(source, &filter, limit as usize).await?;
            if letters.items.is_empty() {
                warn_of_unknown(source, &filter).await;
            }
            print(output, &letters, table::letters)
        }
        DlqCommand::List { filter, limit, quarantine: true } => {
            let records = quarantine(source, &filter, limit as usize).await?;
            if records.items.is_empty() {
                warn_of_unknown(source, &filter).await;
            }
            print(output, &records, table::quarantine)
        }
        DlqCommand::Show { id, quarantine: false, payload } => {
            print(output, &source.show(&id, payload).await?, table::letter)
        }
        DlqCommand::Show { id, quarantine: true, payload } => {
            print(output, &source.show_quarantined(&id, payload).await?, table::quarantined)
        }
        DlqCommand::Count { filter } => {
            let count = count_or_warn(source, &filter).await?;
            print(output, &count, table::count)
        }
        DlqCommand::Replay(args) if args.dry_run => {
            let count = count_or_warn(source, &args.filter).await?;
            let due = match args.again {
                true => Some(count.letters),
                false => count.redriven.map(|redriven| count.letters - redriven),
            };
            let answer = json!({ "dry_run": true, "would_redrive": due, "count": count });
            print(output, &answer, |_| table::would(&count, due))
        }
        DlqCommand::Replay(args) => replay::run(source, &args, output).await,
        DlqCommand::Replays => {
            let replays = source.replays().await?;
            print(output, &json!({ "items": replays }), |_| table::replays(&replays))
        }
        DlqCommand::Watch { replay } => replay::watch(source, &replay, output).await,
        DlqCommand::Cancel { replay } => print(output, &source.cancel(&replay).await?, table::replay),
    }
}

fn print<T: Serialize>(output: Output, answer: &T, text: impl FnOnce(&T) -> Result<String>) -> Result<()> {
    output.print(&serde_json::to_value(answer)?, |_| text(answer))
}

/// Pages until there are `limit`, or no more.
async fn list(source: &Source, filter: &FilterArgs, limit: usize) -> Result<LetterList> {
    let parts = filter.parts()?;
    let mut all = source.list(&parts, limit, None).await?;
    for _ in 0..PAGES_MAX {
        let Some(next) = all.next.clone().filter(|_| all.items.len() < limit && all.error.is_none()) else {
            return Ok(all);
        };
        let page = source.list(&parts, limit - all.items.len(), Some(&next)).await?;
        all.items.extend(page.items);
        all.looked += page.looked;
        (all.next, all.error) = (page.next, page.error);
    }
    bail!("the list of dead letters does not end: is this a mailrail control API?")
}

async fn quarantine(source: &Source, filter: &FilterArgs, limit: usize) -> Result<QuarantineList> {
    let parts = filter.parts()?;
    let mut all = source.quarantine(&parts, limit, None).await?;
    for _ in 0..PAGES_MAX {
        let Some(next) = all.next.clone().filter(|_| all.items.len() < limit && all.error.is_none()) else {
            return Ok(all);
        };
        let page = source.quarantine(&parts, limit - all.items.len(), Some(&next)).await?;
        all.items.extend(page.items);
        all.looked += page.looked;
        (all.next, all.error) = (page.next, page.error);
    }
    bail!("the list of records does not end: is this a mailrail control API?")
}

/// Nobody can say what is set up where only the log is asked.
async fn warn_of_unknown(source: &Source, filter: &FilterArgs) {
    if let Source::Api(api) = source {
        unknown::warn(api, filter.tenant.as_deref(), filter.endpoint.as_deref()).await;
    }
}

async fn count_or_warn(source: &Source, filter: &FilterArgs) -> Result<LetterCount> {
    let count = count(source, filter).await?;
    if count.letters == 0 {
        warn_of_unknown(source, filter).await;
    }
    Ok(count)
}

async fn count(source: &Source, filter: &FilterArgs) -> Result<LetterCount> {
    let parts = filter.parts()?;
    let mut all = source.count(&parts, None).await?;
    for _ in 0..PAGES_MAX {
        let Some(next) = all.next.clone().filter(|_| all.error.is_none()) else { return Ok(all) };
        all.and(source.count(&parts, Some(&next)).await?);
    }
    bail!("the count of dead letters does not end: is this a mailrail control API?")
}
