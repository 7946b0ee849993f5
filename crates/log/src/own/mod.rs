//! Owning partitions: from the events of a membership to one task for each owned partition, and back to commits.
//!
//! Both stages work like this, so the rules of assignment (docs/adr/0005) are kept here once: a task starts at the
//! committed offset and never at a guess; its stop is asked for before its partition is released, and its last position goes
//! into the release; nothing of a lost partition runs any more when the next event is taken; a missing offset stops the
//! partition and says so.

mod positions;
mod run;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{Committed, GroupEvent, Log, LogError, Membership, Release};

pub use positions::Position;
use positions::Positions;
use run::Run;

/// How long a release waits for a commit that is on its way, so that none comes after the last one.
const COMMIT_WAIT: Duration = Duration::from_secs(2);

/// How a role owns partitions.
#[derive(Debug, Clone)]
pub struct OwnOptions {
    /// Between two commits of what changed.
    pub commit_interval: Duration,
    /// How long a partition's task may finish what it holds when the partition is revoked or the role stops. Below the
    /// 10 s that the group waits.
    pub hand_over: Duration,
    /// Where partitions that stand still are counted.
    pub stopped: StoppedPartitions,
}

/// How many partitions of a process stand still because their records are gone. For readiness. A cheap clone.
#[derive(Debug, Clone, Default)]
pub struct StoppedPartitions(Arc<AtomicUsize>);

impl StoppedPartitions {
    /// How many now.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Names of the topic and group that a role works on.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Topic.
    pub topic: String,
    /// Group.
    pub group: String,
}

/// One owned partition, as its task gets it.
#[derive(Debug)]
pub struct Claim {
    /// The partition.
    pub partition: u32,
    /// Number of the assignment that gave it.
    pub sequence: u64,
    /// Where to go on, with the metadata of the last owner.
    pub from: Committed,
    /// Where to put positions to be committed.
    pub position: Position,
    /// Asked to stop: take nothing new, finish what is held, return.
    pub stop: CancellationToken,
    /// The partition is taken away, or the time for finishing is over: drop what runs, and return when it is dropped. An
    /// owner that does not is aborted.
    pub cut: CancellationToken,
}

/// What an owner came to: its last position.
pub type Owning = Result<Option<Committed>, LogError>;

/// What a role does with one partition.
#[async_trait]
pub trait Owner: Send + Sync + 'static {
    /// Works until `claim.stop`, then returns the last position; returns at once at `claim.cut`.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] stops the partition with an alarm; anything else starts it again from its last position.
    async fn own(&self, claim: Claim) -> Owning;
}

/// The task of one partition. Dropped, it is cut.
struct Task {
    stop: CancellationToken,
    cut: CancellationToken,
    handle: JoinHandle<Option<Committed>>,
}

impl Task {
    /// Ends the task and waits until nothing of it runs any more (I11, I12).
    async fn end(mut self) -> Option<Committed> {
        self.cut.cancel();
        (&mut self.handle).await.ok().flatten()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.cut.cancel();
    }
}

struct Owned {
    subject: Subject,
    log: Arc<dyn Log>,
    membership: Arc<dyn Membership>,
    owner: Arc<dyn Owner>,
    options: OwnOptions,
    positions: Positions,
    tasks: HashMap<u32, Task>,
    committing: Option<JoinHandle<()>>,
}

