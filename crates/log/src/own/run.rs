//! The task of one partition: finds its position, runs the owner, starts it again after failures, stands still when its
//! records are gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Claim, Owner, Owning, Position, StoppedPartitions, Subject};
use crate::{Committed, Log, LogError, Offset};

/// How often a committed position is asked for again when the group seems to have none: a coordinator that is just
/// resigning says so too (KAFKA-20416), and believing it would replay the partition from its start.
const NO_POSITION_ASKS: u32 = 3;
/// Between those asks, and after any other failure at the start of a partition.
const ASK_PAUSE: Duration = Duration::from_millis(700);
/// After a partition's task failed or panicked.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Between two alarms of a partition that cannot go on.
const ALARM_INTERVAL: Duration = Duration::from_secs(60);
/// How long an owner that is cut may take to drop what it holds before it is aborted.
const CUT_WAIT: Duration = Duration::from_secs(2);

pub(super) struct Run {
    pub(super) subject: Subject,
    pub(super) log: Arc<dyn Log>,
    pub(super) owner: Arc<dyn Owner>,
    pub(super) position: Position,
    pub(super) partition: u32,
    pub(super) sequence: u64,
    pub(super) stop: CancellationToken,
    pub(super) cut: CancellationToken,
    pub(super) stopped: StoppedPartitions,
}

impl Run {
    /// Runs the owner until the stop and gives its last position. When this returns, nothing of the owner runs.
    pub(super) async fn until_stopped(self) -> Option<Committed> {
        loop {
            let from = tokio::select! {
                from = self.find_position() => from,
                () = self.asked_to_end() => return self.position.latest(),
            };
            let (owner, claim) = (self.owner.clone(), self.claim(from));
            // A task of its own, so that a panic is seen here and ends nothing else.
            let running = tokio::spawn(async move { owner.own(claim).await });
            let (topic, partition) = (&self.subject.topic, self.partition);
            match self.joined(running).await {
                Ok(Ok(last)) if self.is_asked_to_end() => return last.or_else(|| self.position.latest()),
                _ if self.is_asked_to_end() => return self.position.latest(),
                Ok(Ok(_)) => tracing::warn!(topic, partition, "partition ended early; starting again"),
                Ok(Err(error @ LogError::OutOfRange { .. })) => {
                    self.stand_still(&error).await;
                    return None;
                }
                Ok(Err(error)) => {
                    tracing::warn!(topic, partition, %error, "partition failed; starting again");
                }
                Err(error) => tracing::error!(topic, partition, %error, "partition panicked; starting again"),
            }
            tokio::select! {
                () = tokio::time::sleep(RESTART_PAUSE) => {}
                () = self.asked_to_end() => return self.position.latest(),
            }
        }
    }

    fn claim(&self, from: Committed) -> Claim {
        Claim {
            partition: self.partition,
            sequence: self.sequence,
            from,
            position: self.position.clone(),
            stop: self.stop.clone(),
            cut: self.cut.clone(),
        }
    }

    fn is_asked_to_end(&self) -> bool {
        self.stop.is_cancelled() || self.cut.is_cancelled()
    }

    async fn asked_to_end(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.cut.cancelled() => {}
        }
    }

    /// The owner's result. One that does not return when it is cut is aborted; either way it has ended when this returns.
    async fn joined(&self, mut running: JoinHandle<Owning>) -> Result<Owning, JoinError> {
        tokio::select! {
            result = &mut running => return result,
            () = self.cut.cancelled() => {}
        }
        if let Ok(result) = tokio::time::timeout(CUT_WAIT, &mut running).await {
            return result;
        }
        running.abort();
        running.await
    }

    /// Where to go on: at the last position put down under this assignment; else where the group is, asked until somebody
    /// can say. Only a group that says several times that it never committed starts at the log start, and commits that at
    /// once.
    async fn find_position(&self) -> Committed {
        if let Some(latest) = self.position.latest() {
            return latest;
        }
        let Subject { topic, group } = &self.subject;
        let asks = if self.log.never_committed_is_certain() { 1 } else { NO_POSITION_ASKS };
        let mut none_seen = 0;
        loop {
            match self.log.committed(group, topic, self.partition).await {
                Ok(Some(committed)) => return committed,
                Ok(None) if none_seen + 1 < asks => none_seen += 1,
                Ok(None) => match self.log.bounds(topic, self.partition).await {
                    Ok(bounds) => return self.genesis(bounds.low),
                    Err(error) => {
                        tracing::warn!(topic, partition = self.partition, %error, "log start is unknown");
                    }
                },
                Err(error) => {
                    tracing::warn!(topic, partition = self.partition, %error, "committed offset is unknown");
                }
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    }

    fn genesis(&self, low: Offset) -> Committed {
        let first = Committed { offset: low, metadata: String::new() };
        let topic = &self.subject.topic;
        tracing::info!(topic, partition = self.partition, offset = low, "first owner of this partition");
        self.position.set(first.clone());
        first
    }

    /// Data is gone, or the topic was made anew: never skipped, a person must decide.
    async fn stand_still(&self, error: &LogError) {
        self.stopped.0.fetch_add(1, Ordering::Relaxed);
        loop {
            tracing::error!(
                topic = self.subject.topic, partition = self.partition, %error,
                "partition stopped: records between the committed offset and the log are gone; see docs/operate/lost-offsets.md"
            );
            tokio::select! {
                () = tokio::time::sleep(ALARM_INTERVAL) => {}
                () = self.asked_to_end() => break,
            }
        }
        self.stopped.0.fetch_sub(1, Ordering::Relaxed);
    }
}
