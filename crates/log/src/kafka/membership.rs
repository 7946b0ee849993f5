//! A member of a group: owns partitions and commits, never fetches.
//! See `member` for its threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};

use super::config::KafkaConfig;
use super::member::Poller;
use crate::size::check_metadata;
use crate::{Committed, GroupEvent, LogError, Membership};

/// How long a member waits for somebody to take an event.
const EVENT_WAIT: Duration = Duration::from_secs(10);
/// How long the last commits of a release may take. More would only hold the group up: they cost duplicates.
pub(super) const LAST_COMMIT_WAIT: Duration = Duration::from_secs(10);
/// How long a commit may take before its caller hears that nothing is known.
const COMMIT_WAIT: Duration = Duration::from_secs(20);
/// How long giving back may take beyond the release: its commits, and what runs on the poll thread at that moment.
const GIVING_BACK_BEYOND_RELEASE: Duration = Duration::from_secs(25);
/// How long who leaves waits for the goodbye, once everything is given back. A goodbye waits for a commit that is under way, and
/// neither has a deadline while the coordinator is away. Without it the session ends by itself.
const GOODBYE_WAIT: Duration = Duration::from_secs(5);
/// Between two looks whether the owner has answered, while a rebalance waits.
pub(super) const RELEASE_LOOK: Duration = Duration::from_millis(2);
/// Events nobody took yet. One comes per rebalance; a member that takes none is no owner and is put out.
const EVENTS_MAX: usize = 16;
/// Commits that wait for the one under way; they go out together.
pub(super) const COMMITS_MAX: usize = 64;

/// Partitions by the number of the assignment that gave them.
#[derive(Default)]
pub(super) struct Ownership {
    pub(super) owned: HashMap<u32, u64>,
    pub(super) sequence: u64,
}

/// One commit call.
pub(super) struct Request {
    pub(super) commits: Vec<(u32, u64, Committed)>,
    pub(super) reply: oneshot::Sender<Result<(), LogError>>,
}

/// How far a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Member,
    /// Nothing is owned any more, and nothing will be.
    GivenBack,
    /// The group knows.
    Left,
}

/// What the callbacks, the threads and the caller share.
pub(super) struct Shared {
    pub(super) topic: String,
    pub(super) group: String,
    ownership: Mutex<Ownership>,
    pub(super) events: Mutex<Option<mpsc::Sender<GroupEvent>>>,
    pub(super) commits: Mutex<Option<mpsc::Sender<Request>>>,
    pub(super) leaving: AtomicBool,
    /// Another member has our name.
    fenced: AtomicBool,
    /// Leave without asking the owner.
    pub(super) at_once: AtomicBool,
    pub(super) stage: watch::Sender<Stage>,
    /// How long an owner may take to release.
    pub(super) release_wait: Duration,
}

