//! Why egress could not be set up. What happens to a request is never an error here, but a result.

use thiserror::Error;

/// Why [`Egress`](crate::Egress) could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The extra certificate authorities are not PEM, or hold no usable certificate.
    #[error("the extra CA file cannot be used: {0}; give PEM text with at least one CERTIFICATE block")]
    CaCertificates(String),
    /// The TLS library refused its configuration.
    #[error("TLS cannot be configured: {0}")]
    Tls(#[from] rustls::Error),
    /// The HTTP client refused its configuration.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
}