/// Joins the group and runs `owner` for each partition it is given, until `stop`: then every partition is drained and
/// released, and the group is left at once.
///
/// # Errors
/// What joining said.
pub async fn own_partitions(
    log: Arc<dyn Log>,
    subject: Subject,
    owner: Arc<dyn Owner>,
    options: OwnOptions,
    stop: CancellationToken,
) -> Result<(), LogError> {
    let membership: Arc<dyn Membership> = Arc::from(log.join(&subject.group, &subject.topic).await?);
    let mut tick = tokio::time::interval(options.commit_interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut owned = Owned {
        subject,
        log,
        membership: membership.clone(),
        owner,
        options,
        positions: Positions::default(),
        tasks: HashMap::new(),
        committing: None,
    };
    let mut leaving: Option<JoinHandle<()>> = None;
    loop {
        tokio::select! {
            event = membership.next() => match event {
                Some(event) => owned.take(event).await,
                None => break,
            },
            _ = tick.tick() => owned.commit(),
            () = stop.cancelled(), if leaving.is_none() => {
                let membership = membership.clone();
                leaving = Some(tokio::spawn(async move { membership.leave().await }));
            }
        }
    }
    for (_, task) in owned.tasks.drain() {
        task.end().await;
    }
    if let Some(leaving) = leaving {
        let _ = leaving.await;
    }
    Ok(())
}

impl Owned {
    async fn take(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Assigned { sequence, partitions } => {
                tracing::info!(
                    topic = self.subject.topic,
                    sequence,
                    count = partitions.len(),
                    "partitions assigned"
                );
                for partition in partitions {
                    self.start(sequence, partition).await;
                }
            }
            GroupEvent::Revoked { partitions, release } => self.release(&partitions, release).await,
            GroupEvent::Lost { partitions } => {
                tracing::warn!(topic = self.subject.topic, count = partitions.len(), "partitions lost");
                for partition in partitions {
                    // No position of it is committed from here on, and nothing of it runs when the next event is taken.
                    self.positions.revoke(partition);
                    if let Some(task) = self.tasks.remove(&partition) {
                        task.end().await;
                    }
                }
            }
        }
    }

    async fn start(&mut self, sequence: u64, partition: u32) {
        if let Some(old) = self.tasks.remove(&partition) {
            // The group never assigns what it did not revoke; were it to, the newer assignment wins.
            old.end().await;
        }
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let run = Run {
            subject: self.subject.clone(),
            log: self.log.clone(),
            owner: self.owner.clone(),
            position: self.positions.grant(partition, sequence),
            partition,
            sequence,
            stop: stop.clone(),
            cut: cut.clone(),
            stopped: self.options.stopped.clone(),
        };
        let handle = tokio::spawn(run.until_stopped());
        self.tasks.insert(partition, Task { stop, cut, handle });
    }

    /// Drains the partitions side by side, then releases them with their last positions.
    async fn release(&mut self, partitions: &[u32], release: Release) {
        let mut draining = Vec::new();
        for partition in partitions {
            if let Some(task) = self.tasks.remove(partition) {
                task.stop.cancel();
                draining.push((*partition, task));
            }
        }
        let deadline = Instant::now() + self.options.hand_over;
        let mut last = Vec::new();
        for (partition, mut task) in draining {
            let drained = match timeout_at(deadline, &mut task.handle).await {
                Ok(drained) => drained.ok().flatten(),
                Err(_) => {
                    tracing::warn!(
                        topic = self.subject.topic,
                        partition,
                        "hand-over took too long; work is cut"
                    );
                    task.end().await
                }
            };
            // The last word of the task, or what it had put down before it was cut.
            let latest = self.positions.revoke(partition);
            last.extend(drained.or(latest).map(|position| (partition, position)));
        }
        if let Some(committing) = self.committing.take() {
            let _ = timeout(COMMIT_WAIT, committing).await;
        }
        tracing::info!(topic = self.subject.topic, count = partitions.len(), "partitions released");
        release.done(last);
    }

    /// Commits what changed, one commit at a time. A failed one is tried again with the next tick.
    fn commit(&mut self) {
        if self.committing.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        let batch = self.positions.take();
        if batch.is_empty() {
            return;
        }
        let (membership, positions) = (self.membership.clone(), self.positions.clone());
        let topic = self.subject.topic.clone();
        self.committing = Some(tokio::spawn(async move {
            let commits =
                batch.iter().map(|(partition, _, position)| (*partition, position.clone())).collect();
            if let Err(error) = membership.commit(commits).await {
                tracing::warn!(topic, %error, "commit failed; what is still owned is tried again");
                positions.put_back(batch);
            }
        }));
    }
}
