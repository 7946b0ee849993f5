//! The delivery protocol under everything that goes wrong: processes that crash, stop and come back as zombies, entries that
//! are lost or late, commits that are lost, refused or answered by nobody, rebalances in every phase, receivers of every
//! kind.
//!
//! Each owner is the real state machine of mailrail-mailbox, driven as the deliver stage drives it. An oracle watches from
//! outside. [`Mutation::ALL`] switches one rule off at a time: what the simulation does not miss, it does not check.

mod agenda;
mod attempts;
mod chance;
mod check;
mod commits;
mod event;
mod failure;
mod group;
mod hand_over;
mod isolation;
mod mutation;
mod oracle;
mod owner;
mod processes;
mod receivers;
mod run;
mod scenario;
mod summary;
mod survey;
mod takeover;
mod topic;
mod work;
mod world;

pub use failure::Failure;
pub use mutation::Mutation;
pub use oracle::Duplicates;
pub use run::{Run, run};
pub use summary::{Error, Summary, row};
pub use survey::{Failed, Survey, Total};
