//! What stops the control API as a whole; refusals of single requests are problems.

use thiserror::Error;

/// Errors of [`crate::Service`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody could use it.
    #[error("the control API has no operator; set an operator token")]
    NoOperator,
    /// The listener cannot be used.
    #[error("the listener failed: {0}; check the address")]
    Listener(#[from] std::io::Error),
}
