//! The log port: append, read, own, commit, trim. Kafka adapter and local SQLite adapter.
//!
//! **Always holds**: [`Log::append`] returns only after the records are durable (acks=all; `synchronous=FULL`); records
//! of one partition keep the order of the calls, with no gap in the middle of a call; a reader never skips a record that
//! exists and never guesses an offset; a commit goes out only for a partition that its member owns.
//!
//! **Boundary**: the only crate that imports `rdkafka` and `rusqlite`. It knows records, not events or deliveries.

mod error;
mod insist;
pub mod kafka;
pub mod local;
mod own;
mod port;
mod quarantine;
mod size;

pub use error::{LogError, TopicMismatch};
pub use insist::append_insistently;
pub use kafka::{KafkaConfig, KafkaLog, sasl_problem};
pub use local::{LocalLog, LocalOptions};
pub use own::{
    Claim, Found, Lease, LeaseTerms, OwnOptions, Owner, Owning, Position, StandsStill, StoppedPartitions,
    Subject, own_partitions,
};
pub use port::{
    Bounds, Committed, GroupEvent, Log, Membership, NewRecord, Offset, Reader, Readers, Release,
    StoredRecord, TopicSpec,
};
pub use quarantine::{ORIGIN_HEADER, PROBLEM_HEADER, quarantine_record};
