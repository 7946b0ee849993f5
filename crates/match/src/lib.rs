//! Stage one: decide which subscriptions want an event, and put one delivery for each into its mailbox.
//!
//! The path of a record: [`feed`] → [`find_matches`] ([`decode`] → [`targets`]) → [`tag`] → [`fan_out`] → [`append`], in the
//! order of the partition; then its offset may be committed. [`find_matches`] and [`fan_out`] run on threads of their own
//! ([`pool`]). What subscriptions want is in a [`table`] of indexes, which [`follow`] keeps where the directory is.
//!
//! **Always holds**: an offset is committed only after every delivery of the events below it was acknowledged by the log;
//! matching twice gives the same delivery ids; events keep their order from their partition to each mailbox; an event is
//! never called unwanted on a set-up older than the one it was accepted with; what an event matches is what its filters say
//! one by one.
//!
//! **Deliberately absent**: HTTP in either direction, and the deliver stage: the two meet only through records.

mod admission;
mod append;
mod catalog;
mod config;
mod decode;
mod failures;
mod fan_out;
mod feed;
mod find_matches;
mod follow;
mod partition;
mod pool;
mod service;
mod table;
mod tag;
mod targets;
mod type_index;
mod wanting;

pub use config::Config;
pub use service::Service;

#[cfg(test)]
mod tests;
