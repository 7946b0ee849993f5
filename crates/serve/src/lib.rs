//! Serving HTTP/1.1 on a listener: how many connections, how long, how large their headers, and how they end.
//!
//! [`serve`] takes connections until it is stopped, then drains. Every role and the admin server listen through it, each
//! with its own [`Limits`].
//!
//! **Always holds**
//! - No more connections than [`Limits::connections_max`] are open; the next one waits in the listener's backlog.
//! - No connection waits for ever: half a request ends by [`Limits::header_timeout`], an old connection by
//!   [`Limits::age_max`], and the end by [`Limits::drain_timeout`], whatever a caller leaves half done.
//! - After the stop no new request begins, and one that runs may end.
//! - An accept that fails is tried again, and a listener that fails for a minute is given up with an error.
//!
//! **Deliberately absent**: routes, bodies and their limits, which are the router's; TLS and HTTP/2, which are the proxy's
//! before us; settings, which each listener has its own.

mod accept;
mod connection;
mod limits;

pub use accept::serve;
pub use limits::{HEADER_BYTES_MAX, HEADERS_MAX, Limits};

#[cfg(test)]
mod tests;
