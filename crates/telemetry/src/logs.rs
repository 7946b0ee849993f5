//! Structured logs on standard error: one line each.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line: for machines, and the default where standard error is not a terminal.
    Json,
    /// For people.
    Text,
}

/// Starts logging for the process. `filter` is a tracing filter such as `info` or `mailrail_deliver=debug`; an
/// unreadable one falls back to `info` and says so.
pub fn init_logs(format: Option<LogFormat>, filter: &str) {
    let (env, bad) = match EnvFilter::try_new(filter) {
        Ok(env) => (env, None),
        Err(error) => (EnvFilter::new("info"), Some(error.to_string())),
    };
    let terminal = std::io::stderr().is_terminal();
    let format = format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let base = tracing_subscriber::fmt()
        .with_env_filter(env)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE);
    // A second call (a test that starts two roles in one process) keeps the first subscriber.
    let _ = match format {
        LogFormat::Json => base.json().flatten_event(true).with_current_span(false).try_init(),
        LogFormat::Text => base.with_ansi(terminal).with_target(false).try_init(),
    };
    if let Some(error) = bad {
        tracing::warn!(filter, error, "log filter cannot be read; using info");
    }
}
