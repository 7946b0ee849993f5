//! The lease of a member: until when side effects may start, by the last commit that the group accepted.
//!
//! The group gives a silent member's partitions to others once its session has ended. A member that was stopped and goes on
//! does not know that yet; its clock does. An owner asks the lease right before each side effect.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How a lease is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long after an accepted commit was sent side effects may start. Below the session timeout by the longest that
    /// a side effect takes, and a margin.
    pub valid_for: Duration,
    /// Between two renewals: the positions of all owned partitions are committed again, also when nothing changed.
    pub renew_every: Duration,
}

/// Whether this member may still start side effects. Of the member, not of a partition: it spans assignments. A cheap
/// clone.
#[derive(Debug, Clone)]
pub struct Lease(Option<watch::Receiver<State>>);

#[derive(Debug, Clone, Copy)]
struct State {
    until: Instant,
    /// How often the group was lost. A commit from before says nothing about the time after.
    losses: u64,
}

impl Lease {
    /// A lease that never ends, where membership cannot be taken away.
    #[must_use]
    pub fn endless() -> Self {
        Self(None)
    }

    /// When it is over; `None`: never. In the past before the first accepted commit, and after the group was lost.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.0.as_ref().map(|state| state.borrow().until)
    }

    /// Whether a side effect may start at `now`.
    #[must_use]
    pub fn holds(&self, now: Instant) -> bool {
        self.until().is_none_or(|until| now < until)
    }

    /// Returns when the lease holds: at once, or with the next renewal. Cancel safe.
    pub async fn held(&self) {
        let Some(mut state) = self.0.clone() else { return };
        if state.wait_for(|state| Instant::now() < state.until).await.is_err() {
            // Nobody renews it any more: the role has ended, and cuts whoever waits here.
            std::future::pending::<()>().await;
        }
    }
}

/// The other end of a [`Lease`]: what commits came to goes in here.
#[derive(Debug)]
pub(super) struct LeaseKeeper(Option<Kept>);

#[derive(Debug)]
struct Kept {
    valid_for: Duration,
    state: watch::Sender<State>,
}

/// A commit under way, as far as the lease is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    at: Instant,
    losses: u64,
}

impl LeaseKeeper {
    pub(super) fn new(terms: Option<LeaseTerms>) -> Self {
        Self(terms.map(|terms| Kept {
            valid_for: terms.valid_for,
            state: watch::Sender::new(State { until: Instant::now(), losses: 0 }),
        }))
    }

    pub(super) fn lease(&self) -> Lease {
        Lease(self.0.as_ref().map(|kept| kept.state.subscribe()))
    }

    /// A commit goes out now.
    pub(super) fn sending(&self) -> Sent {
        Sent { at: Instant::now(), losses: self.0.as_ref().map_or(0, |kept| kept.state.borrow().losses) }
    }

    /// The group accepted the commit: it knew us when it took it, which was after it was sent.
    pub(super) fn renew(&self, sent: Sent) {
        let Some(kept) = &self.0 else { return };
        kept.state.send_if_modified(|state| {
            let renewed = sent.at + kept.valid_for;
            let later = sent.losses == state.losses && renewed > state.until;
            if later {
                state.until = renewed;
            }
            later
        });
    }

    /// The group put us out: over at once, whatever is accepted late.
    pub(super) fn end(&self) {
        let Some(kept) = &self.0 else { return };
        kept.state.send_modify(|state| {
            state.losses += 1;
            state.until = state.until.min(Instant::now());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: LeaseTerms =
        LeaseTerms { valid_for: Duration::from_secs(25), renew_every: Duration::from_secs(5) };

    fn after(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn i10_a_lease_runs_from_the_sending_of_an_accepted_commit() {
        let keeper = LeaseKeeper::new(Some(TERMS));
        let lease = keeper.lease();
        assert!(!lease.holds(Instant::now()), "over before the first commit");
        let sent = keeper.sending();
        let until = after(25);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!lease.holds(Instant::now()), "nothing was accepted yet");
        keeper.renew(sent);
        assert_eq!(lease.until(), Some(until));
        assert!(lease.holds(until - Duration::from_millis(1)) && !lease.holds(until));

        let (early, late) = (keeper.sending(), {
            tokio::time::advance(Duration::from_secs(3)).await;
            keeper.sending()
        });
        keeper.renew(late);
        keeper.renew(early);
        assert_eq!(lease.until(), Some(after(25)), "an answer that comes late shortens nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn i10_a_loss_ends_the_lease_and_what_was_sent_before_does_not_bring_it_back() {
        let keeper = LeaseKeeper::new(Some(TERMS));
        let lease = keeper.lease();
        keeper.renew(keeper.sending());
        let before = keeper.sending();
        keeper.end();
        assert!(!lease.holds(Instant::now()));
        tokio::time::advance(Duration::from_secs(1)).await;
        keeper.renew(before);
        assert!(!lease.holds(Instant::now()), "accepted from the member that was");
        keeper.renew(keeper.sending());
        assert_eq!(lease.until(), Some(after(25)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_lease_wakes_with_its_renewal() {
        let keeper = LeaseKeeper::new(Some(TERMS));
        let lease = keeper.lease();
        let waiting = tokio::spawn(async move { lease.held().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        keeper.renew(keeper.sending());
        waiting.await.expect("woken");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_without_terms_never_ends() {
        let keeper = LeaseKeeper::new(None);
        keeper.end();
        for lease in [keeper.lease(), Lease::endless()] {
            assert_eq!(lease.until(), None);
            assert!(lease.holds(after(1_000_000)));
            lease.held().await;
        }
    }
}
