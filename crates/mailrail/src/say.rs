//! What is said to a person on standard error, beside log lines.

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

/// Longest that who says something waits until it is read.
const READER_WAIT_MAX: Duration = Duration::from_secs(1);

/// Writes the text and an end of line to standard error, at once and not in pieces. When nobody reads that, the process goes on after a
/// second: a pipe that is full must hold up neither work nor its end.
pub(crate) fn say(text: &str) {
    let line = format!("{text}\n");
    // Nothing is sent: the thread's end is what is waited for.
    let (writes, written) = mpsc::channel::<()>();
    let writing = std::thread::Builder::new().name("say".to_owned()).spawn(move || {
        // What cannot be written cannot be complained about either.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
        drop(writes);
    });
    if writing.is_ok() {
        let _ = written.recv_timeout(READER_WAIT_MAX);
    } else {
        // Better late than not at all.
        eprintln!("{text}");
    }
}
