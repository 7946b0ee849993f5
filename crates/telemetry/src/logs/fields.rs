//! What a log line says: its message and its fields, each cut to a length before it is kept.

use std::fmt::{self, Debug, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::field::{Field, Visit};

/// Most bytes of one value, and of the message; what is beyond is cut and marked with [`CUT`].
pub(super) const FIELD_BYTES_MAX: usize = 1024;

/// Ends a value that was cut.
const CUT: char = '…';

/// Stands for a value whose `Debug` or `Display` panicked: the process goes on, and so does the line.
const PANICKED: &str = "(panicked while it was written)";

/// Stands for a value whose `Debug` or `Display` gave an error.
const FAILED: &str = "(could not be written)";

/// A value as a line shows it.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// A number or a boolean: text that JSON takes as it is.
    Literal(String),
}

/// The message and the fields of an event.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) named: Vec<(&'static str, Value)>,
    /// Whether a value was cut.
    pub(super) cut: bool,
}

impl Fields {
    pub(super) fn of(event: &tracing::Event<'_>) -> Self {
        let mut fields = Self::default();
        event.record(&mut fields);
        fields
    }

    fn put(&mut self, field: &Field, text: Bounded) {
        self.cut |= text.cut;
        let text = text.finish();
        match field.name() {
            "message" => self.message = text,
            name => self.named.push((name.strip_prefix("r#").unwrap_or(name), Value::Text(text))),
        }
    }

    fn literal(&mut self, field: &Field, text: String) {
        self.named.push((field.name(), Value::Literal(text)));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = Bounded::default();
        // A line must not end the task that says it.
        match catch_unwind(AssertUnwindSafe(|| write!(text, "{value:?}"))) {
            Ok(Err(fmt::Error)) if !text.cut => text = Bounded::of(FAILED),
            Ok(_) => {}
            Err(_) => text = Bounded::of(PANICKED),
        }
        self.put(field, text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Bounded::of(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.literal(field, value.to_string());
        } else {
            self.put(field, Bounded::of(&value.to_string()));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.literal(field, value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.literal(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value.to_string());
    }
}

/// Takes text up to a length; whole characters only. Beyond it, writing is an error, so that a huge value stops being made.
#[derive(Debug, Default)]
struct Bounded {
    text: String,
    cut: bool,
}

impl Bounded {
    fn of(text: &str) -> Self {
        let mut bounded = Self::default();
        // What does not fit is noted in `cut`.
        let _ = bounded.write_str(text);
        bounded
    }

    fn finish(mut self) -> String {
        if self.cut {
            self.text.push(CUT);
        }
        self.text
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.cut {
            return Err(fmt::Error);
        }
        let room = FIELD_BYTES_MAX - CUT.len_utf8() - self.text.len();
        if more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        self.text.push_str(&more[..more.floor_char_boundary(room)]);
        self.cut = true;
        Err(fmt::Error)
    }
}
