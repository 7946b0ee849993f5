//! Dead letters in a real local log: looked at, put back, and put back in spite of crashes.

mod faults;
mod looks;
mod measured;
mod replays;
mod routes;
mod unsent;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::{LocalLog, Log, NewRecord, TopicSpec};
use mailrail_testkit::read_partition;
use mailrail_types::{
    DeadLetter, DeadReason, Delivery, EndpointId, EventId, History, Mailbox, SubscriptionId, TenantId,
    Timestamp,
};
use mailrail_wire::{decode_delivery, encode_dead_letter};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

pub(crate) const PARTITIONS: u32 = 3;
/// Longest wait for anything that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log with the topics of a pipeline.
pub(crate) struct Place {
    pub(crate) log: Arc<dyn Log>,
    _folder: TempDir,
}

fn pipeline() -> Pipeline {
    Pipeline::named("", "default", PARTITIONS)
}

pub(crate) async fn make_topics(log: &dyn Log) {
    let it = pipeline();
    let topics = [it.deliveries, it.dead_letters, it.quarantine, it.redrives];
    let spec = |topic: &crate::Topic| TopicSpec {
        name: topic.name.clone(),
        partitions: topic.partitions,
        retention: None,
    };
    log.ensure_topics(&topics.iter().map(spec).collect::<Vec<_>>()).await.expect("topics");
}

/// The `n`th letter of `endpoint`; what is about the same `key` is in order of `n`.
pub(crate) fn letter(endpoint: &str, n: u64, redrives: u32, reason: DeadReason) -> DeadLetter {
    let tenant = TenantId::of("acme");
    let mut delivery = sample();
    delivery.event.id = EventId::derive(&tenant, endpoint, &n.to_string());
    delivery.event.body = Bytes::from(format!("{{\"n\":{n},\"secret\":\"body-canary\"}}"));
    delivery.event.attributes.event_type = if n.is_multiple_of(2) { "even" } else { "odd" }.to_owned();
    delivery.endpoint = EndpointId::new(endpoint).expect("valid");
    delivery.mailbox = Mailbox { endpoint: delivery.endpoint.clone(), ..delivery.mailbox };
    delivery.id = mailrail_types::DeliveryId::derive(&delivery.event.id, &tenant, &delivery.subscription);
    delivery.history = History {
        attempts: 5,
        first_attempt_at: Some(Timestamp(1)),
        last_attempt_at: Some(Timestamp(2)),
        last_status: Some(503),
        redrives,
    };
    let died_at = Timestamp(1_000 + i64::try_from(n).expect("small"));
    DeadLetter { delivery, reason, died_at, attempts: Vec::new(), unknown: Bytes::new() }
}

fn sample() -> Delivery {
    let mut delivery = crate::tests::sample_delivery();
    delivery.subscription = SubscriptionId::of("all");
    delivery.deadline = Timestamp(3);
    delivery
}

/// What a test looks at of a delivery that was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Put {
    partition: u32,
    id: DeliveryIdText,
    redrives: u32,
}

type DeliveryIdText = String;

impl Place {
    pub(crate) async fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let log: Arc<dyn Log> = Arc::new(LocalLog::open(&folder.path().join("log.db")).expect("a log"));
        make_topics(&*log).await;
        Self { log, _folder: folder }
    }

    /// A process that uses it.
    fn letters(&self) -> DeadLetters {
        Self::letters_of(Arc::clone(&self.log))
    }

    fn letters_of(log: Arc<dyn Log>) -> DeadLetters {
        let options = DeadLetterOptions {
            takeover_after: Duration::ZERO,
            ..DeadLetterOptions::new(Duration::from_hours(1))
        };
        DeadLetters::new(log, pipeline(), options)
    }

    pub(crate) async fn append(&self, topic: &str, partition: u32, value: Bytes) {
        let record = NewRecord { key: Bytes::from_static(b"key"), value, headers: Vec::new() };
        self.log.append(topic, partition, vec![record]).await.expect("appended");
    }

    pub(crate) async fn bury(&self, partition: u32, letter: &DeadLetter) {
        self.append("dead-letters.default", partition, encode_dead_letter(letter)).await;
    }

    /// `n` letters of an endpoint in each partition: `p0-…`, `p1-…`.
    async fn bury_some(&self, n: u64) {
        for partition in 0..PARTITIONS {
            for number in 0..n {
                self.bury(partition, &letter(&format!("p{partition}"), number, 0, DeadReason::Exhausted))
                    .await;
            }
        }
    }

    /// What was put back, partition by partition, in order.
    async fn put_back(&self) -> Vec<Put> {
        let mut all = Vec::new();
        for partition in 0..PARTITIONS {
            for record in read_partition(&*self.log, "deliveries.default", partition).await {
                let delivery = decode_delivery(&record.value).expect("a delivery");
                let redrives = delivery.history.redrives;
                all.push(Put { partition, id: delivery.id.to_string(), redrives });
            }
        }
        all
    }

    /// All letters of [`Place::bury_some`], as they must be put back.
    fn expected(n: u64, redrives: u32) -> Vec<Put> {
        let id = |partition: u32, number| {
            letter(&format!("p{partition}"), number, 0, DeadReason::Gone).delivery.id
        };
        let of = |partition| {
            (0..n).map(move |number| Put { partition, id: id(partition, number).to_string(), redrives })
        };
        (0..PARTITIONS).flat_map(of).collect()
    }
}

fn all() -> ReplayRequest {
    ReplayRequest { all: true, rate: Some(RATE_MAX), ..ReplayRequest::default() }
}

/// Orders a replay and carries it on to its end.
async fn replayed(letters: &DeadLetters, request: &ReplayRequest) -> ReplayStatus {
    let ordered = letters.order(request, "alice", false).await.expect("ordered");
    run_until_over(letters, &ordered.id).await
}

async fn run_until_over(letters: &DeadLetters, id: &str) -> ReplayStatus {
    run_until(letters, id, ReplayStatus::is_over).await
}

/// Runs replays until this one has come so far, and stops them.
async fn run_until(letters: &DeadLetters, id: &str, reached: impl Fn(&ReplayStatus) -> bool) -> ReplayStatus {
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (letters, stop) = (letters.clone(), stop.clone());
        async move { letters.run(stop).await }
    });
    let far_enough = async {
        loop {
            let status = letters.replay(id).await.expect("a status");
            if reached(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let status = tokio::time::timeout(PATIENCE, far_enough).await.expect("it gets there");
    stop.cancel();
    running.await.expect("it ends");
    status
}
