//! What the log holds, and waiting for it.

use std::time::Duration;

use mailrail_log::{Log, StoredRecord};
use mailrail_mailbox::Kind;
use mailrail_testkit::read_topic;
use mailrail_types::{Attempt, DeadLetter};

use super::{PARTITIONS, Rig};

impl Rig {
    /// Waits until so much is parked.
    pub(in crate::tests) async fn wait_held(&self, count: i64) {
        while self.metrics.deliver.held.get() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the group has committed that the first `count` records of partition 0 are done or parked.
    pub(in crate::tests) async fn wait_passed(&self, count: u64) {
        loop {
            let committed = self.log.committed("deliver", "deliveries", 0).await.expect("committed");
            if committed.is_some_and(|c| c.offset >= count) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until both partitions are owned, the first `count` records of partition 0 are done, and nothing is parked.
    pub(in crate::tests) async fn wait_done(&self, count: u64) {
        loop {
            let committed = self.log.committed("deliver", "deliveries", 0).await.expect("committed");
            let deliver = &self.metrics.deliver;
            let owned = deliver.partitions.get() == i64::from(PARTITIONS) && deliver.held.get() == 0;
            if owned && committed.is_some_and(|c| c.offset >= count) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until nothing of an owner that was cut is there any more.
    pub(in crate::tests) async fn wait_nobody(&self) {
        while self.metrics.deliver.partitions.get() != 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until both partitions are owned.
    pub(in crate::tests) async fn wait_owned(&self) {
        while self.metrics.deliver.partitions.get() < i64::from(PARTITIONS) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// All records of a topic, partition by partition.
    pub(in crate::tests) async fn read(&self, topic: &str) -> Vec<StoredRecord> {
        read_topic(&*self.log, topic, PARTITIONS).await
    }

    pub(in crate::tests) async fn attempts(&self) -> Vec<Attempt> {
        self.read("attempts")
            .await
            .iter()
            .map(|r| mailrail_wire::decode_attempt(&r.value).expect("attempt"))
            .collect()
    }

    pub(in crate::tests) async fn dead_letters(&self) -> Vec<DeadLetter> {
        let decode = |r: &StoredRecord| mailrail_wire::decode_dead_letter(&r.value).expect("letter");
        self.read("dead-letters").await.iter().map(decode).collect()
    }

    /// What the journal of partition 0 holds, by kind.
    pub(in crate::tests) async fn journal(&self) -> Vec<Kind> {
        let entry = |r: &StoredRecord| mailrail_wire::decode_entry(&r.value).expect("entry").0.kind;
        self.read("journal").await.iter().map(entry).collect()
    }
}
