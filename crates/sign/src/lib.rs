//! Standard Webhooks signatures and secrets, and the proofs that third parties' webhooks carry.
//!
//! A delivery carries three headers: its id, the time of the attempt, and one signature per secret of the endpoint. A
//! signature is HMAC-SHA256 over `id.timestamp.body` with the bytes of the body exactly as they are sent.
//!
//! [`verify_inbound`] checks a webhook that a third party sent, each in its own way.
//!
//! **Always holds**: every key that signs has 24 to 64 bytes; key bytes are wiped when dropped and never printed;
//! signatures are compared in constant time; no error text holds a part of a secret.
//!
//! **Deliberately absent**: clocks (the time of the attempt is an argument), randomness (so are the bytes of a new
//! secret), the asymmetric `v1a` scheme, signing in other senders' ways.

mod inbound;
mod key;
mod signature;

pub use inbound::{InboundError, verify_inbound};
pub use key::{SignError, SigningKey, secret_from_bytes};
pub use signature::{
    ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, TOLERANCE_DEFAULT, VerifyError, sign, verify,
};

#[cfg(test)]
mod tests;
