//! The commit loop of a member: what changed with every tick, at once when asked, and everything again to keep the lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

use super::lease::{Lease, LeaseKeeper};
use super::positions::Positions;
use super::{OwnOptions, Position};
use crate::{Committed, LogError, Membership};

/// How long a release waits for a commit that is on its way, so that none comes after the last one. Short beside what the group waits
/// for a release, 60 s at least, of which the hand-over takes 8 s and a cut 1 s.
const COMMIT_WAIT: Duration = Duration::from_millis(800);

/// How long the group may refuse commits because it gives its partitions out anew before that is worth a warning: members that come or
/// go take less, and a lease lasts longer.
const REBALANCE_MAX: Duration = Duration::from_secs(10);

/// Positions of a member on their way to its group, one commit at a time. A failed one is tried again with the next tick.
pub(super) struct Commits {
    topic: String,
    membership: Arc<dyn Membership>,
    positions: Positions,
    keeper: LeaseKeeper,
    under_way: UnderWay,
}

/// Since when every commit has met a rebalance.
#[derive(Debug, Default)]
struct Rebalancing(Option<Instant>);

impl Rebalancing {
    /// Whether this one more failure is nothing to warn of.
    fn is_ordinary(&mut self, error: &LogError) -> bool {
        error.is_of_a_rebalance() && self.0.get_or_insert_with(Instant::now).elapsed() < REBALANCE_MAX
    }
}

/// Held while a commit is on its way. A cheap clone, which keeps no membership alive.
#[derive(Debug, Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<()>>);

impl UnderWay {
    /// Waits until no commit is on its way. It ends: a membership answers every commit in bounded time.
    pub(super) async fn arrived(&self) {
        drop(self.0.lock().await);
    }
}

impl Commits {
    pub(super) fn new(topic: &str, membership: Arc<dyn Membership>, options: &OwnOptions) -> Self {
        Self {
            topic: topic.to_owned(),
            membership,
            positions: Positions::default(),
            keeper: LeaseKeeper::new(options.lease),
            under_way: UnderWay::default(),
        }
    }

    pub(super) fn grant(&self, partition: u32, sequence: u64) -> Position {
        self.positions.grant(partition, sequence)
    }

    pub(super) fn lease(&self) -> Lease {
        self.keeper.lease()
    }

    /// From here on no commit carries the partition, beside one that is on its way. Gives the last position.
    pub(super) fn revoke(&self, partition: u32) -> Option<Committed> {
        self.positions.revoke(partition)
    }

    /// Waits for a commit that is on its way, for a bounded time.
    pub(super) async fn settle(&self) {
        let _ = timeout(COMMIT_WAIT, self.under_way.arrived()).await;
    }

    /// For whoever must know that none is on its way.
    pub(super) fn under_way(&self) -> UnderWay {
        self.under_way.clone()
    }

    /// The group put us out.
    pub(super) fn end_lease(&self) {
        self.keeper.end();
    }

    /// Commits until dropped.
    pub(super) async fn run(&self, options: &OwnOptions) {
        let mut tick = ticker(options.commit_interval);
        let mut rebalancing = Rebalancing::default();
        let mut renewal = options.lease.map(|terms| ticker(terms.renew_every));
        loop {
            let everything = tokio::select! {
                _ = tick.tick() => false,
                () = self.positions.wanted_soon() => false,
                () = next(renewal.as_mut()) => true,
            };
            self.commit(everything, &mut rebalancing).await;
        }
    }

    async fn commit(&self, everything: bool, rebalancing: &mut Rebalancing) {
        let _under_way = self.under_way.0.lock().await;
        let batch = if everything { self.positions.take_all() } else { self.positions.take() };
        if batch.is_empty() {
            return;
        }
        let commits = batch.iter().map(|(partition, _, position)| (*partition, position.clone())).collect();
        let sent = self.keeper.sending();
        match self.membership.commit(commits).await {
            Ok(()) => {
                self.keeper.renew(sent);
                *rebalancing = Rebalancing::default();
            }
            Err(error) => {
                if rebalancing.is_ordinary(&error) {
                    tracing::debug!(topic = self.topic, %error, "commit refused; what is still owned is tried again");
                } else {
                    tracing::warn!(topic = self.topic, %error, "commit failed; what is still owned is tried again");
                }
                self.positions.put_back(batch);
            }
        }
    }
}

fn ticker(every: Duration) -> Interval {
    let mut ticker = interval(every);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}

/// The next renewal; never, without a lease.
async fn next(renewal: Option<&mut Interval>) {
    match renewal {
        Some(renewal) => {
            renewal.tick().await;
        }
        None => std::future::pending().await,
    }
}
