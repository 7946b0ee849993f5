//! The binary: roles as subcommands, settings, command line. Wiring only; what a role does is in its crate.

// They panic when nobody reads any more or a disk is full: see `say`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod admin;
mod assemble;
mod cli;
mod client;
mod demo;
mod dev;
mod docs;
mod health;
mod metrics_page;
mod prepare;
mod private;
mod roles;
mod say;
mod settings;
mod shutdown;
mod topics;
mod traces;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use mailrail_telemetry::{Metrics, init_logs};
use tokio_util::sync::CancellationToken;

use assemble::Parts;
use cli::{Cli, Command, RoleArgs};
use say::{print, say};
use settings::{Role, Settings, SettingsError};

/// Every event is a few dozen short-lived pieces of memory, made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Command::CheckConfig(args) = &cli.command {
        return settings::check_config(args);
    }
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")
        .and_then(|runtime| runtime.block_on(run(cli.command)));
    match outcome {
        Ok(code) => code,
        Err(error) => {
            match error.downcast_ref::<SettingsError>() {
                Some(settings) => say(&settings.report()),
                None => say(&format!("error: {error:#}")),
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<ExitCode> {
    let done = match command {
        Command::Ingest(args) => run_role(Role::Ingest, args).await,
        Command::Match(args) => run_role(Role::Match, args).await,
        Command::Deliver(args) => run_role(Role::Deliver, args).await,
        Command::Control(args) => run_role(Role::Control, args).await,
        Command::All(args) => run_role(Role::All, args).await,
        Command::Dev(args) => dev::run(args).await,
        Command::Apply(args) => client::apply::run(args).await,
        Command::Send(args) => client::send::run(args).await,
        Command::Status(args) => client::status::run(args).await,
        Command::Mailboxes(args) => client::mailboxes::run(args).await,
        Command::Why(args) => client::why::run(args).await,
        Command::Explain(args) => client::explain::run(args).await,
        Command::Classes(args) => client::classes::run(args).await,
        Command::Endpoints(args) => client::endpoints::run(args).await,
        Command::Dlq(args) => client::dlq::run(args).await,
        Command::Shed(args) => client::shed::run(args).await,
        Command::Receiver(args) => {
            let stop = CancellationToken::new();
            shutdown::on_signal(stop.clone())?;
            Ok(mailrail_demo::receiver::run(args.into(), stop).await?)
        }
        Command::Docs(args) => print(&docs::page(args.page)?),
        Command::Prepare(args) => return Ok(prepare::run(args).await),
        Command::Health(args) => health::run(args).await,
        // Answered before a runtime was started.
        Command::CheckConfig(_) => Ok(()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs one role, or all of them, against the services that the settings name.
async fn run_role(role: Role, args: RoleArgs) -> Result<()> {
    let settings = Settings::load(args.config.as_deref(), settings::environment())?;
    settings.validate(role)?;
    let metrics = Arc::new(Metrics::new());
    let _logs = init_logs(settings.logs.options(), &metrics.logs);
    let stop = CancellationToken::new();
    shutdown::on_signal(stop.clone())?;
    let parts = Arc::new(Parts::open(settings, metrics, &stop).await?);
    roles::start(role, parts, stop).await?.wait().await
}
