//! Sizing the recipients of an event: side by side, and counted once the log has the deliveries.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use mailrail_limits::{Counter, Error, Stored, Write};
use mailrail_log::{LogError, Offset};
use mailrail_policy::SizingOptions;
use mailrail_testkit::{Between, Interposed};
use tokio::sync::watch;

use super::*;
use crate::feed::SIZED_AT_A_TIME;

/// A store that takes reads and never answers.
#[derive(Default)]
struct Silent {
    reads: AtomicUsize,
}

#[async_trait]
impl Windows for Silent {
    async fn write(&self, writes: &[Write], _: Timestamp) -> Vec<Result<(), Error>> {
        writes.iter().map(|_| Err(Error::Timeout)).collect()
    }

    async fn read(&self, _: &Counter, _: i64) -> Result<Stored, Error> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        std::future::pending().await
    }
}

/// S13: the first reads are all under way before one of them ends: its failure would keep the others from being begun.
#[tokio::test(flavor = "multi_thread")]
async fn s13_recipients_are_sized_side_by_side_within_a_bound() {
    const SUBSCRIPTIONS: usize = 100;
    let store = Arc::new(Silent::default());
    let rig = Rig::start_with(store.clone()).await;
    let names: Vec<String> = (0..SUBSCRIPTIONS).map(|n| format!("s{n:03}")).collect();
    let subscriptions: Vec<_> = names.iter().map(|n| (n.as_str(), "push", None)).collect();
    rig.apply(&subscriptions).await;
    rig.append(mailrail_wire::encode_event(&event("1", "push", "{}"))).await;
    rig.run_until(1).await;
    assert_eq!(store.reads.load(Ordering::Relaxed), SIZED_AT_A_TIME);
    let mut recipients: Vec<_> =
        rig.deliveries().await.iter().map(|d| d.subscription.as_str().to_owned()).collect();
    recipients.sort();
    assert_eq!(recipients, names, "each gets its delivery, at the cap");
    assert_eq!(rig.sizer.counts().sizing_unavailable, SUBSCRIPTIONS as u64);
}

/// S13: side by side, as above, of many events with one recipient each.
/// As above, of many events with one recipient each.
#[tokio::test(flavor = "multi_thread")]
async fn s13_events_of_a_batch_are_sized_side_by_side() {
    const EVENTS: usize = 100;
    let store = Arc::new(Silent::default());
    let rig = Rig::start_with(store.clone()).await;
    let names: Vec<String> = (0..EVENTS).map(|n| format!("s{n:03}")).collect();
    // An event type for each.
    let subscriptions: Vec<_> = names.iter().map(|n| (n.as_str(), n.as_str(), None)).collect();
    rig.apply(&subscriptions).await;
    for name in &names {
        rig.append(mailrail_wire::encode_event(&event(name, name, "{}"))).await;
    }
    rig.run_until(EVENTS as u64).await;
    assert_eq!(store.reads.load(Ordering::Relaxed), SIZED_AT_A_TIME);
    assert_eq!(rig.recipients().await, names);
}

/// Keeps deliveries waiting while its gate is shut.
pub(super) struct Gated {
    pub(super) open: watch::Sender<bool>,
    pub(super) asked: AtomicUsize,
}

impl Gated {
    pub(super) fn before(log: Arc<dyn Log>) -> Arc<Interposed<Self>> {
        let gated = Self { open: watch::Sender::new(false), asked: AtomicUsize::new(0) };
        Arc::new(Interposed::new(log, gated))
    }
}

#[async_trait]
impl Between for Gated {
    async fn append(
        &self,
        log: &dyn Log,
        topic: &str,
        partition: u32,
        records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        if topic == "deliveries" {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.open.subscribe().wait_for(|open| *open).await.map_err(|_| LogError::Closed)?;
        }
        log.append(topic, partition, records).await
    }
}

/// S08: a delivery is counted once, however often match does it again.
/// The pass is cut off before the log has its deliveries, and done again by the next owner.
#[tokio::test(flavor = "multi_thread")]
async fn s08_a_pass_that_is_done_again_counts_once() {
    let mut rig = Rig::start().await;
    rig.apply(&[("all", "push", None)]).await;
    for n in 0..5 {
        rig.append(mailrail_wire::encode_event(&event(&n.to_string(), "push", "{}"))).await;
    }
    let gated = Gated::before(rig.log.clone());
    rig.log = gated.clone();
    rig.hand_over = Duration::from_millis(10);
    let (stop, task) = rig.run();
    while gated.asked.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    task.await.expect("stopped");
    assert_eq!(rig.committed().await, 0, "cut off");
    assert_eq!(counted(&rig).await, Some(0), "nothing is in the log");
    gated.open.send_replace(true);
    rig.hand_over = Duration::from_secs(5);
    rig.run_until(5).await;
    assert_eq!(rig.deliveries().await.len(), 5);
    assert_eq!(counted(&rig).await, Some(5));
}

/// What `all` is sized by.
async fn counted(rig: &Rig) -> Option<u64> {
    let mailbox = Mailbox {
        pipeline: "default".into(),
        region: "".into(),
        tenant: name("acme"),
        endpoint: name("all"),
        event_type: Some("push".into()),
        bucket: 0,
    };
    let class = MailboxClass::with_defaults(name("tolerant"), true);
    rig.sizer.width(&Counter::of_recipient(&mailbox), &SizingOptions::from(&class)).await.payloads
}
