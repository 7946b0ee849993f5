//! How many requests a second go to an endpoint, over all processes.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout};

use super::{Leases, Recipient};
use crate::Error;

/// Whether a request may go by the rate of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may, and was counted.
    Go,
    /// Not now; ask again in this time.
    Wait(Duration),
    /// The store does not say. So many a second are for this process, who counts for itself.
    Share(u32),
}

impl Leases {
    /// Takes one request of `per_second`, of which one second's worth may come at once. Waits for the store at most
    /// [`Terms::ask_budget`](super::Terms::ask_budget).
    pub async fn admit(&self, recipient: &Recipient, per_second: u32) -> Admission {
        let inner = &self.inner;
        let per_second = per_second.max(1);
        if !inner.store.is_shared() {
            return Admission::Share(per_second);
        }
        let standing = inner.fleet.standing(Instant::now());
        if standing.is_away {
            return Admission::Share(standing.share(per_second));
        }
        let take = AssertUnwindSafe(inner.store.take_rate(recipient, per_second)).catch_unwind();
        let error = match timeout(inner.terms.ask_budget, take).await {
            Ok(Ok(Ok(wait))) if wait.is_zero() => return Admission::Go,
            Ok(Ok(Ok(wait))) => return Admission::Wait(wait),
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) => Error::Panicked,
            // Slow for one that waits is not away.
            Err(_) => return Admission::Share(standing.share(per_second)),
        };
        self.note(Some(&error), Instant::now());
        Admission::Share(standing.share(per_second))
    }
}
