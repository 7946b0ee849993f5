//! Leases of one process, for `dev` and for a single node.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::port::{Exchange, Exchanged, LeaseStore, Recipient, Token};
use crate::Error;

/// Leases in memory. They begin empty with the process. A recipient is forgotten with its last lease.
#[derive(Debug, Default)]
pub struct LocalLeases {
    leases: Mutex<HashMap<Recipient, HashMap<Token, Instant>>>,
}

impl LocalLeases {
    /// With no lease.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl LeaseStore for LocalLeases {
    async fn exchange(&self, recipient: &Recipient, exchange: &Exchange) -> Result<Exchanged, Error> {
        let now = Instant::now();
        let until = now + exchange.term;
        let mut all = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let leases = all.entry(recipient.clone()).or_default();
        for token in exchange.give.iter().chain(&exchange.take) {
            leases.remove(token);
        }
        leases.retain(|_, until| *until > now);
        let is_new = |token: &&Token| leases.insert(**token, until).is_none();
        let unknown = exchange.renew.iter().filter(is_new).count();
        let limit = usize::try_from(exchange.limit).unwrap_or(usize::MAX);
        let free = limit.saturating_sub(leases.len());
        let granted = exchange.take.iter().take(free).map(|token| leases.insert(*token, until)).count();
        if leases.is_empty() {
            all.remove(recipient);
        }
        let count = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        Ok(Exchanged { granted: count(granted), unknown: count(unknown), young: false })
    }

    /// Who is alone counts for itself: see [`Leases::admit`](super::Leases::admit).
    async fn take_rate(&self, _recipient: &Recipient, _per_second: u32) -> Result<Duration, Error> {
        Ok(Duration::ZERO)
    }

    async fn beat(&self, _process: u64, _lasts: Duration) -> Result<u32, Error> {
        Ok(1)
    }

    async fn leave(&self, _process: u64) -> Result<(), Error> {
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }
}
