//! A lease as its holder has it.

use super::Leases;
use super::port::{Recipient, Token};

/// A right to have one request open at a recipient, as long as it lives. Dropped, it is free for the next: on every path.
/// It is renewed by itself.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    recipient: Recipient,
    token: Token,
}

impl Lease {
    pub(super) fn new(leases: Leases, recipient: Recipient, token: Token) -> Self {
        Self { leases, recipient, token }
    }

    /// Whether a request may begin with it: a process that stood still for long has lost it.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.leases.holds(&self.recipient, self.token)
    }

    /// Its name.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.put(&self.recipient, self.token);
    }
}
