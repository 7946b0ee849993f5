//! Appending beside matching: nothing overtakes, whatever the log does.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use mailrail_log::{LogError, Offset};
use mailrail_testkit::{Between, Interposed};

use super::sizing::Gated;
use super::*;

/// Most appends of deliveries fail after a part of them was written.
struct Failing {
    asked: AtomicUsize,
    /// Partition and size of calls, to see that there is something to put in order.
    calls: Mutex<BTreeSet<(u32, usize)>>,
}

#[async_trait]
impl Between for Failing {
    async fn append(
        &self,
        log: &dyn Log,
        topic: &str,
        partition: u32,
        mut records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        if topic != "deliveries" {
            return log.append(topic, partition, records).await;
        }
        let turn = self.asked.fetch_add(1, Ordering::Relaxed);
        self.calls.lock().expect("not poisoned").insert((partition, records.len()));
        if turn % 3 == 2 {
            return log.append(topic, partition, records).await;
        }
        records.truncate(records.len() * (turn % 3) / 2);
        if !records.is_empty() {
            log.append(topic, partition, records).await?;
        }
        Err(LogError::Unavailable("as asked".to_owned()))
    }
}

/// Of each mailbox, numbers of events in the order of their first appearance.
async fn first_appearances(rig: &Rig) -> HashMap<String, Vec<u64>> {
    let mut seen: HashMap<String, Vec<u64>> = HashMap::new();
    for delivery in rig.deliveries().await {
        let number = delivery.event.attributes.id.parse().expect("a number");
        let of = seen.entry(delivery.subscription.as_str().to_owned()).or_default();
        if !of.contains(&number) {
            of.push(number);
        }
    }
    seen
}

/// Appends fail half-way again and again while later batches are matched already: each mailbox still gets its deliveries in
/// the order of the events, and nothing is missing when the position says so.
#[tokio::test(flavor = "multi_thread")]
async fn i14_appends_that_fail_change_no_order() {
    const EVENTS: u64 = 700;
    let mut rig = Rig::start().await;
    let names: Vec<String> = (0..6).map(|n| format!("s{n}")).collect();
    let subscriptions: Vec<_> = names.iter().map(|n| (n.as_str(), "push", None)).collect();
    rig.apply(&subscriptions).await;
    for n in 0..EVENTS {
        rig.append(mailrail_wire::encode_event(&event(&n.to_string(), "push", "{}"))).await;
    }
    let failing = Arc::new(Interposed::new(
        rig.log.clone(),
        Failing { asked: AtomicUsize::new(0), calls: Mutex::default() },
    ));
    rig.log = failing.clone();
    rig.run_until(EVENTS).await;
    let seen = first_appearances(&rig).await;
    for name in &names {
        assert_eq!(seen[name], (0..EVENTS).collect::<Vec<_>>(), "{name}");
    }
    let calls = failing.calls.lock().expect("not poisoned").clone();
    let partitions: BTreeSet<u32> = calls.iter().map(|(partition, _)| *partition).collect();
    assert!(calls.len() > partitions.len(), "several outboxes for a partition: {calls:?}");
}

/// So many events for one subscription, and a log that does not answer to appends of deliveries.
async fn with_closed_gate(events: u64) -> (Rig, Arc<Interposed<Gated>>) {
    let mut rig = Rig::start().await;
    rig.apply(&[("all", "push", None)]).await;
    for n in 0..events {
        rig.append(mailrail_wire::encode_event(&event(&n.to_string(), "push", "{}"))).await;
    }
    let gated = Gated::before(rig.log.clone());
    rig.log = gated.clone();
    (rig, gated)
}

async fn wait_all_matched(rig: &Rig, gated: &Gated, events: u64) {
    while rig.metrics.matching.events.get() < events || gated.asked.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Batches are matched while the log does not answer, until an outbox is full; nothing is put down as done meanwhile, and what
/// waits goes out in one append.
#[tokio::test(flavor = "multi_thread")]
async fn batches_are_matched_while_the_one_before_is_appended() {
    const EVENTS: u64 = 900;
    let (rig, gated) = with_closed_gate(EVENTS).await;
    let (stop, task) = rig.run();
    wait_all_matched(&rig, &gated, EVENTS).await;
    assert_eq!((rig.committed().await, rig.metrics.matching.deliveries.get()), (0, 0));
    assert_eq!(gated.asked.load(Ordering::Relaxed), 1, "one at a time");
    gated.open.send_replace(true);
    while rig.committed().await < EVENTS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    task.await.expect("stopped");
    assert_eq!(first_appearances(&rig).await["all"], (0..EVENTS).collect::<Vec<_>>());
}

/// A stop while an append is under way: what was read is finished and put down.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_what_was_read() {
    const EVENTS: u64 = 600;
    let (mut rig, gated) = with_closed_gate(EVENTS).await;
    rig.hand_over = Duration::from_secs(60);
    let (stop, task) = rig.run();
    wait_all_matched(&rig, &gated, EVENTS).await;
    stop.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    gated.open.send_replace(true);
    task.await.expect("stopped");
    assert_eq!(rig.committed().await, EVENTS);
    assert_eq!(rig.deliveries().await.len() as u64, EVENTS);
}
