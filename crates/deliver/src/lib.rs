//! Stage two: bring each delivery to its endpoint, in order per mailbox, until it is delivered, dead-lettered, expired or
//! cancelled.
//!
//! The path of a record, one file for each verb: `decode` → `partition` (its mailbox's turn) → `resolve` → `permit` →
//! `prepare` → `send` → `settle` → `record`, and `bury` for what is given up.
//!
//! **Always holds**: a mailbox has one delivery in flight, its oldest; a delivery is done only after its end is in the log;
//! a permit is an owned value and comes back on every path; what a process holds is bounded in records, bytes and attempts;
//! the body that is sent is the body that was accepted.
//!
//! **Deliberately absent**: filters, and the match stage: the two meet only through records. Outbound HTTP is in crate
//! `egress`, the order of deliveries in crate `mailbox`, the arithmetic of retries in crate `policy`.

mod attempt;
mod budget;
mod bury;
mod config;
mod decode;
mod partition;
mod permit;
mod prepare;
mod record;
mod resolve;
mod send;
mod service;
mod settle;

pub use config::Config;
pub use service::Service;

#[cfg(test)]
mod tests;
