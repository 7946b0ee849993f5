//! `mailrail dev`: every role in one process on embedded parts, in one folder.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use data_encoding::{BASE64, HEXLOWER};
use mailrail_telemetry::{Metrics, init_logs};
use tokio_util::sync::CancellationToken;

use crate::assemble::Parts;
use crate::cli::DevArgs;
use crate::roles::{self, Running};
use crate::say::{print, say};
use crate::settings::{Role, SecretText, Settings, environment};
use crate::{demo, private, shutdown};

/// What `dev` logs unless settings say otherwise: its output is for a person in front of it.
const DEV_FILTER: &str = "warn";

/// Files of the data folder. The command line finds the token there.
const TOKEN_FILE: &str = "admin-token";
const KEY_FILE: &str = "encryption-key";

/// Runs everything until a signal, or until the demo ended with `--exit`.
///
/// # Errors
/// When the folder cannot be used, a port is taken, or the demo's books do not balance.
pub(crate) async fn run(args: DevArgs) -> Result<()> {
    let settings = settings(&args)?;
    let metrics = Arc::new(Metrics::new());
    let _logs = init_logs(settings.logs.options(), &metrics.logs);
    let stop = CancellationToken::new();
    shutdown::on_signal(stop.clone())?;
    let parts = Arc::new(Parts::open(settings, metrics, &stop).await?);
    let running = roles::start(Role::Dev, parts.clone(), stop.clone()).await?;
    welcome(&args, &running, &parts.settings);
    if !args.demo {
        return running.wait().await;
    }
    let outcome = demo::run(&args, &running, &parts, &stop).await;
    if args.exit || outcome.is_err() {
        stop.cancel();
    }
    let ended = running.wait().await;
    let line = outcome?;
    ended?;
    if args.exit { print(&format!("{line}\n")) } else { Ok(()) }
}

fn settings(args: &DevArgs) -> Result<Settings> {
    let data = &args.data;
    private::folder(data).with_context(|| format!("folder {} cannot be made", data.display()))?;
    let mut base = Settings::dev(data);
    DEV_FILTER.clone_into(&mut base.logs.filter);
    let mut settings = base.overlaid(args.config.as_deref(), environment())?;
    if settings.store.encryption_key.is_none() {
        let key = kept(&data.join(KEY_FILE), || BASE64.encode(&rand::random::<[u8; 32]>()))?;
        settings.store.encryption_key = Some(SecretText::new(key));
    }
    if settings.control.token.is_none() {
        let token = kept(&data.join(TOKEN_FILE), || HEXLOWER.encode(&rand::random::<[u8; 32]>()))?;
        settings.control.token = Some(SecretText::new(token));
    }
    settings.validate(Role::Dev)?;
    Ok(settings)
}

/// The secret in `file`, made at the first start and readable by its owner alone.
fn kept(file: &Path, make: impl FnOnce() -> String) -> Result<String> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = || format!("{} cannot be used", file.display());
    match std::fs::read_to_string(file) {
        Ok(text) => return Ok(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(failed),
    }
    let text = make();
    let mut opened = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(failed)?;
    writeln!(opened, "{text}").and_then(|()| opened.sync_all()).with_context(failed)?;
    Ok(text)
}

fn welcome(args: &DevArgs, running: &Running, settings: &Settings) {
    let door =
        |address: Option<std::net::SocketAddr>| address.map(|a| format!("http://{a}")).unwrap_or_default();
    let lines = [
        format!("mailrail dev runs on {}; endpoints on this machine are allowed", args.data.display()),
        format!("  events   POST {}/v1/events", door(running.doors.ingest)),
        format!(
            "  control  {}/v1  (token in {})",
            door(running.doors.control),
            args.data.join(TOKEN_FILE).display()
        ),
        format!("  metrics  {}/metrics", door(running.doors.admin)),
    ];
    say(&lines.join("\n"));
    tracing::info!(allow_cidrs = ?settings.egress.allow_cidrs, "endpoints may be in these networks");
}
