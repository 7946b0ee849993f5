//! The control API: declarative set-up, reads, status.
//!
//! Operators describe classes of mailboxes, tenants and all that tenants have in one document ([`setup_file`]), and
//! [`Service`] makes it so through crate `store`. Classes and shed rules can be changed by themselves, at run time. Roles
//! follow the store's change feed; control never talks to them.
//!
//! **Always holds**: every request is an operator's or gets the same 401; a document is applied whole or not at all, and
//! all of its problems are reported together; a secret or token is shown once, when it is made, and no read ever shows
//! one; every change leaves a line with target `audit`; what the log did not answer is `null` in `status`, never zero, and
//! what was not looked at of the mailboxes is said; looking at them reads keys, never bodies. A body is shown in one place alone, a
//! dead letter's or a quarantined record's, when it is asked for, and that leaves an audit line, as excerpts of one do in the
//! explanation of an event; a dead letter is put back once,
//! whoever died meanwhile.
//!
//! **Deliberately absent**: outbound HTTP (the check of endpoint URLs is an argument), events and deliveries on their way,
//! roles finer than "operator".

mod access;
mod apply;
mod classes;
mod config;
mod dead_letters;
mod error;
mod explain;
mod gauge;
mod journal;
mod mailboxes;
mod measure;
mod owner;
mod parked;
mod pause;
mod problem;
mod reading;
mod request_path;
mod resources;
mod respond;
mod secrets;
mod service;
pub mod setup_file;
mod shed;
mod status;
mod waiting;
mod why;

pub use apply::{ApplyAnswer, ApplyRequest, NewKey, NewSecret};
pub use config::{Config, Operator, OperatorError, Pipeline, Topic};
pub use dead_letters::{
    AttemptFacts, DeadLetterOptions, DeadLetters, FilterParts, LetterCount, LetterDetail, LetterFacts,
    LetterList, LetterMore, LetterSummary, Payload, QuarantineList, QuarantinedRecord, RATE_DEFAULT,
    RATE_MAX, ReplayRequest, ReplayStatus, Trouble, UnsentLetter,
};
pub use error::Error;
pub use explain::{EXPLAIN_PAGE_MAX, FilterTest, FilterTestRefusal, test_filter};
pub use mailboxes::{MailboxHold, MailboxList, MailboxParts, MailboxSizing, MailboxStatus};
pub use parked::ParkedStatus;
pub use service::Service;
pub use setup_file::setup_schema;
pub use status::{PipelineStatus, QueueStatus, Status, StoreStatus, TopicStatus};
pub use why::{Looked, Why, WhyHead};

#[cfg(test)]
mod tests;
