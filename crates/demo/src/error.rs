//! What can go wrong in the demo.

use std::path::PathBuf;

use mailrail_log::LogError;
use mailrail_types::IdError;
use thiserror::Error as ThisError;

/// Errors of the demo parts.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A receiver endpoint's secret is not base64.
    #[error("the secret of receiver endpoint '{endpoint}' is not valid: write 'whsec_' and base64")]
    Secret {
        /// The endpoint.
        endpoint: String,
    },
    /// A receiver endpoint's script cannot be read.
    #[error("'{text}' is not a behaviour of a receiver endpoint: {problem}")]
    Behaviour {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A receiver endpoint cannot be set up.
    #[error("receiver endpoint '{name}' {problem}")]
    Endpoint {
        /// The endpoint.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The receiver's journal cannot be used.
    #[error("the receiver's journal {} cannot be used: {problem}", .path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A name of the demo's set-up is not valid.
    #[error(transparent)]
    Names(#[from] IdError),
    /// A socket cannot be used.
    #[error("the receiver cannot listen: {0}")]
    Listen(#[source] std::io::Error),
    /// The payload file is not what the package is known to hold.
    #[error("the payload file is not a list of webhook examples: {0}")]
    Payloads(#[source] serde_json::Error),
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A partition did not give the records that its bounds promise.
    #[error(
        "{topic}/{partition} gave no record for 30 s, though it reaches to {high} and was read to {position}"
    )]
    Stalled {
        /// Topic.
        topic: String,
        /// Partition.
        partition: u32,
        /// Where reading stopped.
        position: u64,
        /// Where the partition ends.
        high: u64,
    },
    /// The API refused what the demo needs.
    #[error("the API refused event {event} of tenant {tenant}: {problem}")]
    Refused {
        /// The CloudEvents id.
        event: String,
        /// The tenant.
        tenant: String,
        /// What it said.
        problem: String,
    },
}
