//! The end of a run: every delivery has an end, and the history is judged.

use tokio::time::Instant;

use super::patience::LOOK_EVERY;
use super::{Fleet, PATIENCE};
use crate::feed::{Ends, Feeder};
use crate::history::{Budget, History, Seen, Verdict};

impl Fleet {
    /// Waits until every delivery has an end, ends the processes, and judges the whole history.
    pub(crate) async fn close(mut self, feeders: Vec<Feeder>, budget: &Budget) -> Verdict {
        let owed: Vec<_> = feeders.into_iter().flat_map(|feeder| feeder.owed).collect();
        let mut ends = self.ends();
        self.wait_ended(&mut ends, owed.len()).await;
        self.stop(self.members.len()).await;
        let commits = self.commits.lock().expect("not poisoned").clone();
        ends.catch_up().await;
        let seen = self.receiver.receipts().into_iter();
        let seen = seen.map(|receipt| Seen {
            accepted: receipt.is_accepted(),
            verified: receipt.verified,
            id: receipt.webhook_id,
        });
        let history = History { owed, seen: seen.collect(), ends: ends.of, commits };
        let verdict = history.check(budget);
        assert!(!self.receiver.snapshot().truncated, "every receipt was kept");
        println!(
            "owed {} received {} duplicates {} {:?} of {budget:?}",
            verdict.owed, verdict.received, verdict.duplicates, verdict.duplicates_of
        );
        let some: Vec<_> = verdict.faults.iter().take(20).collect();
        assert!(some.is_empty(), "{} faults: {some:#?} {}", verdict.faults.len(), self.logs());
        verdict
    }

    /// Waits until that many deliveries have an end.
    pub(crate) async fn wait_ended(&self, ends: &mut Ends, count: usize) {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            ends.catch_up().await;
            if ends.of.len() >= count {
                return;
            }
            if ends.of.len() > before {
                (before, since) = (ends.of.len(), Instant::now());
            }
            let stuck = since.elapsed() > PATIENCE;
            assert!(!stuck, "{before} of {count} deliveries have an end, and no more come: {}", self.logs());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
