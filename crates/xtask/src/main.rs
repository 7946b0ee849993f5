//! Checks and generators of the repository.
fn main() {}