impl Shared {
    /// Of a member that owns nothing yet, and where its events come.
    pub(super) fn new(
        config: &KafkaConfig,
        group: &str,
        topic: &str,
    ) -> (Arc<Self>, mpsc::Receiver<GroupEvent>) {
        let (events, taken) = mpsc::channel(EVENTS_MAX);
        let shared = Self {
            topic: topic.to_owned(),
            group: group.to_owned(),
            ownership: Mutex::default(),
            events: Mutex::new(Some(events)),
            commits: Mutex::default(),
            leaving: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            at_once: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Member),
            release_wait: config.release_wait(),
        };
        (Arc::new(shared), taken)
    }

    /// Without a thread that polls there is no member: its committing thread, which waits for commits, ends with its client.
    pub(super) fn is_polled(&self, started: std::io::Result<()>) -> Result<(), LogError> {
        started.map_err(|error| {
            self.commit_through(None);
            LogError::Unavailable(format!("no thread for a group member: {error}"))
        })
    }

    pub(super) fn ownership(&self) -> std::sync::MutexGuard<'_, Ownership> {
        self.ownership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each commit with the assignment it belongs to, so that one which waits cannot go out under a later assignment.
    pub(super) fn claim(
        &self,
        commits: Vec<(u32, Committed)>,
    ) -> Result<Vec<(u32, u64, Committed)>, LogError> {
        let ownership = self.ownership();
        commits
            .into_iter()
            .map(|(partition, it)| match ownership.owned.get(&partition) {
                Some(sequence) => Ok((partition, *sequence, it)),
                None => Err(LogError::NotOwned { partition }),
            })
            .collect()
    }

    pub(super) fn check(&self, commits: &[(u32, u64, Committed)]) -> Result<(), LogError> {
        let ownership = self.ownership();
        match commits.iter().find(|(partition, sequence, _)| ownership.owned.get(partition) != Some(sequence))
        {
            Some((partition, ..)) => Err(LogError::NotOwned { partition: *partition }),
            None => Ok(()),
        }
    }

    pub(super) fn disown(&self, partitions: &[u32]) -> Vec<u32> {
        let mut ownership = self.ownership();
        partitions.iter().copied().filter(|it| ownership.owned.remove(it).is_some()).collect()
    }

    /// The partitions are not ours any more, and nobody was asked.
    pub(super) fn lose(&self, partitions: &[u32]) {
        let partitions = self.disown(partitions);
        if !partitions.is_empty() {
            self.tell(GroupEvent::Lost { partitions });
        }
    }

    /// Nothing is ours any more.
    pub(super) fn lose_all(&self) {
        let owned: Vec<u32> = self.ownership().owned.keys().copied().collect();
        self.lose(&owned);
    }

    /// Another member took our name, and owns everything already.
    pub(super) fn fence(&self) {
        if !self.fenced.swap(true, Ordering::AcqRel) {
            tracing::error!(target: "mailrail_log::kafka", group = self.group, "name_taken: another process joined the group under the name of this one (log.kafka.group_instance_id), which has lost its partitions and ends when a session is over; give each process a name of its own");
            self.lose_all();
        }
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Where commits go from now on.
    pub(super) fn commit_through(&self, commits: Option<mpsc::Sender<Request>>) {
        *self.commits.lock().unwrap_or_else(PoisonError::into_inner) = commits;
    }

    /// Gives the event to the owner, or puts the member out when nobody takes events.
    pub(super) fn tell(&self, mut event: GroupEvent) -> bool {
        let deadline = Instant::now() + EVENT_WAIT;
        loop {
            let sender = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(sender) = sender else { return false };
            event = match sender.try_send(event) {
                Ok(()) => return true,
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
                Err(mpsc::error::TrySendError::Full(event)) => event,
            };
            if Instant::now() > deadline {
                tracing::error!(target: "mailrail_log::kafka", group = self.group, "nobody takes the events of a member; it leaves");
                self.stop(true);
                return false;
            }
            std::thread::sleep(RELEASE_LOOK);
        }
    }

    /// Asks the poll thread to leave.
    pub(super) fn stop(&self, at_once: bool) {
        if at_once {
            self.at_once.store(true, Ordering::Release);
        }
        self.leaving.store(true, Ordering::Release);
    }

    /// Waits for the stage; false when it did not come within `wait`.
    async fn reached(&self, stage: Stage, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.stage.subscribe().wait_for(|it| *it >= stage)).await.is_ok()
    }

    /// Returns when everything is given back and the group knows, or has not heard of it for long enough.
    pub(super) async fn left(&self) {
        if !self.reached(Stage::GivenBack, self.release_wait + GIVING_BACK_BEYOND_RELEASE).await {
            tracing::warn!(target: "mailrail_log::kafka", group = self.group, "giving partitions back takes too long; the session will end by itself");
        } else if !self.reached(Stage::Left, GOODBYE_WAIT).await {
            tracing::warn!(target: "mailrail_log::kafka", group = self.group, "the group did not hear that its member left; the session will end by itself");
        }
    }
}

pub(super) struct KafkaMembership {
    shared: Arc<Shared>,
    events: tokio::sync::Mutex<mpsc::Receiver<GroupEvent>>,
}

impl KafkaMembership {
    /// Joins. Blocks only for the making of a client.
    pub(super) fn join(config: &KafkaConfig, group: &str, topic: &str) -> Result<Self, LogError> {
        let (shared, taken) = Shared::new(config, group, topic);
        let poller = Poller::new(&shared, config)?;
        let started = std::thread::Builder::new().name("log-member".to_owned()).spawn(move || poller.run());
        shared.is_polled(started.map(drop))?;
        Ok(Self { shared, events: tokio::sync::Mutex::new(taken) })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

#[async_trait]
impl Membership for KafkaMembership {
    async fn next(&self) -> Option<GroupEvent> {
        self.events.lock().await.recv().await
    }

    async fn commit(&self, commits: Vec<(u32, Committed)>) -> Result<(), LogError> {
        check_metadata(&commits)?;
        let commits = self.shared.claim(commits)?;
        if commits.is_empty() {
            return Ok(());
        }
        let sender = self.shared.commits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sender = sender.ok_or(LogError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let answered = async {
            sender.send(Request { commits, reply }).await.map_err(|_| LogError::Closed)?;
            drop(sender);
            answer.await.map_err(|_| LogError::Closed)?
        };
        match tokio::time::timeout(COMMIT_WAIT, answered).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(LogError::Unavailable(format!("kafka did not answer a commit within {COMMIT_WAIT:?}")))
            }
        }
    }

    async fn leave(&self) {
        self.shared.stop(false);
        self.shared.left().await;
    }
}

impl Drop for KafkaMembership {
    fn drop(&mut self) {
        self.shared.stop(true);
    }
}
