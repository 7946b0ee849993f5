//! What a listener allows its connections.

use std::time::Duration;

/// Most headers of a request, where a listener has no reason for another number.
pub const HEADERS_MAX: usize = 100;

/// Most bytes of request line and headers, where a listener has no reason for another number: all that the HTTP layer
/// would hold of them by itself.
pub const HEADER_BYTES_MAX: usize = 408 * 1024;

/// What a listener allows. [`Duration::MAX`] is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// What listens, for log lines.
    pub name: &'static str,
    /// Most connections at once, 1 at least; the next one waits in the listener's backlog.
    pub connections_max: usize,
    /// Most headers of a request; more is answered 431.
    pub headers_max: usize,
    /// Most bytes of request line and headers; more is answered 431.
    pub header_bytes_max: usize,
    /// Longest time for the headers of a request, and longest idle time between two.
    pub header_timeout: Duration,
    /// Age at which a connection is closed between two requests.
    pub age_max: Duration,
    /// Longest time that a connection has to end once it is asked to, by its age or by the stop.
    pub end_grace: Duration,
    /// Longest time that all connections together have to end after the stop.
    pub drain_timeout: Duration,
}
