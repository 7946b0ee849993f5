//! A log with something between it and whoever uses it: for tests of what happens when the log does not do what it is told.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use mailrail_log::{Bounds, Committed, Log, LogError, Membership, NewRecord, Offset, Readers, TopicSpec};

/// What stands between.
#[async_trait]
pub trait Between: Send + Sync + 'static {
    /// Appends to `log` as it likes, and answers what it likes.
    ///
    /// # Errors
    /// Whatever whoever appends is to see.
    async fn append(
        &self,
        log: &dyn Log,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError>;

    /// Readers of `log`, or others.
    ///
    /// # Errors
    /// Whatever whoever reads is to see.
    fn readers(&self, log: &dyn Log) -> Result<Box<dyn Readers>, LogError> {
        log.readers()
    }
}

/// A log whose appends and readers go through a [`Between`]; everything else goes to the log itself. What stands between is at hand as
/// what this points to.
pub struct Interposed<B> {
    log: Arc<dyn Log>,
    between: B,
}

impl<B> Interposed<B> {
    /// `between` before `log`.
    pub fn new(log: Arc<dyn Log>, between: B) -> Self {
        Self { log, between }
    }

    /// The log behind it.
    pub fn behind(&self) -> &Arc<dyn Log> {
        &self.log
    }
}

impl<B> Deref for Interposed<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.between
    }
}

#[async_trait]
impl<B: Between> Log for Interposed<B> {
    async fn ensure_topics(&self, topics: &[TopicSpec]) -> Result<(), LogError> {
        self.log.ensure_topics(topics).await
    }

    async fn append(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        self.between.append(&*self.log, topic, partition, records).await
    }

    fn readers(&self) -> Result<Box<dyn Readers>, LogError> {
        self.between.readers(&*self.log)
    }

    async fn join(&self, group: &str, topic: &str) -> Result<Box<dyn Membership>, LogError> {
        self.log.join(group, topic).await
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Committed>, LogError> {
        self.log.committed(group, topic, partition).await
    }

    fn never_committed_is_certain(&self) -> bool {
        self.log.never_committed_is_certain()
    }

    async fn bounds(&self, topic: &str, partition: u32) -> Result<Bounds, LogError> {
        self.log.bounds(topic, partition).await
    }

    async fn trim(&self, topic: &str, partition: u32, before: Offset) -> Result<(), LogError> {
        self.log.trim(topic, partition, before).await
    }

    async fn check(&self) -> Result<(), LogError> {
        self.log.check().await
    }

    async fn close(&self, wait: Duration) {
        self.log.close(wait).await;
    }
}
