//! The threads of a member, and the client that they use.
//!
//! Two threads. One polls, and runs the rebalances in its callback: it may wait there for the owner, nobody else waits
//! with it. The other commits, one request at a time, since librdkafka gives no outcome of an asynchronous commit
//! through its event queue and a synchronous one has no deadline. A client that cannot reach the group any more (see `brokers`)
//! is replaced: what it owned is lost, as when the group had put it out.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::mpsc;

use super::client::{aside, unavailable};
use super::committer::commit_all;
use super::config::KafkaConfig;
use super::membership::{COMMITS_MAX, LAST_COMMIT_WAIT, Request, Shared, Stage};
use super::rebalance::Callbacks;
use super::replacements::Replacements;
use crate::LogError;

/// The poll thread looks at least this often whether it should leave.
const POLL_MAX: Duration = Duration::from_millis(100);
/// Between two looks whether the committing thread has ended.
const ENDING_LOOK: Duration = Duration::from_millis(10);
/// Longest that a client which ends is polled for the revocation of what it was assigned.
const REVOCATION_WAIT: Duration = Duration::from_secs(10);
/// Questions that a client answers in turn before it is ended. Two are enough.
const QUESTIONS_BEFORE_END: u32 = 4;

/// A client in the group, and the thread that commits through it.
struct Joined {
    consumer: Arc<BaseConsumer<Callbacks>>,
    committer: JoinHandle<()>,
}

impl Joined {
    /// Joins, and says where its commits go. Nobody hears of the client before it is polled.
    fn new(shared: &Arc<Shared>, config: &KafkaConfig) -> Result<(Self, mpsc::Sender<Request>), LogError> {
        let made = config.member(&shared.group).create_with_context(Callbacks::new(shared.clone()));
        let consumer: Arc<BaseConsumer<Callbacks>> = Arc::new(made.map_err(|it| config.refused(it))?);
        let (commits, requests) = mpsc::channel(COMMITS_MAX);
        let committer = {
            let (shared, consumer) = (shared.clone(), consumer.clone());
            std::thread::Builder::new()
                .name("log-committer".to_owned())
                .spawn(move || commit_all(&shared, &consumer, requests))
        };
        let committer =
            committer.map_err(|e| LogError::Unavailable(format!("no thread for commits: {e}")))?;
        // Last: nobody may be given anything that does not come to be.
        consumer.subscribe(&[&shared.topic]).map_err(unavailable)?;
        Ok((Self { consumer, committer }, commits))
    }

    /// Ends the committing thread and leaves the group, which needs the network. Nothing is asked to commit through it any more; a
    /// commit that is under way ends with its timeout, or a session later where no coordinator is known. Until then the client is
    /// polled, since what it reports would pile up; it has left the group, so that nobody gives it anything meanwhile.
    fn end(self, shared: &Shared) {
        self.consumer.unsubscribe();
        let until = Instant::now() + REVOCATION_WAIT;
        while !self.committer.is_finished() || (self.is_in_the_group() && Instant::now() < until) {
            // Its fatal errors concern nobody either.
            drop(self.consumer.poll(ENDING_LOOK));
        }
        if self.committer.join().is_err() {
            tracing::error!(target: "mailrail_log::kafka", group = shared.group, "the committing thread panicked");
        }
        let_it_leave(&self.consumer);
        drop(self.consumer);
    }

    /// Whether the end of its subscription still waits for a rebalance, or a revocation for `poll`: both would come behind the end of the
    /// client too, and nobody would say goodbye.
    fn is_in_the_group(&self) -> bool {
        let some = |all: Result<TopicPartitionList, KafkaError>| all.is_ok_and(|all| all.count() > 0);
        some(self.consumer.assignment()) || some(self.consumer.subscription())
    }
}

/// Librdkafka has said goodbye to the group when this returns, where nothing was in its way: it does once the partitions that were given back are
/// stopped. A client that is ended before that forgets it (`rd_kafka_cgrp_incr_unassign_done` of 2.12.1 does not leave while it
/// terminates), and the group waits for the whole session. Stops, their ends and questions go through one queue, in order: behind
/// the first question are the stops, behind the second their ends.
fn let_it_leave(consumer: &BaseConsumer<Callbacks>) {
    for _ in 0..QUESTIONS_BEFORE_END {
        // What it answers is no matter.
        let _ = consumer.subscription();
    }
}

/// The poll thread's own.
pub(super) struct Poller {
    shared: Arc<Shared>,
    config: KafkaConfig,
    joined: Joined,
    replacements: Replacements,
    /// When one that lost its name has rested for long enough.
    rested: Option<Instant>,
}

