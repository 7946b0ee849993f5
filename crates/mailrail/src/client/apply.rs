//! `mailrail apply`: a set-up file goes to the control API; what it changed, and what it made, is printed once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::{Context as _, Result, anyhow, bail};
use mailrail_control::setup_file::{self, Path, SetupProblem};
use mailrail_egress::operator::{ApiClient, ApiError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Output;
use super::access::ControlArgs;
use crate::say::print;

/// Most bytes of a set-up file: what the control API takes.
const FILE_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Kinds in the order of the table, as the answer names them.
const KINDS: [(&str, &str); 8] = [
    ("classes", "classes"),
    ("tenants", "tenants"),
    ("keys", "keys"),
    ("event_types", "event types"),
    ("apps", "apps"),
    ("endpoints", "endpoints"),
    ("subscriptions", "subscriptions"),
    ("integrations", "integrations"),
];

/// Arguments of `mailrail apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// The set-up file (YAML or JSON); '-' reads standard input
    #[arg(short, long, value_name = "FILE", required_unless_present = "print_schema")]
    pub(crate) file: Option<String>,
    /// Also delete what the listed tenants have and the file does not list
    #[arg(long)]
    pub(crate) prune: bool,
    /// Check and count only; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the JSON Schema of set-up files and end
    #[arg(long)]
    pub(crate) print_schema: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Applies the file and prints what happened.
///
/// # Errors
/// When the file or the control API refuses: the text lists every problem as `file:line: …`.
pub(crate) async fn run(args: ApplyArgs) -> Result<()> {
    if args.print_schema {
        return print(&format!("{:#}\n", setup_file::setup_schema()));
    }
    let file = args.file.as_deref().context("name a set-up file with --file")?;
    let text = read_file(file)?;
    let options = Options { prune: args.prune, dry_run: args.dry_run };
    let answer = apply_text(&args.control.client()?, file, &text, options).await?;
    args.output.print(&answer, |answer| shown(answer, file))
}

/// How a file is applied.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Delete what is not listed.
    pub(crate) prune: bool,
    /// Change nothing.
    pub(crate) dry_run: bool,
}

/// Applies a set-up text; `file` is its name in problems. Gives the API's answer.
///
/// # Errors
/// As [`run`].
pub(crate) async fn apply_text(api: &ApiClient, file: &str, text: &str, options: Options) -> Result<Value> {
    let document = read_document(file, text, &|name| std::env::var(name).ok())?;
    let body = json!({ "setup": document, "prune": options.prune, "dry_run": options.dry_run });
    api.post("/v1/apply", &body).await.map_err(|error| refused(file, text, error))
}

/// The document with its variables resolved.
fn read_document(file: &str, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Value> {
    let mut document = setup_file::parse_yaml(text).map_err(|problem| listed(file, text, vec![problem]))?;
    let mut problems = setup_file::resolve_env(&mut document, variable);
    if !problems.is_empty() {
        // The API is not asked, so whatever can be said here is said here: all problems together.
        problems.extend(
            setup_file::check_format(document).into_iter().filter(|p| p.code != setup_file::code::ENV),
        );
        return Err(listed(file, text, problems));
    }
    Ok(document)
}

fn read_file(file: &str) -> Result<String> {
    let mut text = String::new();
    let read = if file == "-" {
        std::io::stdin().take(FILE_MAX_BYTES + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|f| f.take(FILE_MAX_BYTES + 1).read_to_string(&mut text))
    };
    read.with_context(|| format!("set-up file {file}"))?;
    if text.len() as u64 > FILE_MAX_BYTES {
        bail!("set-up file {file} is larger than 8 MiB: split it by tenant");
    }
    Ok(text)
}

fn refused(file: &str, text: &str, error: ApiError) -> anyhow::Error {
    let problems: Vec<SetupProblem> =
        error.problems.iter().filter_map(|p| serde_json::from_value(p.clone()).ok()).collect();
    if problems.is_empty() { error.into() } else { listed(file, text, problems) }
}

/// `file:line: path: detail (code)`, in the order of the file.
fn listed(file: &str, text: &str, problems: Vec<SetupProblem>) -> anyhow::Error {
    let mut lines: Vec<_> = problems.into_iter().map(|p| (line(text, &p), p)).collect();
    lines.sort_by_key(|(line, _)| line.unwrap_or(0));
    let mut list = format!("the set-up is not valid; nothing was changed ({} to repair)", lines.len());
    for (line, problem) in lines {
        list.push_str(&format!("\n  {}: {problem}", place(file, line)));
    }
    anyhow!(list)
}

fn line(text: &str, problem: &SetupProblem) -> Option<usize> {
    problem.line.or_else(|| setup_file::line_of(text, &Path::parse(&problem.path)?))
}

fn place(file: &str, line: Option<usize>) -> String {
    line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

#[derive(Deserialize)]
struct Answer {
    counts: BTreeMap<String, Tally>,
    secrets: Vec<NewSecret>,
    keys: Vec<NewKey>,
    warnings: Vec<SetupProblem>,
    dry_run: bool,
}

#[derive(Deserialize, Default, Clone, Copy)]
struct Tally {
    created: u64,
    updated: u64,
    unchanged: u64,
    deleted: u64,
}

#[derive(Deserialize)]
struct NewSecret {
    tenant: String,
    endpoint: String,
    secret: String,
}

#[derive(Deserialize)]
struct NewKey {
    tenant: String,
    key: String,
    token: String,
}

/// The answer for people.
fn shown(answer: &Value, file: &str) -> Result<String> {
    let answer: Answer = serde_json::from_value(answer.clone()).context("the answer of the control API")?;
    let mut out = String::new();
    if answer.dry_run {
        out.push_str("dry run: nothing was changed\n");
    }
    writeln!(out, "{:<14}{:>10}{:>10}{:>11}{:>10}", "", "created", "updated", "unchanged", "deleted")?;
    for (key, name) in KINDS {
        let Tally { created, updated, unchanged, deleted } =
            answer.counts.get(key).copied().unwrap_or_default();
        writeln!(out, "{name:<14}{created:>10}{updated:>10}{unchanged:>11}{deleted:>10}")?;
    }
    for warning in &answer.warnings {
        writeln!(out, "warning: {file}: {warning}")?;
    }
    if !answer.keys.is_empty() || !answer.secrets.is_empty() {
        out.push_str("\nmade now and not shown again; keep them safe:\n");
    }
    for NewKey { tenant, key, token } in &answer.keys {
        writeln!(out, "  API key         {tenant}/{key}  {token}")?;
    }
    for NewSecret { tenant, endpoint, secret } in &answer.secrets {
        writeln!(out, "  signing secret  {tenant}/{endpoint}  {secret}")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
