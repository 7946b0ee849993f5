//! One partition of the events topic: the list of steps.
//!
//! [`crate::feed`] reads, has events matched and sizes; [`crate::append`] appends what follows and puts the position down. The
//! two run side by side: the next batch is matched while the one before is appended.

use std::sync::Arc;

use async_trait::async_trait;
use mailrail_limits::Sizer;
use mailrail_log::{Claim, Log, Owner, Owning, Readers};
use mailrail_store::Directory;
use mailrail_telemetry::{MailboxMetrics, MatchMetrics};
use tokio::sync::mpsc;

use crate::Config;
use crate::feed::Feed;
use crate::find_matches::Known;
use crate::pool::Pool;
use crate::service::Clock;

/// Everything that the pipeline of a partition works with.
pub(crate) struct Matching {
    pub(crate) config: Arc<Config>,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) readers: Box<dyn Readers>,
    pub(crate) known: Known,
    pub(crate) pool: Pool,
    pub(crate) sizer: Sizer,
    pub(crate) metrics: MatchMetrics,
    pub(crate) mailboxes: MailboxMetrics,
    pub(crate) clock: Clock,
}

#[async_trait]
impl Owner for Matching {
    async fn own(&self, claim: Claim) -> Owning {
        self.metrics.partitions.inc();
        let _owned = OnDrop(|| {
            self.metrics.partitions.dec();
        });
        let found = tokio::select! {
            biased;
            () = claim.stop.cancelled() => return Ok(None),
            () = claim.cut.cancelled() => return Ok(None),
            found = claim.find_position() => found,
        };
        let from = found.at.offset;
        if found.first {
            // Committed at once: a group without a position looks like one that lost it.
            claim.position.set(found.at);
        }
        let reader = self.readers.open(&self.config.events_topic, claim.partition, from)?;
        let (hand, handed) = mpsc::channel(1);
        let feeding = Feed::new(self, claim.partition, hand).run(reader, &claim);
        // Ends when the feed has ended and everything is in the log.
        let appending = self.append_all(handed, &claim);
        tokio::select! {
            biased;
            (fed, last) = futures::future::join(feeding, appending) => fed.map(|()| last),
            // Dropped half-way when the partition leaves: what was not put down as done, the next owner does again with
            // the same delivery ids. What was put down is known to whoever cut.
            () = claim.cut.cancelled() => Ok(None),
        }
    }
}

impl Matching {
    pub(crate) fn directory(&self) -> &Directory {
        &self.known.directory
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
