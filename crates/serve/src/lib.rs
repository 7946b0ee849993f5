//! Serving HTTP/1.1 on a listener: how many connections, how long, how large their headers, and how they end.
//!
//! [`serve`] takes connections until it is stopped, then drains. Every role and the admin server listen through it, each
//! with its own [`Limits`].
//!
//! **Always holds**
//! - No more connections than [`Limits::connections_max`] are open; the next one waits in the listener's backlog.
//! - Whatever a caller leaves half done, a connection ends: with half a head by [`Limits::header_timeout`], an old one within
//!   [`Limits::end_grace`] of [`Limits::age_max`], and all of them by [`Limits::drain_timeout`] after the stop.
//! - An answer is not lost to a caller who still sends the body that was refused: what still arrives is read and thrown away, for 10 s and
//!   64 MiB at most.
//! - After the stop no connection takes another request than the one it is at. That one is served, also when its head was not whole yet.
//! - An accept that fails is tried again, and a listener that fails for a minute is given up with an error; a connection that is gone
//!   before it was accepted is no failure of the listener.
//!
//! **Deliberately absent**: routes, bodies and their limits, which are the router's; TLS and HTTP/2, which are the proxy's
//! before us; settings, which each listener has its own.

mod accept;
mod connection;
mod limits;
mod linger;

pub use accept::serve;
pub use limits::{HEADER_BYTES_MAX, HEADERS_MAX, Limits};

#[cfg(test)]
mod tests;
