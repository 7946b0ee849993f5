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

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::mpsc;

use super::client::unavailable;
use super::committer::commit_all;
use super::config::KafkaConfig;
use super::membership::{COMMITS_MAX, LAST_COMMIT_WAIT, Shared, Stage};
use super::rebalance::Callbacks;
use crate::LogError;

/// Before another client is tried, where one could not be made.
const REJOIN_PAUSE: Duration = Duration::from_secs(1);
/// The poll thread looks at least this often whether it should leave.
const POLL_MAX: Duration = Duration::from_millis(100);

/// A client in the group, and the thread that commits through it.
pub(super) struct Joined {
    consumer: Arc<BaseConsumer<Callbacks>>,
    committer: JoinHandle<()>,
}

impl Joined {
    pub(super) fn new(shared: &Arc<Shared>, config: &KafkaConfig) -> Result<Self, LogError> {
        let made = config.member(&shared.group).create_with_context(Callbacks::new(shared.clone()));
        let consumer: Arc<BaseConsumer<Callbacks>> = Arc::new(made.map_err(|it| config.refused(it))?);
        consumer.subscribe(&[&shared.topic]).map_err(unavailable)?;
        let (commits, requests) = mpsc::channel(COMMITS_MAX);
        let committer = {
            let (shared, consumer) = (shared.clone(), consumer.clone());
            std::thread::Builder::new()
                .name("log-committer".to_owned())
                .spawn(move || commit_all(&shared, &consumer, requests))
        };
        let committer =
            committer.map_err(|e| LogError::Unavailable(format!("no thread for commits: {e}")))?;
        shared.commit_through(Some(commits));
        Ok(Self { consumer, committer })
    }

    /// Ends the threads and leaves the group, which needs the network. Nothing commits through it any more.
    fn end(self, shared: &Shared) {
        if self.committer.join().is_err() {
            tracing::error!(target: "mailrail_log::kafka", group = shared.group, "the committing thread panicked");
        }
        drop(self.consumer);
    }
}

/// The poll thread: rebalances run inside `poll`.
pub(super) fn poll(shared: &Arc<Shared>, config: &KafkaConfig, mut joined: Joined) {
    while !shared.leaving.load(Ordering::Acquire) {
        if joined.consumer.context().knows_no_broker() {
            joined = join_anew(shared, config, joined);
        }
        poll_once(shared, &joined.consumer);
    }
    // Runs the revocation, with the release and its commits, before the group hears that we leave.
    joined.consumer.unsubscribe();
    let deadline = Instant::now() + shared.release_wait + LAST_COMMIT_WAIT;
    while !shared.ownership().owned.is_empty() && Instant::now() < deadline {
        poll_once(shared, &joined.consumer);
    }
    shared.commit_through(None);
    given_back(shared);
    joined.end(shared);
    shared.stage.send_replace(Stage::Left);
}

/// The group takes the old client's session for ended when that time is over. Gives the old one back where there is no new one yet.
fn join_anew(shared: &Arc<Shared>, config: &KafkaConfig, old: Joined) -> Joined {
    tracing::warn!(target: "mailrail_log::kafka", group = shared.group, "a member knows no broker any more; it joins anew");
    old.consumer.context().retire();
    let owned: Vec<u32> = shared.ownership().owned.keys().copied().collect();
    shared.lose(&owned);
    match Joined::new(shared, config) {
        Ok(new) => {
            let shared = shared.clone();
            // Its end may wait for the network for ever.
            let ending =
                std::thread::Builder::new().name("log-replace".to_owned()).spawn(move || old.end(&shared));
            if let Err(error) = ending {
                tracing::error!(target: "mailrail_log::kafka", %error, "no thread to end a client; it is ended at once");
            }
            new
        }
        Err(error) => {
            tracing::error!(target: "mailrail_log::kafka", group = shared.group, %error, "no new client for a member; trying again");
            std::thread::sleep(REJOIN_PAUSE);
            old
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
        Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
            tracing::error!(target: "mailrail_log::kafka", group = shared.group, %error, "the member cannot go on; it leaves");
            shared.stop(true);
        }
        Some(Err(error)) => {
            tracing::warn!(target: "mailrail_log::kafka", group = shared.group, %error, "the group is disturbed; the client goes on trying");
        }
    }
}
