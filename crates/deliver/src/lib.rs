//! Stage two: bring each delivery to its endpoint, in order per mailbox, until it is delivered, dead-lettered, expired or
//! cancelled.
//!
//! The path of a record, one file for each verb: `decode` → `partition` (its mailbox's turn) → `permit` → `resolve` →
//! `gate` → `prepare` → `send` → `settle` → `record`, and `bury` for what is given up. `takeover` is how a partition begins.
//!
//! **Always holds**: a strict mailbox has one delivery in flight, its oldest; what waits is in the journal and holds nothing
//! else up; a delivery is done only after its end is in the log; an attempt starts only under the lease; a permit is an owned
//! value and comes back on every path; what a process holds is bounded in records, bytes and attempts; the body that is sent
//! is the body that was accepted.
//!
//! **Deliberately absent**: filters, and the match stage: the two meet only through records. Outbound HTTP is in crate
//! `egress`, the order of deliveries in crate `mailbox`, the arithmetic of retries in crate `policy`.

mod attempt;
mod budget;
mod bury;
mod config;
mod contents;
mod cut;
mod decode;
mod gate;
mod numbers;
mod observe;
mod partition;
mod permit;
mod places;
mod prepare;
mod record;
mod resolve;
mod route;
mod send;
mod sequence;
mod service;
mod settle;
mod takeover;
mod tell;

pub use config::Config;
pub use service::Service;

#[cfg(test)]
mod tests;
