//! From an event to a line on the way out.

use std::fmt::{self, Debug};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::{Context, Layer};

use super::fields::{Fields, Value};
use super::line::{self, Head};
use super::throttle::{Suppressed, Throttle, Verdict, WINDOW};
use crate::metrics::{LevelLabels, LogMetrics};

impl Look {
    fn line(self, level: Level, target: &str, fields: &Fields) -> Vec<u8> {
        let mut timestamp = String::new();
        // Writing to a String cannot fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
        let head = Head { timestamp: &timestamp, level, target };
        match self {
            Self::Json => line::json(head, fields),
            Self::Text { colours } => line::text(head, fields, colours),
        }
    }

    /// The line that says how many were lost.
    pub(super) fn lost(self, lines: u64) -> Vec<u8> {
        let message =
            "lines were lost: standard error was not read fast enough, or could not be written to".to_owned();
        let named = vec![("lost", Value::Literal(lines.to_string()))];
        self.line(Level::WARN, module_path!(), &Fields { message, named, cut: false })
    }
}

/// Lines of this target are never suppressed: they say who did what.
pub(super) const AUDIT: &str = "audit";

/// How lines look, with nothing left to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Json,
    Text { colours: bool },
}

/// What stands for lines that were suppressed.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    metadata: &'static Metadata<'static>,
    message: String,
}

/// Where lines go; one call for each.
pub(super) type Sink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Makes the lines of a process, and keeps each place in the code to its rate.
pub(super) struct Lines {
    look: Look,
    sink: Sink,
    throttle: Throttle<Identifier, Sample>,
    metrics: LogMetrics,
    /// Whether something is suppressed that was not said.
    owing: Mutex<bool>,
    owes: Condvar,
}

impl Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("look", &self.look).finish_non_exhaustive()
    }
}

impl Lines {
    pub(super) fn new(look: Look, sink: Sink, lines_max: u32, metrics: LogMetrics) -> Self {
        let (throttle, owing, owes) = (Throttle::new(lines_max), Mutex::new(false), Condvar::new());
        Self { look, sink, throttle, metrics, owing, owes }
    }

    fn event(&self, event: &Event<'_>, now: Instant) {
        let metadata = event.metadata();
        if metadata.target() != AUDIT && !self.may_say(event, now) {
            return;
        }
        self.write(*metadata.level(), metadata.target(), &Fields::of(event));
    }

    /// Keeps a call site to its rate. Values are looked at only where a line is said, but for the message of the first that
    /// is not: a flood costs a look at a table.
    fn may_say(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        let key = metadata.callsite();
        match self.throttle.admit(key.clone(), Sample { metadata, message: String::new() }, now) {
            Verdict::Say(before) => {
                before.iter().for_each(|it| self.say(it));
                true
            }
            Verdict::Suppress { first } => {
                self.metrics.suppressed.get_or_create(&LevelLabels::of(*metadata.level())).inc();
                if first {
                    // Outside the lock of the table: a value may log, or panic.
                    let message = Fields::of(event).message;
                    self.throttle.note(key, |sample| sample.message = message);
                    *self.owing.lock().unwrap_or_else(PoisonError::into_inner) = true;
                    self.owes.notify_one();
                }
                false
            }
        }
    }

    fn say(&self, suppressed: &Suppressed<Sample>) {
        let Sample { metadata, message } = &suppressed.sample;
        let mut named = vec![("suppressed", Value::Literal(suppressed.lines.to_string()))];
        // Not noted yet, or a line without a message.
        if !message.is_empty() {
            named.push(("like", Value::Text(message.clone())));
        }
        named.push(("of", Value::Text(metadata.target().to_owned())));
        let message = "lines were suppressed: their place in the code said too many".to_owned();
        let fields = Fields { message, named, cut: false };
        self.write(*metadata.level(), module_path!(), &fields);
    }

    fn write(&self, level: Level, target: &str, fields: &Fields) {
        (self.sink)(&self.look.line(level, target, fields));
    }

    /// Says what was suppressed in windows that are over.
    pub(super) fn say_ended(&self, now: Instant) {
        self.throttle.ended(now).iter().for_each(|it| self.say(it));
    }

    /// Says all that was suppressed.
    pub(super) fn say_all(&self) {
        self.throttle.all().iter().for_each(|it| self.say(it));
    }

    /// Says what was suppressed, also of places that fell silent. Never returns; costs nothing while nothing is suppressed.
    pub(super) fn keep_saying(&self) {
        loop {
            let owing = self.owing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut owing =
                self.owes.wait_while(owing, |owing| !*owing).unwrap_or_else(PoisonError::into_inner);
            *owing = false;
            drop(owing);
            // Whatever was suppressed until now is in a window that is over then.
            std::thread::sleep(WINDOW);
            self.say_ended(Instant::now());
        }
    }
}

/// The layer of a subscriber that writes lines.
#[derive(Debug, Clone)]
pub(super) struct LinesLayer {
    lines: Arc<Lines>,
    clock: Clock,
}

/// Tells the time: [`Instant::now`], but in tests.
pub(super) type Clock = fn() -> Instant;

impl LinesLayer {
    pub(super) fn new(lines: Arc<Lines>, clock: Clock) -> Self {
        Self { lines, clock }
    }
}

impl<S: Subscriber> Layer<S> for LinesLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.lines.event(event, (self.clock)());
    }
}
