//! Lines on standard output.

use std::io::Write as _;

/// Prints a line. Where nobody reads it any more, or a disk is full, it is lost: a receiver goes on receiving.
pub(crate) fn print_line(text: &str) {
    let _ = std::io::stdout().lock().write_all(format!("{text}\n").as_bytes());
}
