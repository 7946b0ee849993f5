//! A strict JSON reader into a flat tape: no recursion, no copies but of escaped strings, numbers kept as text.

mod scan;
mod string;
mod tape;
#[cfg(test)]
mod tests;

pub(crate) use scan::{ScanError, scan};
pub(crate) use string::{quote, unescape_string};
pub(crate) use tape::{Elements, Node, Tape, View};
