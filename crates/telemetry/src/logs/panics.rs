//! A panic is a line as any other: one, bounded, with the place where it happened. Where a backtrace is asked for, lines with it follow.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use super::fields::FIELD_BYTES_MAX;

/// Most bytes of a backtrace in one line; what escaping adds stays within a line.
pub(super) const PART_BYTES_MAX: usize = FIELD_BYTES_MAX - 8;
/// Most lines for a backtrace.
pub(super) const PARTS_MAX: usize = 32;

/// From here on a panic of any thread is a line, and where `RUST_BACKTRACE` asks for it some more with the backtrace. Nothing is written
/// as the hook before would: it waits for whoever reads standard error. The lines are waited for a moment: a panic is often the last
/// that a process says.
pub(super) fn say_as_lines() {
    std::panic::set_hook(Box::new(|info| {
        say(info);
        super::flush_logs();
        // Costs nothing where nobody asks for it, and a part of a second where somebody does.
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            say_backtrace(&backtrace.to_string());
            super::flush_logs();
        }
    }));
}

fn say(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(
        place,
        thread = thread.name().unwrap_or_default(),
        panic = info.payload_as_str().unwrap_or_default(),
        "a thread panicked"
    );
}

pub(super) fn say_backtrace(text: &str) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or_default();
    let mut parts = parts(text);
    for (before, backtrace) in parts.by_ref().take(PARTS_MAX).enumerate() {
        tracing::error!(thread, part = before + 1, backtrace, "backtrace of a panic");
    }
    if parts.next().is_some() {
        tracing::error!(thread, "the backtrace goes on; the rest of it is left out");
    }
}

/// The text in pieces that fit a value: whole lines, unless one of them is longer than that.
fn parts(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let most = text.floor_char_boundary(PART_BYTES_MAX);
        let end = match text[..most].rfind('\n') {
            _ if most == text.len() => most,
            Some(line_end) => line_end + 1,
            None => most,
        };
        let (part, rest) = text.split_at(end);
        text = rest;
        (!part.is_empty()).then_some(part)
    })
}
