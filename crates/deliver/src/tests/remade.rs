//! A deliveries topic that is another one under an owner that runs (I15).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mailrail_log::{LogError, Offset, Reader, Readers, StoredRecord};
use tokio::time::timeout;

use super::rig::Rig;

/// What does not stop within that never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Readers to whom a deliveries topic that was made anew gives records as before, but none that is the same.
pub(super) struct Remade {
    pub(super) readers: Box<dyn Readers>,
    pub(super) is_remade: Arc<AtomicBool>,
}

struct OfRemade {
    reader: Box<dyn Reader>,
    is_remade: Option<Arc<AtomicBool>>,
}

impl Readers for Remade {
    fn open(&self, topic: &str, partition: u32, from: Offset) -> Result<Box<dyn Reader>, LogError> {
        let reader = self.readers.open(topic, partition, from)?;
        let is_remade = (topic == "deliveries").then(|| self.is_remade.clone());
        Ok(Box::new(OfRemade { reader, is_remade }))
    }
}

#[async_trait]
impl Reader for OfRemade {
    async fn next(&mut self, max_records: usize) -> Result<Vec<StoredRecord>, LogError> {
        let mut records = self.reader.next(max_records).await?;
        if self.is_remade.as_ref().is_some_and(|is| is.load(Ordering::SeqCst)) {
            for record in &mut records {
                record.appended_at = record.appended_at.plus(Duration::from_secs(1));
            }
        }
        Ok(records)
    }
}

/// Its records go on where the position stands, so that nothing else notices; and no owner after that one takes it for the same.
#[tokio::test(flavor = "multi_thread")]
async fn i15_a_topic_made_anew_stops_its_partition_although_its_records_go_on() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..20).await;
    let run = rig.run();
    rig.wait_done(20).await;
    rig.log.is_remade.store(true, Ordering::SeqCst);
    let stops = async {
        let mut next = 20;
        while rig.stopped.count() == 0 {
            rig.append_numbered(next..next + 1).await;
            next += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, stops).await.expect("the partition stops under its owner");
    run.stop().await;
    assert_eq!(rig.stopped.count(), 0);

    let received = rig.receiver.snapshot().total.received;
    let run = rig.run();
    let stops = async {
        while rig.stopped.count() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, stops).await.expect("the partition stops at the next owner");
    run.stop().await;
    assert_eq!(rig.receiver.snapshot().total.received, received, "the next owner sends nothing of it");
}
