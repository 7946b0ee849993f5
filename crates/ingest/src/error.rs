//! What stops the front door as a whole; refusals of single requests are problems.

use thiserror::Error;

/// Errors of [`crate::Service::run`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The listener cannot be used any more.
    #[error("the listener failed: {0}; check the address and the limit of open files")]
    Listener(#[from] std::io::Error),
}
