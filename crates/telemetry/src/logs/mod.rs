//! Structured logs on standard error: one line each, of bounded length, and no place in the code says more than its share.
//!
//! **Always holds**: a line has at most 8 KiB and a value 1 KiB, and a line from which something was cut says so; no value
//! can begin a line of its own; what a place in the code says beyond its rate is counted and said in one line; lines of
//! target `audit` are never suppressed.
//!
//! Who says a line does not wait until it is written: a thread does that (`outlet`), so that standard error that nobody reads holds up no
//! work. What does not fit meanwhile is lost and counted, of target `audit` as well. At its end, and after a panic, the process waits for
//! what is not written yet, for a bounded time; a process that is killed takes the lines of the last moment with it.
//!
//! No library for the rate: `tracing-throttle` writes every event's values out before it decides, tells lines apart by them,
//! forgets keys when there are many, and needs a runtime. A call site is a key that costs nothing and of which there are few.

mod about;
mod fields;
mod filter;
mod layer;
mod line;
mod outlet;
mod panics;
#[cfg(test)]
mod tests;
mod throttle;

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

pub use about::{surface, trace_id};
pub use filter::filter_problem;

use crate::metrics::LogMetrics;
use layer::{Lines, LinesLayer, Look, Sink};
use outlet::Outlet;

/// How long the end of the process waits for lines that are not written yet.
const END_FLUSH_MAX: Duration = Duration::from_secs(1);
/// The same after what may be the last line of a process, whose thread may hold work up meanwhile.
const LAST_LINE_FLUSH_MAX: Duration = Duration::from_millis(100);

/// What writes the lines of this process.
static OUTLET: OnceLock<Outlet> = OnceLock::new();

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

/// The logs of a process. Dropped at its end, it says what was suppressed and not said yet, and waits up to a second until everything is
/// written.
#[derive(Debug)]
#[must_use = "at its end the process says what it suppressed, and what is not written yet"]
pub struct Logs {
    lines: Arc<Lines>,
    outlet: Option<Outlet>,
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.lines.say_all();
        if let Some(outlet) = &self.outlet {
            outlet.flush(END_FLUSH_MAX);
        }
    }
}

/// Waits until what was said is written, for up to 100 ms. For whoever ends the process without dropping its [`Logs`].
pub fn flush_logs() {
    if let Some(outlet) = OUTLET.get() {
        outlet.flush(LAST_LINE_FLUSH_MAX);
    }
}

/// Where lines go, and what writes them. Without a thread or a descriptor for that, who says a line writes it.
fn way_out(look: Look, metrics: &LogMetrics) -> (Sink, Option<Outlet>) {
    // A descriptor of its own: a write that stands still would hold the lock of the other one.
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let say_lost = Box::new(move |lines| look.lost(lines));
    match stderr.and_then(|to| Outlet::start(to, metrics.lost.clone(), say_lost)) {
        Ok(outlet) => {
            let into = outlet.clone();
            (Box::new(move |line: &[u8]| into.put(line)), Some(outlet))
        }
        // A line that cannot be written cannot be complained about either.
        Err(_) => (Box::new(|line: &[u8]| drop(std::io::stderr().lock().write_all(line))), None),
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
    let (sink, outlet) = way_out(look, metrics);
    let lines = Arc::new(Lines::new(look, sink, lines_per_place_max, metrics.clone()));
    let layer = LinesLayer::new(Arc::clone(&lines), Instant::now).with_filter(env);
    // A second call (a test that starts two roles in one process) keeps the first subscriber.
    if Registry::default().with(layer).try_init().is_ok() {
        if let Some(outlet) = &outlet {
            let _ = OUTLET.set(outlet.clone());
        }
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
    Logs { lines, outlet }
}
