//! Owners that end without a last word: what they left running is over before anybody else may go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mailrail_log::{LocalLog, Log, LogError, NewRecord, Offset, Readers};
use mailrail_testkit::{Between, Interposed};
use tokio::time::Instant;

use super::remade::Remade;
use super::rig::{ATTEMPT_TIMEOUT, Rig};

/// The journal takes nothing any more once it is muted: an append neither succeeds nor fails.
pub(super) struct Muted {
    pub(super) local: Arc<LocalLog>,
    pub(super) is_muted: AtomicBool,
    /// Dead letters are not taken while this holds.
    pub(super) holds_letters: AtomicBool,
    /// There is a dead letter that was not taken.
    pub(super) letter_waits: AtomicBool,
    /// The deliveries topic was made anew.
    pub(super) is_remade: Arc<AtomicBool>,
}

impl Muted {
    pub(super) fn before(local: LocalLog) -> Interposed<Self> {
        let local = Arc::new(local);
        let muted = Self {
            local: local.clone(),
            is_muted: false.into(),
            holds_letters: false.into(),
            letter_waits: false.into(),
            is_remade: Arc::default(),
        };
        Interposed::new(local, muted)
    }
}

#[async_trait]
impl Between for Muted {
    async fn append(
        &self,
        log: &dyn Log,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        if topic == "journal" && self.is_muted.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        while topic == "dead-letters" && self.holds_letters.load(Ordering::Relaxed) {
            self.letter_waits.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        log.append(topic, partition, records).await
    }

    fn readers(&self, log: &dyn Log) -> Result<Box<dyn Readers>, LogError> {
        Ok(Box::new(Remade { readers: log.readers()?, is_remade: self.is_remade.clone() }))
    }
}

/// A45: nobody is told of a dead letter that is not there yet.
#[tokio::test(flavor = "multi_thread")]
async fn a45_a_delivery_counts_as_given_up_when_its_letter_is_written() {
    let rig = Rig::start("status=400").await;
    let given_up = || {
        let series = "mailrail_deliver_dead_letters_total{reason=\"rejected\"";
        crate::settle::tests::sum(&rig.metrics.render(), series)
    };
    rig.log.holds_letters.store(true, Ordering::Relaxed);
    rig.append_numbered(0..1).await;
    let run = rig.run();
    while !rig.log.letter_waits.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((given_up(), rig.dead_letters().await.len()), (0.0, 0));
    rig.log.holds_letters.store(false, Ordering::Relaxed);
    rig.wait_done(1).await;
    run.stop().await;
    assert_eq!((given_up(), rig.dead_letters().await.len()), (1.0, 1));
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
