//! Owners that end without a last word: what they left running is over before anybody else may go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mailrail_log::{
    Bounds, Committed, LocalLog, Log, LogError, Membership, NewRecord, Offset, Readers, TopicSpec,
};
use tokio::time::Instant;

use super::rig::{ATTEMPT_TIMEOUT, Rig};

/// A log whose journal takes nothing any more once it is muted: an append neither succeeds nor fails.
pub(super) struct Muted {
    pub(super) local: LocalLog,
    pub(super) is_muted: AtomicBool,
}

#[async_trait]
impl Log for Muted {
    async fn ensure_topics(&self, topics: &[TopicSpec]) -> Result<(), LogError> {
        self.local.ensure_topics(topics).await
    }

    async fn append(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        if topic == "journal" && self.is_muted.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.local.append(topic, partition, records).await
    }

    fn readers(&self) -> Result<Box<dyn Readers>, LogError> {
        self.local.readers()
    }

    async fn join(&self, group: &str, topic: &str) -> Result<Box<dyn Membership>, LogError> {
        self.local.join(group, topic).await
    }

    async fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
    ) -> Result<Option<Committed>, LogError> {
        self.local.committed(group, topic, partition).await
    }

    fn never_committed_is_certain(&self) -> bool {
        self.local.never_committed_is_certain()
    }

    async fn bounds(&self, topic: &str, partition: u32) -> Result<Bounds, LogError> {
        self.local.bounds(topic, partition).await
    }

    async fn trim(&self, topic: &str, partition: u32, before: Offset) -> Result<(), LogError> {
        self.local.trim(topic, partition, before).await
    }

    async fn check(&self) -> Result<(), LogError> {
        self.local.check().await
    }

    async fn close(&self, wait: Duration) {
        self.local.close(wait).await;
    }
}

/// I12: the next owner, in another process perhaps, is told nothing, so it must not be there yet.
#[tokio::test(flavor = "multi_thread")]
async fn i12_a_partition_whose_last_word_was_not_said_is_released_when_its_attempts_are_over() {
    let rig = Rig::start("hang").await.with_hand_over(Duration::from_millis(500));
    rig.append_numbered(0..1).await;
    let run = rig.run();
    rig.receiver.reached(|r| r.endpoints.get("main").is_some_and(|e| e.received == 1)).await;
    let begun = Instant::now();
    rig.log.is_muted.store(true, Ordering::Relaxed);
    rig.log.local.simulate_revoke("deliver", &[0]).await.expect("released");
    assert!(begun.elapsed() >= ATTEMPT_TIMEOUT, "released after {:?}", begun.elapsed());
    rig.log.is_muted.store(false, Ordering::Relaxed);
    run.stop().await;
}

/// The same with a last word: the next owner knows, and nobody waits.
#[tokio::test(flavor = "multi_thread")]
async fn i12_what_a_last_word_tells_of_is_not_waited_for() {
    let rig = Rig::start("hang").await.with_hand_over(Duration::from_millis(500));
    rig.append_numbered(0..1).await;
    let run = rig.run();
    rig.receiver.reached(|r| r.endpoints.get("main").is_some_and(|e| e.received == 1)).await;
    rig.log.local.simulate_revoke("deliver", &[0]).await.expect("released");
    let journal = rig.journal().await;
    let said = |kind: &mailrail_mailbox::Kind| matches!(kind, mailrail_mailbox::Kind::HandOff(left) if left.len() == 1);
    assert!(journal.iter().any(said), "{journal:?}");
    run.cut().await;
}
