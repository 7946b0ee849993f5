//! The task of one partition: runs the owner, starts it again after failures, stands still when its records are gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::claim::Group;
use super::{Claim, Lease, Owner, Owning, Position, StoppedPartitions};
use crate::{Committed, LogError};

/// After a partition's task failed or panicked.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Between two alarms of a partition that cannot go on.
const ALARM_INTERVAL: Duration = Duration::from_secs(60);
/// How long an owner that is cut may take to drop what it holds before it is aborted.
const CUT_WAIT: Duration = Duration::from_secs(1);

pub(super) struct Run {
    pub(super) group: Group,
    pub(super) owner: Arc<dyn Owner>,
    pub(super) position: Position,
    pub(super) lease: Lease,
    pub(super) partition: u32,
    pub(super) sequence: u64,
    pub(super) hand_over: Duration,
    pub(super) stop: CancellationToken,
    pub(super) cut: CancellationToken,
    pub(super) stopped: StoppedPartitions,
}

impl Run {
    /// Runs the owner until the stop and gives its last position. When this returns, nothing of the owner runs.
    pub(super) async fn until_stopped(self) -> Option<Committed> {
        loop {
            let (owner, claim) = (self.owner.clone(), self.claim());
            // A task of its own, so that a panic is seen here and ends nothing else.
            let running = tokio::spawn(async move { owner.own(claim).await });
            let (topic, partition) = (&self.group.subject.topic, self.partition);
            match self.joined(running).await {
                Ok(Ok(last)) if self.is_asked_to_end() => return last.or_else(|| self.position.latest()),
                _ if self.is_asked_to_end() => return self.position.latest(),
                Ok(Ok(_)) => tracing::warn!(topic, partition, "partition ended early; starting again"),
                Ok(Err(error @ LogError::OutOfRange { .. })) => {
                    self.stand_still(&error).await;
                    return None;
                }
                Ok(Err(error @ LogError::Fault(_))) => {
                    tracing::error!(topic, partition, %error, "partition failed by a fault; starting again");
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

    fn claim(&self) -> Claim {
        Claim {
            partition: self.partition,
            sequence: self.sequence,
            position: self.position.clone(),
            lease: self.lease.clone(),
            stop: self.stop.clone(),
            hand_over: self.hand_over,
            cut: self.cut.clone(),
            group: self.group.clone(),
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

    /// Data is gone, or the topic was made anew: never skipped, a person must decide.
    async fn stand_still(&self, error: &LogError) {
        let _stands_still = self.stopped.one();
        loop {
            tracing::error!(
                topic = self.group.subject.topic, partition = self.partition, %error,
                "partition stopped: records between the committed offset and the log are gone; see docs/operate/lost-offsets.md"
            );
            tokio::select! {
                () = tokio::time::sleep(ALARM_INTERVAL) => {}
                () = self.asked_to_end() => break,
            }
        }
    }
}
