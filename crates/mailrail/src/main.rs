//! mailrail.
fn main() {}
