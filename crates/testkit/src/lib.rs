//! What tests of several crates need of a log.
//!
//! [`Interposed`] is a log that does not do what it is told, [`read_topic`] says what a topic holds.
//!
//! **Always holds**: only development dependencies name it.
//!
//! **Deliberately absent**: rigs. What a stage is surrounded with is its own tests' affair; a receiver is in the demo.

mod interposed;
mod reading;

pub use interposed::{Between, Interposed};
pub use reading::{read_partition, read_topic};
