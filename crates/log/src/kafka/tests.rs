//! Tests of the clients against librdkafka's mock cluster: bounds and failures that a real broker does not show on demand.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::admin::Admin;
use super::config::KafkaConfig;
use super::producer::Appender;
use super::readers::{AHEAD_BYTES_MAX, AHEAD_RECORDS_MAX, KafkaReaders};
use crate::{LogError, NewRecord, Offset, Readers, StoredRecord};

/// No test comes near it on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn cluster(partitions: i32) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).expect("mock cluster");
    cluster.create_topic("t", partitions, 1).expect("topic");
    cluster
}

/// For a cluster of one broker.
pub(super) fn config(brokers: &str) -> KafkaConfig {
    KafkaConfig { replication_factor: 1, min_insync_replicas: 1, ..KafkaConfig::new(brokers) }
}

fn records(count: usize, bytes: usize) -> Vec<NewRecord> {
    (0..count).map(|_| NewRecord { value: Bytes::from(vec![b'x'; bytes]), ..NewRecord::default() }).collect()
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: nothing happened for {PATIENCE:?}"),
    }
}

/// Two records, as soon as there is a new producer.
async fn appended_at_last(appender: &Appender) -> Vec<Offset> {
    within("a new producer", async {
        loop {
            match appender.append("t", 0, &records(2, 10)).await {
                Ok(offsets) => break offsets,
                Err(LogError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(other) => panic!("unexpected: {other}"),
            }
        }
    })
    .await
}

/// What the set holds for its first partition: records, bytes, whether it is full.
fn held(readers: &KafkaReaders) -> (usize, usize, bool) {
    let wanted = readers.set().wanted.lock().unwrap_or_else(PoisonError::into_inner);
    let ahead = wanted[&("t".to_owned(), 0)].ahead();
    (ahead.records.len(), ahead.bytes, ahead.full)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_a_bounded_amount_while_others_flow() {
    for (count, bytes) in [(4 * AHEAD_RECORDS_MAX, 100), (60, AHEAD_BYTES_MAX / 20)] {
        let cluster = cluster(2);
        let config = config(&cluster.bootstrap_servers());
        let appender = Appender::new(&config).expect("appender");
        for partition in 0..2 {
            within("append", appender.append("t", partition, &records(count, bytes)))
                .await
                .expect("appended");
        }
        let readers = KafkaReaders::new(&config).expect("readers");
        let mut slow = readers.open("t", 0, 0).expect("reader");
        let mut fast = readers.open("t", 1, 0).expect("reader");
        within("a full buffer", async {
            while !held(&readers).2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let mut all: Vec<StoredRecord> = Vec::new();
        while all.len() < count {
            all.extend(within("the fast reader", fast.next(100)).await.expect("read"));
        }
        let (records_held, bytes_held, _) = held(&readers);
        assert!(records_held <= AHEAD_RECORDS_MAX, "{records_held} records held");
        assert!(bytes_held < AHEAD_BYTES_MAX + bytes + 1, "{bytes_held} bytes held");

        let mut offsets: Vec<Offset> = Vec::new();
        while offsets.len() < count {
            let got = within("the slow reader", slow.next(7)).await.expect("read");
            offsets.extend(got.iter().map(|it| it.offset));
        }
        assert!(
            offsets.iter().enumerate().all(|(n, it)| *it == n as u64),
            "nothing skipped, nothing repeated"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_record_fails_its_call_and_a_new_producer_takes_over() {
    let cluster = cluster(1);
    let appender = Appender::new(&config(&cluster.bootstrap_servers())).expect("appender");
    within("append", appender.append("t", 0, &records(1, 10))).await.expect("healthy");
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_POLICY_VIOLATION]);
    let error = within("append", appender.append("t", 0, &records(3, 10))).await.expect_err("refused");
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    let offsets = appended_at_last(&appender).await;
    assert_eq!(offsets, [1, 2]);
}

/// Without the purge the records of the failed calls would come after all, behind those of later calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_timed_out_takes_all_that_waits_with_it() {
    let cluster = cluster(1);
    let config =
        KafkaConfig { delivery_timeout: Duration::from_secs(1), ..config(&cluster.bootstrap_servers()) };
    let appender = Appender::new(&config).expect("appender");
    appended_at_last(&appender).await;
    cluster.broker_down(1).expect("down");
    let (first, second) = (records(3, 11), records(4, 11));
    let (first, second) = within("both calls", async {
        tokio::join!(appender.append("t", 0, &first), appender.append("t", 0, &second))
    })
    .await;
    assert!(matches!(first, Err(LogError::Unavailable(_))), "{first:?}");
    assert!(matches!(second, Err(LogError::Unavailable(_))), "{second:?}");
    cluster.broker_up(1).expect("up");
    let last = appended_at_last(&appender).await[1];
    let readers = KafkaReaders::new(&config).expect("readers");
    let mut reader = readers.open("t", 0, 0).expect("reader");
    let mut next = 0;
    while next <= last {
        for record in within("all records", reader.next(100)).await.expect("read") {
            assert_ne!(record.value.len(), 11, "something of the failed calls came after all");
            next = record.offset + 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_refused_before_its_first_record() {
    let appender = Appender::new(&config("127.0.0.1:1")).expect("appender");
    let whole = appender.append("t", 0, &records(100_001, 1)).await;
    assert!(matches!(whole, Err(LogError::Config(_))), "{whole:?}");
    let waiting = tokio::spawn({
        let appender = appender.clone();
        async move { appender.append("t", 0, &records(90_000, 1)).await }
    });
    // A call that fits would wait for its acknowledgement; one that does not is refused at once.
    let extra = records(20_000, 1);
    within("a full queue", async {
        loop {
            tokio::select! {
                refused = appender.append("t", 0, &extra) => match refused {
                    Err(LogError::Unavailable(text)) if text.contains("too much waits") => break,
                    // Nothing is there that could take them; what else ends a call concerns no other.
                    other => assert!(matches!(other, Err(LogError::Unavailable(_))), "{other:?}"),
                },
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    })
    .await;
    tokio::task::spawn_blocking(move || appender.close(Duration::ZERO)).await.expect("closed");
    let error = within("the waiting call", waiting).await.expect("no panic").expect_err("never acknowledged");
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
}

/// Whoever asked before the close and goes on asking gets no client any more, also not one for another group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_close_nobody_is_asked() {
    let admin = Arc::new(Admin::new(&config("127.0.0.1:1")).expect("clients"));
    admin.close();
    assert!(matches!(admin.bounds("t", 0).await, Err(LogError::Closed)));
    assert!(matches!(admin.committed("g", "t", 0).await, Err(LogError::Closed)));
    assert!(matches!(admin.check().await, Err(LogError::Closed)));
}
