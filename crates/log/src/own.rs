//! Owning partitions: from the events of a membership to one task for each owned partition, and back to commits.
//!
//! Both stages work like this, so the rules of assignment (docs/adr/0005) are kept here once: a task starts
//! at the committed offset and never at a guess; its stop is asked for before its partition is released, and its last
//! position goes into the release; a lost partition is dropped at once, without a commit; a missing offset stops the
//! partition and says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Committed, GroupEvent, Log, LogError, Membership, Offset, Release};

/// How often a committed position is asked for again when the group seems to have none: a coordinator that is just
/// resigning says so too (KAFKA-20416), and believing it would replay the partition from its start.
const NO_POSITION_ASKS: u32 = 3;
/// Between those asks, and after any other failure at the start of a partition.
const ASK_PAUSE: Duration = Duration::from_millis(700);
/// After a partition's task failed or panicked.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Between two alarms of a partition that cannot go on.
const ALARM_INTERVAL: Duration = Duration::from_secs(60);

/// How a role owns partitions.
#[derive(Debug, Clone, Copy)]
pub struct OwnOptions {
    /// Between two commits of what changed.
    pub commit_interval: Duration,
    /// How long a partition's task may finish what it holds when the partition is revoked or the role stops. Below the
    /// 10 s that the group waits.
    pub hand_over: Duration,
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
}

/// What a role does with one partition.
#[async_trait]
pub trait Owner: Send + Sync + 'static {
    /// Works until `claim.stop`, then returns the last position. Dropped without notice when the partition is lost or the
    /// hand-over took too long.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] stops the partition with an alarm; anything else starts it again from its committed offset.
    async fn own(&self, claim: Claim) -> Result<Option<Committed>, LogError>;
}

/// Where the owner of a partition puts positions to be committed. Of no effect once the partition was released or lost.
#[derive(Debug, Clone)]
pub struct Position {
    partition: u32,
    sequence: u64,
    positions: Positions,
}

impl Position {
    /// Replaces the position that the next commit takes.
    pub fn set(&self, position: Committed) {
        let mut state = self.positions.lock();
        if state.owned.get(&self.partition) == Some(&self.sequence) {
            state.waiting.insert(self.partition, position);
        }
    }
}

/// Positions that wait for the next commit, and under which assignment. A position of an earlier assignment is never
/// committed: another member may have gone further meanwhile, and a commit must not go back.
#[derive(Debug, Clone, Default)]
struct Positions(Arc<Mutex<PositionState>>);

#[derive(Debug, Default)]
struct PositionState {
    owned: HashMap<u32, u64>,
    waiting: HashMap<u32, Committed>,
}

impl Positions {
    fn grant(&self, partition: u32, sequence: u64) -> Position {
        let mut state = self.lock();
        state.owned.insert(partition, sequence);
        state.waiting.remove(&partition);
        Position { partition, sequence, positions: self.clone() }
    }

    /// What waits, with the assignment it belongs to.
    fn take(&self) -> Vec<(u32, u64, Committed)> {
        let state = &mut *self.lock();
        state
            .waiting
            .drain()
            .filter_map(|(p, c)| state.owned.get(&p).map(|sequence| (p, *sequence, c)))
            .collect()
    }

    /// Ends the ownership; what still waited comes back.
    fn revoke(&self, partition: u32) -> Option<Committed> {
        let mut state = self.lock();
        state.owned.remove(&partition);
        state.waiting.remove(&partition)
    }

