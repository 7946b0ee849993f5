//! The Kafka adapter: one idempotent producer, readers outside the group, members that only own and commit.
//!
//! Every blocking call of librdkafka runs on a thread of its own or on a blocking one, never on an async worker. Offsets
//! are never guessed (`auto.offset.reset=error`), topics are never made by accident, a commit goes out only for a
//! partition that its member owns at that moment: the group fences members, not partitions.

mod admin;
mod brokers;
mod call;
mod client;
mod committer;
mod config;
mod copy_out;
mod fetcher;
mod member;
mod membership;
mod producer;
mod properties;
mod readers;
mod rebalance;
mod refusal;
mod renewable;
mod replacements;
mod stalls;
#[cfg(test)]
mod tests;
mod topics;
mod unacknowledged;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;

pub use self::config::KafkaConfig;
pub use self::refusal::sasl_problem;

use self::admin::Admin;
use self::membership::KafkaMembership;
use self::producer::Appender;
use self::readers::KafkaReaders;
use crate::{Bounds, Committed, Log, LogError, Membership, NewRecord, Offset, Readers, TopicSpec};

/// How long the start waits for leaders of new partitions.
const LEADERS_WAIT: Duration = Duration::from_secs(30);
/// Between two questions for one.
const LEADER_PAUSE: Duration = Duration::from_millis(100);

/// The log in a Kafka cluster.
pub struct KafkaLog {
    config: KafkaConfig,
    appender: Appender,
    admin: Arc<Admin>,
    sets: Mutex<Vec<Weak<readers::Set>>>,
    members: Mutex<Vec<Weak<membership::Shared>>>,
    closed: AtomicBool,
}

impl KafkaLog {
    /// Makes the clients. They connect in the background; [`Log::check`] says whether the cluster answers.
    ///
    /// # Errors
    /// [`LogError::Config`] when a setting cannot work, or overrides what keeps records safe.
    pub fn connect(config: KafkaConfig) -> Result<KafkaLog, LogError> {
        config.check()?;
        Ok(KafkaLog {
            appender: Appender::new(&config)?,
            admin: Arc::new(Admin::new(&config)?),
            config,
            sets: Mutex::default(),
            members: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    fn check_open(&self) -> Result<(), LogError> {
        if self.closed.load(Ordering::Acquire) { Err(LogError::Closed) } else { Ok(()) }
    }
}

impl KafkaLog {
    /// Returns when the brokers answer for every partition. Right after a topic is made, metadata name leaders that are not
    /// yet: what is produced then is refused or, worse, half taken.
    async fn wait_for_leaders(&self, topics: &[TopicSpec]) {
        for topic in topics {
            for partition in 0..topic.partitions {
                while self.admin.bounds(&topic.name, partition).await.is_err() {
                    tokio::time::sleep(LEADER_PAUSE).await;
                }
            }
        }
    }
}

#[async_trait]
impl Log for KafkaLog {
    async fn ensure_topics(&self, topics: &[TopicSpec]) -> Result<(), LogError> {
        self.check_open()?;
        self.admin.ensure_topics(topics).await?;
        if tokio::time::timeout(LEADERS_WAIT, self.wait_for_leaders(topics)).await.is_err() {
            tracing::warn!("some partitions have no leader yet; going on without them");
        }
        Ok(())
    }

    async fn append(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        self.appender.append(topic, partition, &records).await
    }

    fn readers(&self) -> Result<Box<dyn Readers>, LogError> {
        self.check_open()?;
        let readers = KafkaReaders::new(&self.config)?;
        remember(&self.sets, readers.set());
        Ok(Box::new(readers))
    }

    async fn join(&self, group: &str, topic: &str) -> Result<Box<dyn Membership>, LogError> {
        self.check_open()?;
        let member = KafkaMembership::join(&self.config, group, topic)?;
        remember(&self.members, member.shared());
        Ok(Box::new(member))
    }

    fn never_committed_is_certain(&self) -> bool {
        false
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Committed>, LogError> {
        self.check_open()?;
        self.admin.committed(group, topic, partition).await
    }

    async fn bounds(&self, topic: &str, partition: u32) -> Result<Bounds, LogError> {
        self.check_open()?;
        self.admin.bounds(topic, partition).await
    }

    async fn trim(&self, topic: &str, partition: u32, before: Offset) -> Result<(), LogError> {
        self.check_open()?;
        self.admin.trim(topic, partition, before).await
    }

    async fn check(&self) -> Result<(), LogError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(LogError::Unavailable("the log is closed".to_owned()));
        }
        self.admin.check().await
    }

    async fn close(&self, wait: Duration) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let members = take(&self.members);
        for member in &members {
            member.stop(true);
        }
        for set in take(&self.sets) {
            set.close();
        }
        self.admin.close();
        let appender = self.appender.clone();
        let clients = tokio::task::spawn_blocking(move || appender.close(wait));
        let all = async {
            let _ = clients.await;
            for member in members {
                member.left().await;
            }
        };
        if tokio::time::timeout(wait, all).await.is_err() {
            tracing::warn!(target: "mailrail_log::kafka", "some kafka clients are still closing");
        }
    }
}

/// Keeps track of what must hear of the close, and forgets what is gone.
fn remember<T>(all: &Mutex<Vec<Weak<T>>>, new: &Arc<T>) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|it| it.strong_count() > 0);
    all.push(Arc::downgrade(new));
}

fn take<T>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    let all = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
    all.into_iter().filter_map(|it| it.upgrade()).collect()
}
