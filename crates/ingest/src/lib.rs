//! The front door: accept events over HTTP and append them to the log.
//!
//! `POST /v1/events` takes CloudEvents 1.0 in binary, structured and batch mode, and plain bodies that carry the same
//! attributes as headers. The path of one request is the list of steps in `accept`.
//!
//! `/v1/inbound/{provider}/{integration}` takes a third party's webhook as it is and keeps it byte for byte; the steps are
//! in `inbound`.
//!
//! **Always holds**: 202 is answered only after the log acknowledged every event of the answer; the tenant is the one of
//! the credential, whatever the event says; the body is kept byte for byte, also the value of `data` inside a structured
//! event; every refusal is a [`Problem`] with a stable code that names the field and what to change; every body, header,
//! batch, wait and connection has a named limit in [`Config`].
//!
//! **Deliberately absent**: filters and subscriptions (match), retries of a failed append (the producer sends again: the
//! event's id follows from its source and id, so a second append is the same event), TLS (a proxy's), HTTP/2.

mod accept;
mod append;
mod authenticate;
mod config;
mod error;
mod in_flight;
mod inbound;
mod ordering_key;
mod parse;
mod problem;
mod read_body;
mod reply;
mod service;
mod source;
mod spans;
mod tag;
mod trace;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use error::Error;
pub use problem::Problem;
pub use service::{Clock, EVENTS_PATH, INBOUND_PATH, Service};