    /// Puts back what a failed commit carried, unless something newer came or the partition left meanwhile.
    fn put_back(&self, failed: Vec<(u32, u64, Committed)>) {
        let state = &mut *self.lock();
        for (partition, sequence, position) in failed {
            if state.owned.get(&partition) == Some(&sequence) {
                state.waiting.entry(partition).or_insert(position);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PositionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who owns what: names of the topic and group that a role works on.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Topic.
    pub topic: String,
    /// Group.
    pub group: String,
}

struct Task {
    stop: CancellationToken,
    handle: JoinHandle<Option<Committed>>,
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
    let mut tick = tokio::time::interval(options.commit_interval);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
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
    owned.abort_all();
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
                    self.start(sequence, partition);
                }
            }
            GroupEvent::Revoked { partitions, release } => self.release(&partitions, release).await,
            GroupEvent::Lost { partitions } => {
                tracing::warn!(topic = self.subject.topic, count = partitions.len(), "partitions lost");
                for partition in partitions {
                    if let Some(task) = self.tasks.remove(&partition) {
                        task.handle.abort();
                        // Joined before the next assignment can start the same partition again (I11, I12).
                        let _ = task.handle.await;
                    }
                    self.positions.revoke(partition);
                }
            }
        }
    }

    fn start(&mut self, sequence: u64, partition: u32) {
        let stop = CancellationToken::new();
        let run = Run {
            subject: self.subject.clone(),
            log: self.log.clone(),
            owner: self.owner.clone(),
            position: self.positions.grant(partition, sequence),
            partition,
            sequence,
            stop: stop.clone(),
        };
        let handle = tokio::spawn(run.until_stopped());
        if let Some(old) = self.tasks.insert(partition, Task { stop, handle }) {
            // The group never assigns what it did not revoke; were it to, the newer assignment wins.
            old.handle.abort();
        }
    }

    /// Drains the partitions side by side, then releases them with their last positions.
    async fn release(&mut self, partitions: &[u32], release: Release) {
        let mut draining = Vec::new();
        for partition in partitions {
            if let Some(task) = self.tasks.remove(partition) {
                task.stop.cancel();
                draining.push((*partition, task.handle));
            }
        }
        let deadline = tokio::time::Instant::now() + self.options.hand_over;
        let mut last = Vec::new();
        for (partition, mut handle) in draining {
            let drained = tokio::time::timeout_at(deadline, &mut handle).await;
            if drained.is_err() {
                tracing::warn!(topic = self.subject.topic, partition, "hand-over took too long; work is cut");
                handle.abort();
                let _ = handle.await;
            }
            // The last word of the task, or what it had put down before it was cut.
            let waiting = self.positions.revoke(partition);
            last.extend(
                drained.ok().and_then(Result::ok).flatten().or(waiting).map(|position| (partition, position)),
            );
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

    fn abort_all(&mut self) {
        for (_, task) in self.tasks.drain() {
            task.handle.abort();
        }
    }
}

/// The task of one partition: finds its position, runs the owner, starts it again after failures.
struct Run {
    subject: Subject,
    log: Arc<dyn Log>,
    owner: Arc<dyn Owner>,
    position: Position,
    partition: u32,
    sequence: u64,
    stop: CancellationToken,
}

impl Run {
    async fn until_stopped(self) -> Option<Committed> {
        loop {
            let from = tokio::select! {
                from = self.find_position() => from,
                () = self.stop.cancelled() => return None,
            };
            let claim = Claim {
                partition: self.partition,
                sequence: self.sequence,
                from,
                position: self.position.clone(),
                stop: self.stop.clone(),
            };
            // A task of its own, so that a panic is seen here and ends nothing else; aborted with this one.
            let owner = self.owner.clone();
            let mut running = AbortOnDrop(tokio::spawn(async move { owner.own(claim).await }));
            match (&mut running.0).await {
                Ok(Ok(last)) if self.stop.is_cancelled() => return last,
                Ok(Ok(_)) => tracing::warn!(
                    topic = self.subject.topic,
                    partition = self.partition,
                    "partition ended early"
                ),
                Ok(Err(error @ LogError::OutOfRange { .. })) => return self.alarm(&error).await,
                Ok(Err(error)) => {
                    tracing::warn!(topic = self.subject.topic, partition = self.partition, %error, "partition failed; starting again");
                }
                Err(error) => {
                    tracing::error!(topic = self.subject.topic, partition = self.partition, %error, "partition panicked; starting again");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RESTART_PAUSE) => {}
                () = self.stop.cancelled() => return None,
            }
        }
    }

    /// Where the group is. Asked until somebody can say; only a group that says several times that it never committed
    /// starts at the log start, and commits that at once.
    async fn find_position(&self) -> Committed {
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
        tracing::info!(
            topic = self.subject.topic,
            partition = self.partition,
            offset = low,
            "first owner of this partition"
        );
        self.position.set(first.clone());
        first
    }

    /// Data is gone, or the topic was made anew: never skipped, a person must decide.
    async fn alarm(&self, error: &LogError) -> Option<Committed> {
        loop {
            tracing::error!(
                topic = self.subject.topic, partition = self.partition, %error,
                "partition stopped: records between the committed offset and the log are gone; see docs/operate/lost-offsets.md"
            );
            tokio::select! {
                () = tokio::time::sleep(ALARM_INTERVAL) => {}
                () = self.stop.cancelled() => return None,
            }
        }
    }
}

struct AbortOnDrop(JoinHandle<Result<Option<Committed>, LogError>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
