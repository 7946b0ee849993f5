//! How many requests a second go to an endpoint, over all processes.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};

use super::late::Found;
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
    /// [`Terms::ask_budget`](super::Terms::ask_budget). A store that is slower says [`Admission::Wait`], and the request goes when
    /// the answer is there: while the store is not away nobody goes without having been counted, unless the answers about
    /// thousands of recipients are late at once.
    pub async fn admit(&self, recipient: &Recipient, per_second: u32) -> Admission {
        let inner = &self.inner;
        let per_second = per_second.max(1);
        if !inner.store.is_shared() {
            return Admission::Share(per_second);
        }
        let now = Instant::now();
        let standing = inner.fleet.standing(now);
        let share = Admission::Share(standing.share(per_second));
        if standing.is_away {
            return share;
        }
        // Others may not have found the store again, and count for themselves.
        let go = if standing.is_back { share } else { Admission::Go };
        match self.lates().find(recipient, now) {
            Found::Go => return go,
            Found::Wait(wait) => return Admission::Wait(wait),
            Found::Underway => return Admission::Wait(inner.terms.poll_every),
            Found::Nothing => {}
        }
        let (asking, of) = (self.clone(), recipient.clone());
        let mut asked = async move { asking.take_rate(&of, per_second).await }.boxed();
        match timeout(inner.terms.ask_budget, &mut asked).await {
            Ok(Ok(wait)) if wait.is_zero() => go,
            Ok(Ok(wait)) => Admission::Wait(wait),
            Ok(Err(error)) => {
                self.note(Some(&error), Instant::now());
                share
            }
            Err(_) => {
                let is_heard = self.hear_later(recipient, asked, now);
                if is_heard { Admission::Wait(inner.terms.poll_every) } else { share }
            }
        }
    }

    /// Hears an answer that is late, for whoever asks next; `false` when so many are late that this one is lost: whoever waited
    /// for it would ask and wait for ever.
    fn hear_later(
        &self,
        recipient: &Recipient,
        asked: BoxFuture<'static, Result<Duration, Error>>,
        at: Instant,
    ) -> bool {
        if !self.lates().expect(recipient) {
            return false;
        }
        let (leases, recipient) = (self.clone(), recipient.clone());
        tokio::spawn(async move {
            let answer = asked.await;
            let now = Instant::now();
            if let Err(error) = &answer {
                leases.note(Some(error), now);
            }
            leases.lates().came(&recipient, answer.ok(), at, now);
        });
        true
    }

    /// One request of a rate, within the time after which the store counts as away.
    async fn take_rate(&self, recipient: &Recipient, per_second: u32) -> Result<Duration, Error> {
        let take = AssertUnwindSafe(self.inner.store.take_rate(recipient, per_second)).catch_unwind();
        match timeout(self.inner.terms.answer_within, take).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Panicked),
            Err(_) => Err(Error::Timeout),
        }
    }
}
