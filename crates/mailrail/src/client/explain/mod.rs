//! `mailrail explain`: why an event passes a filter or not; or who gets an event that was accepted, and who does not and why.
//!
//! With a filter and an event nobody is asked: it is the code that the control API and match run, so the answer is the same,
//! before anything is set up and without a token, and the event stays on this machine.

mod shown;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use mailrail_control::{EXPLAIN_PAGE_MAX, setup_file, test_filter};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::Output;
use super::access::ControlArgs;
use super::segment::segment;

/// Most bytes of a filter file: a hundred times the longest filter.
const FILTER_MAX_BYTES: u64 = 1024 * 1024;
/// Most bytes of an event file: far above every ingest's limit.
const EVENT_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Arguments of `mailrail explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// An accepted event, by the id that ingest answered with: it is looked for in the log
    #[arg(required_unless_present = "filter", conflicts_with_all = ["filter", "event"])]
    pub(crate) event_id: Option<String>,
    /// A file with a filter as it stands in a set-up file, such as {pattern: {…}}; '-' reads standard input
    #[arg(long, value_name = "FILE", requires = "event")]
    pub(crate) filter: Option<PathBuf>,
    /// A file with a CloudEvent in JSON to try the filter on, here and without a server; '-' reads standard input
    #[arg(long, value_name = "FILE", requires = "filter")]
    pub(crate) event: Option<PathBuf>,
    /// Only this subscription
    #[arg(long, conflicts_with = "filter", value_name = "ID")]
    pub(crate) subscription: Option<String>,
    /// Only what goes to this endpoint
    #[arg(long, conflicts_with = "filter", value_name = "ID")]
    pub(crate) endpoint: Option<String>,
    /// Look for the event in this pipeline only, and so further back
    #[arg(long, conflicts_with = "filter", value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
    /// How many recipients
    #[arg(long, conflicts_with = "filter", value_parser = clap::value_parser!(u32).range(1..=i64::from(EXPLAIN_PAGE_MAX)))]
    pub(crate) limit: Option<u32>,
    /// Go on behind the page before
    #[arg(long, conflicts_with = "filter", value_name = "NEXT")]
    pub(crate) after: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Explains and prints.
///
/// # Errors
/// When a file cannot be read or is not what it should be, or the control API does not answer or refuses.
pub(crate) async fn run(args: ExplainArgs) -> Result<()> {
    let (answer, text) = match (&args.event_id, &args.filter, &args.event) {
        (Some(id), ..) => {
            let answer = args.control.client()?.get(&path(id, &args)).await?;
            let text = shown::event(&answer)?;
            (answer, text)
        }
        (None, Some(filter), Some(event)) => {
            let answer = local(filter, event)?;
            let text = shown::filter(&answer)?;
            (answer, text)
        }
        _ => bail!("give the id of an event, or --filter and --event"),
    };
    args.output.print(&answer, |_| Ok(text))
}

fn path(id: &str, args: &ExplainArgs) -> String {
    let limit = args.limit.map(|limit| limit.to_string());
    let query: Vec<String> = [
        ("pipeline", &args.pipeline),
        ("subscription", &args.subscription),
        ("endpoint", &args.endpoint),
        ("limit", &limit),
        ("after", &args.after),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        Some(format!("{name}={}", utf8_percent_encode(value.as_deref()?, NON_ALPHANUMERIC)))
    })
    .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("/v1/events/{}/explain{mark}{}", segment(id), query.join("&"))
}

/// Tries a filter on an event, both from files. The answer is that of `POST /v1/filters/test`.
fn local(filter: &Path, event: &Path) -> Result<Value> {
    if filter == Path::new("-") && event == Path::new("-") {
        bail!("standard input is the filter or the event: give a file for one of them");
    }
    let name = filter.display();
    let text = String::from_utf8(read(filter, FILTER_MAX_BYTES)?)
        .with_context(|| format!("filter file {name} is not UTF-8"))?;
    let mut tree =
        setup_file::parse_yaml(&text).map_err(|problem| anyhow!("filter file {name}: {problem}"))?;
    // As it is cut out of a set-up file, with its key.
    if let Some(inner) =
        tree.as_object_mut().filter(|all| all.len() == 1).and_then(|all| all.remove("filter"))
    {
        tree = inner;
    }
    let event = read(event, EVENT_MAX_BYTES)?;
    Ok(serde_json::to_value(test_filter(&tree, &event)?)?)
}

fn read(file: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(most + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(most + 1).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("file {}", file.display()))?;
    if bytes.len() as u64 > most {
        bail!("file {} is larger than {} MiB", file.display(), most / (1024 * 1024));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
