//! Egress against real sockets: receivers that misbehave, addresses that must not be reached, certificates that lie.

#![allow(clippy::unwrap_used, reason = "test support: a failed set-up is a failed test")]

mod addresses;
mod environment;
mod hostile;
mod kept;
mod operator;
mod support;
mod tls;
mod wire;
mod withheld;
