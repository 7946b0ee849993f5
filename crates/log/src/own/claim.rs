//! One owned partition, as its task gets it; and where it goes on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::commits::UnderWay;
use super::{Lease, Position, Subject};
use crate::{Committed, Log};

/// How often a committed position is asked for again when the group seems to have none: a coordinator that is just
/// resigning says so too (KAFKA-20416), and believing it would replay the partition from its start.
const NO_POSITION_ASKS: u32 = 3;
/// Between those asks, and after any other failure at the start of a partition.
const ASK_PAUSE: Duration = Duration::from_millis(700);

/// One owned partition, as its task gets it.
#[derive(Debug)]
pub struct Claim {
    /// The partition.
    pub partition: u32,
    /// Number of the assignment that gave it.
    pub sequence: u64,
    /// Where to put positions to be committed.
    pub position: Position,
    /// Whether side effects may start.
    pub lease: Lease,
    /// Asked to stop: take nothing new, finish what is held, return.
    pub stop: CancellationToken,
    /// How long after `stop` comes `cut`, when the owner has not returned by then.
    pub hand_over: Duration,
    /// The partition is taken away, or the time for finishing is over: drop what runs, and return when it is dropped. An
    /// owner that does not is aborted.
    pub cut: CancellationToken,
    pub(super) group: Group,
}

/// Where an owner goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The position, with the metadata of whoever put it down; the log start when there is none.
    pub at: Committed,
    /// The group never committed a position here, and none was put down under this assignment. The owner puts one down, once it
    /// knows that there was no owner before: until then, nobody else can tell either.
    pub first: bool,
}

/// Whom to ask where the group is.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) subject: Subject,
    pub(super) log: Arc<dyn Log>,
    pub(super) commits: UnderWay,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl Claim {
    /// Where to go on: at the last position put down under this assignment; else where the group is now, asked until somebody
    /// can say, which has no end: wait for `stop` and `cut` beside it. Only a group that says several times that it never
    /// committed is believed. Puts nothing down. Cancel safe.
    pub async fn find_position(&self) -> Found {
        if let Some(at) = self.position.latest() {
            return Found { at, first: false };
        }
        // One of an earlier assignment may be on its way: what the group says before it has arrived is older than that.
        self.group.commits.arrived().await;
        let (partition, Subject { topic, group }) = (self.partition, &self.group.subject);
        let log = &self.group.log;
        let asks = if log.never_committed_is_certain() { 1 } else { NO_POSITION_ASKS };
        let mut none_seen = 0;
        loop {
            match log.committed(group, topic, partition).await {
                Ok(Some(at)) => return Found { at, first: false },
                Ok(None) if none_seen + 1 < asks => none_seen += 1,
                Ok(None) => match log.bounds(topic, partition).await {
                    Ok(bounds) => {
                        tracing::info!(
                            topic,
                            partition,
                            offset = bounds.low,
                            "the group never committed here"
                        );
                        let at = Committed { offset: bounds.low, metadata: String::new() };
                        return Found { at, first: true };
                    }
                    Err(error) => tracing::warn!(topic, partition, %error, "log start is unknown"),
                },
                Err(error) => tracing::warn!(topic, partition, %error, "committed offset is unknown"),
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    }
}
