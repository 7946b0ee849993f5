//! The command line: roles, the tools for operators, the demo.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use mailrail_demo::receiver::{ReceiverArgs, ReceiverEndpoint};

use crate::client::{
    ApplyArgs, ClassesArgs, DlqArgs, EndpointsArgs, ExplainArgs, MailboxesArgs, SendArgs, ShedArgs,
    StatusArgs, WhyArgs,
};
use crate::health::HealthArgs;
use crate::prepare::PrepareArgs;
use crate::settings::CheckConfig;

/// An events rail with mailboxes.
#[derive(Debug, Parser)]
#[command(name = "mailrail", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the front door: accept events over HTTP
    Ingest(RoleArgs),
    /// Run stage one: decide which subscriptions want an event
    Match(RoleArgs),
    /// Run stage two: bring deliveries to endpoints
    Deliver(RoleArgs),
    /// Run the control API
    Control(RoleArgs),
    /// Run every role in one process, against real services
    All(RoleArgs),
    /// Run every role in one process, on embedded parts: nothing else is needed
    Dev(DevArgs),
    /// Make topics that are missing, verify the others, migrate the store; deletes nothing
    Prepare(PrepareArgs),
    /// Ask a running process at its admin port whether it is ready
    Health(HealthArgs),
    /// Check a settings file and the environment
    CheckConfig(CheckConfig),
    /// Create or update classes, tenants, apps, endpoints, subscriptions, integrations and keys from a file
    Apply(ApplyArgs),
    /// Send one event
    Send(SendArgs),
    /// Show what is waiting
    Status(StatusArgs),
    /// Show what waits in which mailbox, how wide it is split and why
    Mailboxes(MailboxesArgs),
    /// Say what a delivery waits for, and until when; or how it ended
    Why(WhyArgs),
    /// Say why an event passes a filter or not, clause by clause; or who gets an accepted event, and who does not and why
    Explain(ExplainArgs),
    /// List, change or delete classes of mailboxes
    Classes(ClassesArgs),
    /// List endpoints; hold one's mail for now, or let it go on
    Endpoints(EndpointsArgs),
    /// List, show and count dead letters, and put them back; list records that could not be read
    Dlq(DlqArgs),
    /// Turn a third party's webhooks away for now, or let them in again
    Shed(ShedArgs),
    /// Run the sample receiver, which verifies signatures and counts what arrives
    Receiver(ReceiverCommand),
    /// Print a generated reference
    #[command(hide = true)]
    Docs(DocsArgs),
}

/// Arguments of a role.
#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    /// The settings file; without it the environment alone is read
    #[arg(long, env = "MAILRAIL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

/// Arguments of `dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// The folder that holds everything: log, store, keys
    #[arg(long, default_value = "mailrail-data")]
    pub(crate) data: PathBuf,
    /// A settings file, read over the settings of `dev`
    #[arg(long, env = "MAILRAIL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Set up two tenants with endpoints of a built-in receiver, and play webhook payloads through them
    #[arg(long)]
    pub(crate) demo: bool,
    /// With --demo: end after the summary, with one line of JSON on standard output
    #[arg(long, requires = "demo")]
    pub(crate) exit: bool,
    /// With --demo: how many events to play [default: every payload once for each tenant]
    #[arg(long, requires = "demo", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) events: Option<u32>,
}

/// Arguments of `docs`.
#[derive(Debug, Args)]
pub(crate) struct DocsArgs {
    /// Which one
    #[arg(value_enum)]
    pub(crate) page: DocsPage,
}

/// The generated references.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum DocsPage {
    /// Settings: keys, types, defaults, environment variables.
    Settings,
    /// JSON Schema of the set-up file.
    SetupSchema,
    /// Metrics with types and help.
    Metrics,
    /// Problem codes of the APIs.
    Problems,
}

/// Arguments of `receiver`.
#[derive(Args)]
pub(crate) struct ReceiverCommand {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// An endpoint, NAME=SECRET[:BEHAVIOUR], where a behaviour is for example ok, status=500 or delay=250,ok
    #[arg(long = "endpoint", required = true, value_name = "ENDPOINT")]
    endpoints: Vec<ReceiverEndpoint>,
    /// A file that gets every receipt as a line of JSON
    #[arg(long)]
    journal: Option<PathBuf>,
    /// Print a line for every receipt
    #[arg(long)]
    print: bool,
}

impl std::fmt::Debug for ReceiverCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiverCommand").field("listen", &self.listen).finish_non_exhaustive()
    }
}

impl From<ReceiverCommand> for ReceiverArgs {
    fn from(command: ReceiverCommand) -> Self {
        let ReceiverCommand { listen, endpoints, journal, print } = command;
        ReceiverArgs { listen, endpoints, journal, print }
    }
}
