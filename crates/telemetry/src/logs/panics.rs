//! A panic is a line as any other: one, bounded, with the place where it happened.

use std::panic::PanicHookInfo;

/// From here on a panic of any thread is a line. What the hook before would print follows where `RUST_BACKTRACE` asks for
/// it. The line is waited for a moment: a panic is often the last that a process says.
pub(super) fn say_as_lines() {
    let before = std::panic::take_hook();
    let with_backtrace = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    std::panic::set_hook(Box::new(move |info| {
        say(info);
        super::flush_logs();
        if with_backtrace {
            before(info);
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
