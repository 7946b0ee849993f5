//! Structured logs on standard error: one line each, of bounded length, and no place in the code says more than its share.
//!
//! **Always holds**: a line has at most 8 KiB and a value 1 KiB, and a line from which something was cut says so; no value
//! can begin a line of its own; what a place in the code says beyond its rate is counted and said in one line; lines of
//! target `audit` are never suppressed.
//!
//! A line is written by who says it, before its call returns: standard error that nobody reads holds up the task that says
//! something. In return no line is lost in a buffer when the process dies, and the rate bounds how often that can be.
//!
//! No library for the rate: `tracing-throttle` writes every event's values out before it decides, tells lines apart by them,
//! forgets keys when there are many, and needs a runtime. A call site is a key that costs nothing and of which there are few.

mod about;
mod fields;
mod layer;
mod line;
mod panics;
#[cfg(test)]
mod tests;
mod throttle;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Instant;

use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

pub use about::{surface, trace_id};

use crate::metrics::LogMetrics;
use layer::{Lines, LinesLayer, Look};

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line: for machines, and the default where standard error is not a terminal.
    Json,
    /// For people.
    Text,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions<'a> {
    /// `None`: text on a terminal, JSON elsewhere.
    pub format: Option<LogFormat>,
    /// A tracing filter such as `info` or `info,mailrail_deliver=debug`; an unreadable one falls back to `info` and says so.
    pub filter: &'a str,
    /// Lines that one place in the code may say in 10 seconds; 0: as many as it likes. Those of target `audit` are not
    /// counted.
    pub lines_per_place_max: u32,
}

/// The logs of a process. Dropped at its end, it says what was suppressed and not said yet.
#[derive(Debug)]
#[must_use = "at its end the process says what it suppressed"]
pub struct Logs(Arc<Lines>);

impl Drop for Logs {
    fn drop(&mut self) {
        self.0.say_all();
    }
}

/// Starts logging for the process. What is suppressed is counted in `metrics`.
pub fn init_logs(options: LogOptions<'_>, metrics: &LogMetrics) -> Logs {
    let LogOptions { format, filter, lines_per_place_max } = options;
    let (env, bad) = match EnvFilter::try_new(filter) {
        Ok(env) => (env, None),
        Err(error) => (EnvFilter::new("info"), Some(error.to_string())),
    };
    let colours = std::io::stderr().is_terminal();
    let look = match format.unwrap_or(if colours { LogFormat::Text } else { LogFormat::Json }) {
        LogFormat::Json => Look::Json,
        LogFormat::Text => Look::Text { colours },
    };
    // A line that cannot be written cannot be complained about either.
    let sink = Box::new(|line: &[u8]| drop(std::io::stderr().lock().write_all(line)));
    let lines = Arc::new(Lines::new(look, sink, lines_per_place_max, metrics.clone()));
    let layer = LinesLayer::new(Arc::clone(&lines), Instant::now).with_filter(env);
    // A second call (a test that starts two roles in one process) keeps the first subscriber.
    if Registry::default().with(layer).try_init().is_ok() {
        panics::say_as_lines();
        let lines = Arc::clone(&lines);
        let saying = std::thread::Builder::new().name("log-summaries".to_owned());
        if let Err(error) = saying.spawn(move || lines.keep_saying()) {
            tracing::warn!(%error, "no thread for summaries of suppressed lines; they are said with the next line");
        }
    }
    if let Some(error) = bad {
        tracing::warn!(filter, error, "log filter cannot be read; using info");
    }
    Logs(lines)
}