impl Poller {
    /// Makes the client. Commits go through it from now on.
    pub(super) fn new(shared: &Arc<Shared>, config: &KafkaConfig) -> Result<Self, LogError> {
        let (joined, commits) = Joined::new(shared, config)?;
        shared.commit_through(Some(commits));
        let replacements = Replacements::default();
        Ok(Self { shared: shared.clone(), config: config.clone(), joined, replacements, rested: None })
    }

    /// The poll thread: rebalances run inside `poll`.
    pub(super) fn run(mut self) {
        while !self.shared.leaving.load(Ordering::Acquire) {
            let now = Instant::now();
            self.rest_when_fenced(now);
            self.look_for_brokers(now);
            poll_once(&self.shared, &self.joined.consumer);
        }
        let Self { shared, joined, .. } = self;
        // Runs the revocation, with the release and its commits, before the group hears that we leave.
        joined.consumer.unsubscribe();
        let deadline = Instant::now() + shared.release_wait + LAST_COMMIT_WAIT;
        while !shared.ownership().owned.is_empty() && Instant::now() < deadline {
            poll_once(&shared, &joined.consumer);
        }
        shared.commit_through(None);
        given_back(&shared);
        joined.end(&shared);
        shared.stage.send_replace(Stage::Left);
    }

    /// Who lost its name rests for a session before it leaves. Its process ends then, and when it is started again it takes the name back. At
    /// once, the two would put each other out every second, and each time would count as a death of what was under way (I16).
    fn rest_when_fenced(&mut self, now: Instant) {
        if self.shared.is_fenced() && now >= *self.rested.get_or_insert(now + self.config.session_timeout) {
            self.shared.stop(true);
        }
    }

    /// Joins anew with another client where this one cannot reach the group any more. What it owned is lost, and the group gives it out
    /// again when the old client's session is over, since the new one has no name: under the old one's the group might give it to others at
    /// once, while what was cut here is still at work (I12). Where there is no other client this one goes on: it may hear of a broker after all.
    fn look_for_brokers(&mut self, now: Instant) {
        if !self.joined.consumer.context().knows_no_broker()
            || !self.replacements.is_due(now)
            || self.shared.is_fenced()
        {
            return;
        }
        let nameless = KafkaConfig { group_instance_id: None, ..self.config.clone() };
        let (new, commits) = match Joined::new(&self.shared, &nameless) {
            Ok(new) => new,
            Err(error) => {
                tracing::error!(target: "mailrail_log::kafka", group = self.shared.group, %error, "a member knows no broker any more, and there is no new client for it; trying again");
                self.replacements.failed(now);
                return;
            }
        };
        tracing::warn!(target: "mailrail_log::kafka", group = self.shared.group, "a member knows no broker any more; it joins anew");
        self.replacements.replaced(now);
        let old = std::mem::replace(&mut self.joined, new);
        old.consumer.context().retire();
        self.shared.lose_all();
        self.shared.commit_through(Some(commits));
        let shared = self.shared.clone();
        // Clients that end at the same time are few: it takes a session and a commit's timeout, and replacements in a row become rare.
        if let Err(error) = aside(move || old.end(&shared)) {
            // Its committing thread has nothing to do any more, ends, and drops the last of it.
            tracing::error!(target: "mailrail_log::kafka", %error, "no thread to end a client; its committing thread does");
        }
    }
}

/// There are no events any more, and whoever leaves need not wait for a commit that gets no answer.
fn given_back(shared: &Shared) {
    shared.ownership().owned.clear();
    shared.events.lock().unwrap_or_else(PoisonError::into_inner).take();
    shared.stage.send_replace(Stage::GivenBack);
}

fn poll_once(shared: &Shared, consumer: &BaseConsumer<Callbacks>) {
    match consumer.poll(POLL_MAX) {
        None => {}
        // Everything is paused: a record that was under way when its partition was assigned.
        Some(Ok(_)) => {}
        Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) => {}
        // The error comes once; librdkafka drops what was assigned, and calls nobody.
        Some(Err(KafkaError::MessageConsumptionFatal(RDKafkaErrorCode::FencedInstanceId))) => shared.fence(),
        Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
            tracing::error!(target: "mailrail_log::kafka", group = shared.group, %error, "the member cannot go on; it leaves");
            shared.lose_all();
            shared.stop(true);
        }
        Some(Err(error)) => {
            tracing::warn!(target: "mailrail_log::kafka", group = shared.group, %error, "the group is disturbed; the client goes on trying");
        }
    }
}

#[cfg(test)]
mod tests;
