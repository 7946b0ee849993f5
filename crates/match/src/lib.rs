//! Stage one: decide which subscriptions want an event, and put one delivery for each into its mailbox.
//!
//! The path of a record: [`decode`] → [`targets`] (with [`find_matches`]) → [`tag`] → [`fan_out`] → [`append`], in the order of the partition; then its
//! offset may be committed.
//!
//! **Always holds**: an offset is committed only after every delivery of the events below it was acknowledged by the log;
//! matching twice gives the same delivery ids; events keep their order from their partition to each mailbox; an event is
//! never called unwanted on a set-up older than the one it was accepted with.
//!
//! **Deliberately absent**: HTTP in either direction, and the deliver stage: the two meet only through records.

mod append;
mod config;
mod decode;
mod fan_out;
mod filters;
mod find_matches;
mod partition;
mod service;
mod tag;
mod targets;

pub use config::Config;
pub use service::Service;

#[cfg(test)]
mod tests;
