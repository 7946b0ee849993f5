//! Owning partitions: from the events of a membership to one task for each owned partition, and back to commits.
//!
//! Both stages work like this, so the rules of assignment (docs/adr/0005) are kept here once: a task starts at the
//! committed offset and never at a guess; its stop is asked for before its partition is released, and its last position goes
//! into the release; nothing of a lost partition runs any more when the next event is taken; a missing offset stops the
//! partition and says so. Commits go on while partitions are handed over, since they keep the lease of the others.

mod claim;
mod commits;
mod lease;
mod positions;
mod run;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{Committed, GroupEvent, Log, LogError, Membership, Release};

use claim::Group;
pub use claim::{Claim, Found};
use commits::Commits;
pub use lease::{Lease, LeaseTerms};
pub use positions::Position;
use run::Run;

/// How a role owns partitions.
#[derive(Debug, Clone)]
pub struct OwnOptions {
    /// Between two commits of what changed.
    pub commit_interval: Duration,
    /// How long a partition's task may finish what it holds when the partition is revoked or the role stops. Below the
    /// 10 s that the group waits.
    pub hand_over: Duration,
    /// How the lease of the member is kept; `None`: it never ends, for logs that take no membership away and for roles
    /// without side effects outside of the log.
    pub lease: Option<LeaseTerms>,
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

    /// One more, until what this returns is dropped.
    #[must_use]
    pub fn one(&self) -> StandsStill {
        self.0.fetch_add(1, Ordering::Relaxed);
        StandsStill(self.clone())
    }
}

/// A partition that stands still, as long as this lives.
#[derive(Debug)]
pub struct StandsStill(StoppedPartitions);

impl Drop for StandsStill {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
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

    /// Waits until nothing is at work any more that owners of the partition in this process started outside of the log, but what
    /// their last word tells the next owner of. Asked when none runs any more, before the partition is released.
    async fn rest(&self, _partition: u32) {}

    /// How long [`Owner::rest`] takes at most; the release waits no longer. Not longer than a session: the group waits for a
    /// release a little longer than that.
    fn rest_max(&self) -> Duration {
        Duration::ZERO
    }
}

/// The task of one partition. Dropped, it is cut.
struct Task {
    stop: CancellationToken,
    cut: CancellationToken,
    handle: JoinHandle<Option<Committed>>,
}

impl Task {
    /// Ends the task and waits until nothing of it runs any more.
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
    group: Group,
    owner: Arc<dyn Owner>,
    options: OwnOptions,
    commits: Arc<Commits>,
    tasks: HashMap<u32, Task>,
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
    let commits = Arc::new(Commits::new(&subject.topic, membership.clone(), &options));
    let mut owned = Owned {
        group: Group { subject, log, commits: commits.under_way() },
        owner,
        options: options.clone(),
        commits: commits.clone(),
        tasks: HashMap::new(),
    };
    tokio::select! {
        () = owned.run(membership, stop) => {}
        () = commits.run(&options) => {}
    }
    Ok(())
}

impl Owned {
    /// Takes the member's events until it has left.
    async fn run(&mut self, membership: Arc<dyn Membership>, stop: CancellationToken) {
        let mut leaving: Option<JoinHandle<()>> = None;
        loop {
            tokio::select! {
                event = membership.next() => match event {
                    Some(event) => self.take(event).await,
                    None => break,
                },
                () = stop.cancelled(), if leaving.is_none() => {
                    let membership = membership.clone();
                    leaving = Some(tokio::spawn(async move { membership.leave().await }));
                }
            }
        }
        self.end(self.tasks.keys().copied().collect()).await;
        if let Some(leaving) = leaving {
            let _ = leaving.await;
        }
    }

    async fn take(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Assigned { sequence, partitions } => {
                tracing::info!(
                    topic = self.topic(),
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
                tracing::warn!(topic = self.topic(), count = partitions.len(), "partitions lost");
                self.commits.end_lease();
                self.end(partitions).await;
            }
        }
    }

    /// No position of the partitions is committed from here on, and nothing of them runs when this returns (I11, I12).
    async fn end(&mut self, partitions: Vec<u32>) {
        let mut ending = Vec::new();
        for partition in partitions {
            self.commits.revoke(partition);
            ending.extend(self.tasks.remove(&partition));
        }
        ending.iter().for_each(|task| task.cut.cancel());
        for task in ending {
            task.end().await;
        }
    }

    fn topic(&self) -> &str {
        &self.group.subject.topic
    }

    async fn start(&mut self, sequence: u64, partition: u32) {
        if let Some(old) = self.tasks.remove(&partition) {
            // The group never assigns what it did not revoke; were it to, the newer assignment wins.
            old.end().await;
        }
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let run = Run {
            group: self.group.clone(),
            owner: self.owner.clone(),
            position: self.commits.grant(partition, sequence),
            lease: self.commits.lease(),
            partition,
            sequence,
            hand_over: self.options.hand_over,
            stop: stop.clone(),
            cut: cut.clone(),
            stopped: self.options.stopped.clone(),
        };
        let handle = tokio::spawn(run.until_stopped());
        self.tasks.insert(partition, Task { stop, cut, handle });
    }

    /// The next owner is told nothing of what may still be at work now, so that ends first.
    async fn rest(&self, partitions: &[u32]) {
        let until = Instant::now() + self.owner.rest_max();
        for partition in partitions {
            if timeout_at(until, self.owner.rest(*partition)).await.is_err() {
                tracing::warn!(topic = self.topic(), partition, "released with work that may not have ended");
            }
        }
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
        let cuts: Vec<CancellationToken> = draining.iter().map(|(_, task)| task.cut.clone()).collect();
        let deadline = Instant::now() + self.options.hand_over;
        let mut last = Vec::new();
        for (partition, mut task) in draining {
            let drained = match timeout_at(deadline, &mut task.handle).await {
                Ok(drained) => drained.ok().flatten(),
                Err(_) => {
                    tracing::warn!(topic = self.topic(), partition, "hand-over took too long; work is cut");
                    // All of them now: the group does not wait for one after the other.
                    cuts.iter().for_each(CancellationToken::cancel);
                    task.end().await
                }
            };
            // The last word of the task, or what it had put down before it was cut.
            let latest = self.commits.revoke(partition);
            last.extend(drained.or(latest).map(|position| (partition, position)));
        }
        self.rest(partitions).await;
        self.commits.settle().await;
        tracing::info!(topic = self.topic(), count = partitions.len(), "partitions released");
        release.done(last);
    }
}
