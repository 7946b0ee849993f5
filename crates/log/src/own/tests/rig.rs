//! A log whose membership the test plays, and an owner whose work the test does. Time is virtual.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::own::{Claim, LeaseTerms, OwnOptions, Owner, Owning, StoppedPartitions, Subject, own_partitions};
use crate::{
    Bounds, Committed, GroupEvent, Log, LogError, Membership, NewRecord, Offset, Readers, Release, TopicSpec,
};

/// Nothing that a test waits for comes near it.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// No test lets more wait.
const QUEUE: usize = 16;

/// As of an owner whose attempts take up to five minutes.
pub(super) const REST_MAX: Duration = Duration::from_secs(301);

pub(super) const TERMS: LeaseTerms =
    LeaseTerms { valid_for: Duration::from_secs(25), renew_every: Duration::from_secs(5) };

pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: nothing happened"),
    }
}

pub(super) fn at(offset: u64) -> Committed {
    Committed { offset, metadata: format!("m{offset}") }
}

pub(super) fn down() -> LogError {
    LogError::Unavailable("as scripted".to_owned())
}

/// Counts warnings of this thread while it is subscribed to.
#[derive(Clone, Default)]
pub(super) struct Warnings(Arc<AtomicU32>);

impl Warnings {
    /// Counts until the guard is dropped.
    pub(super) fn listen(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if *event.metadata().level() <= tracing::Level::WARN {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One commit of the role, which waits for the test's answer.
pub(super) struct Commit {
    pub(super) positions: Vec<(u32, Committed)>,
    pub(super) answer: oneshot::Sender<Result<(), LogError>>,
}

impl Commit {
    pub(super) fn accept(self) -> Vec<(u32, Committed)> {
        self.answer.send(Ok(())).expect("somebody waits");
        self.positions
    }

    pub(super) fn refuse(self) -> Vec<(u32, Committed)> {
        self.refuse_with(down())
    }

    pub(super) fn refuse_with(self, error: LogError) -> Vec<(u32, Committed)> {
        self.answer.send(Err(error)).expect("somebody waits");
        self.positions
    }
}

struct Member {
    events: tokio::sync::Mutex<mpsc::Receiver<GroupEvent>>,
    commits: mpsc::Sender<Commit>,
}

#[async_trait]
impl Membership for Member {
    async fn next(&self) -> Option<GroupEvent> {
        self.events.lock().await.recv().await
    }

    async fn commit(&self, mut positions: Vec<(u32, Committed)>) -> Result<(), LogError> {
        positions.sort_by_key(|(partition, _)| *partition);
        let (answer, answered) = oneshot::channel();
        self.commits.send(Commit { positions, answer }).await.map_err(|_| LogError::Closed)?;
        answered.await.map_err(|_| LogError::Closed)?
    }

    async fn leave(&self) {
        self.events.lock().await.close();
    }
}

/// What a question for the committed position is answered with.
pub(super) type Answer = Result<Option<Committed>, LogError>;

pub(super) struct Scripted {
    member: Mutex<Option<Member>>,
    /// Answers to come; the last one repeats.
    answers: Mutex<VecDeque<Answer>>,
    pub(super) asked: AtomicU32,
    pub(super) certain: bool,
}

#[async_trait]
impl Log for Scripted {
    async fn join(&self, _: &str, _: &str) -> Result<Box<dyn Membership>, LogError> {
        Ok(Box::new(self.member.lock().expect("unpoisoned").take().expect("joined once")))
    }

    async fn committed(&self, _: &str, _: &str, _: u32) -> Answer {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().expect("unpoisoned");
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }.expect("an answer")
    }

    fn never_committed_is_certain(&self) -> bool {
        self.certain
    }

    async fn bounds(&self, _: &str, _: u32) -> Result<Bounds, LogError> {
        Ok(Bounds { low: 7, high: 90 })
    }

    async fn ensure_topics(&self, _: &[TopicSpec]) -> Result<(), LogError> {
        Err(LogError::Closed)
    }

    async fn append(&self, _: &str, _: u32, _: Vec<NewRecord>) -> Result<Vec<Offset>, LogError> {
        Err(LogError::Closed)
    }

    fn readers(&self) -> Result<Box<dyn Readers>, LogError> {
        Err(LogError::Closed)
    }

    async fn trim(&self, _: &str, _: u32, _: Offset) -> Result<(), LogError> {
        Err(LogError::Closed)
    }

    async fn check(&self) -> Result<(), LogError> {
        Err(LogError::Closed)
    }

    async fn close(&self, _: Duration) {}
}

/// A claim, whose work the test does until it gives a result.
pub(super) struct Turn {
    pub(super) claim: Claim,
    pub(super) result: oneshot::Sender<Owning>,
}

struct Handed {
    turns: mpsc::Sender<Turn>,
    /// None are free while a test lets something run on.
    rests: Arc<Semaphore>,
}

#[async_trait]
impl Owner for Handed {
    async fn own(&self, claim: Claim) -> Owning {
        let cut = claim.cut.clone();
        let (result, given) = oneshot::channel();
        self.turns.send(Turn { claim, result }).await.map_err(|_| LogError::Closed)?;
        tokio::select! {
            biased;
            given = given => given.unwrap_or(Err(LogError::Closed)),
            () = cut.cancelled() => Ok(None),
        }
    }

    async fn rest(&self, _: u32) {
        drop(self.rests.acquire().await);
    }

    fn rest_max(&self) -> Duration {
        REST_MAX
    }
}

/// A role that owns what the test assigns.
pub(super) struct Rig {
    pub(super) log: Arc<Scripted>,
    events: mpsc::Sender<GroupEvent>,
    commits: mpsc::Receiver<Commit>,
    turns: mpsc::Receiver<Turn>,
    pub(super) rests: Arc<Semaphore>,
    sequence: u64,
    _role: JoinHandle<Result<(), LogError>>,
}

impl Rig {
    /// Commits every 500 ms, hands over within 8 s, with a lease.
    pub(super) fn start() -> Self {
        Self::start_with(Duration::from_millis(500), vec![Ok(Some(at(1)))], false)
    }

    pub(super) fn start_with(commit_interval: Duration, answers: Vec<Answer>, certain: bool) -> Self {
        let (events, taken) = mpsc::channel(QUEUE);
        let (commit, commits) = mpsc::channel(QUEUE);
        let (turn, turns) = mpsc::channel(QUEUE);
        let member = Member { events: tokio::sync::Mutex::new(taken), commits: commit };
        let log = Arc::new(Scripted {
            member: Mutex::new(Some(member)),
            answers: Mutex::new(answers.into()),
            asked: AtomicU32::new(0),
            certain,
        });
        let options = OwnOptions {
            commit_interval,
            hand_over: Duration::from_secs(8),
            lease: Some(TERMS),
            stopped: StoppedPartitions::default(),
        };
        let subject = Subject { topic: "t".to_owned(), group: "g".to_owned() };
        let rests = Arc::new(Semaphore::new(1));
        let owner = Arc::new(Handed { turns: turn, rests: rests.clone() });
        let role = own_partitions(log.clone(), subject, owner, options, CancellationToken::new());
        Self { log, events, commits, turns, rests, sequence: 0, _role: tokio::spawn(role) }
    }

    /// Assigns partitions and takes their claims, in order.
    pub(super) async fn assign<const N: usize>(&mut self, partitions: [u32; N]) -> [Turn; N] {
        self.sequence += 1;
        let event = GroupEvent::Assigned { sequence: self.sequence, partitions: partitions.to_vec() };
        self.events.send(event).await.expect("taken");
        let mut turns = Vec::new();
        for _ in partitions {
            turns.push(self.turn().await);
        }
        turns.sort_by_key(|turn| turn.claim.partition);
        turns.try_into().map_err(|_| "as many as were assigned").expect("counted")
    }

    pub(super) async fn revoke(&self, partitions: &[u32]) -> oneshot::Receiver<Vec<(u32, Committed)>> {
        let (release, released) = Release::new();
        let event = GroupEvent::Revoked { partitions: partitions.to_vec(), release };
        self.events.send(event).await.expect("taken");
        released
    }

    pub(super) async fn lose(&self, partitions: &[u32]) {
        self.events.send(GroupEvent::Lost { partitions: partitions.to_vec() }).await.expect("taken");
    }

    /// The next claim: of a new assignment, or of a partition that starts again.
    pub(super) async fn turn(&mut self) -> Turn {
        within("a claim", self.turns.recv()).await.expect("the role runs")
    }

    pub(super) async fn commit(&mut self) -> Commit {
        within("a commit", self.commits.recv()).await.expect("the role runs")
    }

    /// Whether no commit comes for `time`.
    pub(super) async fn is_silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.commits.recv()).await.is_err()
    }
}
