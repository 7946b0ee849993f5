//! The producer and its replacement, against librdkafka's mock cluster.

use rdkafka::mocking::MockCluster;

use super::*;
use crate::kafka::brokers::REPORTS_OF_FORGOTTEN;
use crate::kafka::tests::config;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_record_that_is_only_concluded_to_be_written_counts_as_failed() {
    assert_eq!(acknowledged(7), Ok(7));
    assert_eq!(acknowledged(-1), Err(RDKafkaErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(acknowledged(-1001), Err(RDKafkaErrorCode::OutOfOrderSequenceNumber));
}

/// The number of the producer that takes appends.
fn active(appender: &Appender) -> Option<u64> {
    match &*appender.inner.state.read().expect("unpoisoned") {
        State::Active { number, .. } => Some(*number),
        State::Replacing { .. } | State::Closed => None,
    }
}

fn forget(appender: &Appender) {
    let state = appender.inner.state.read().expect("unpoisoned");
    let State::Active { client, .. } = &*state else { panic!("no producer") };
    for report in REPORTS_OF_FORGOTTEN {
        client.context().stats_raw(report);
    }
}

/// X08: the producer is given up by the next append, and those that come when there is another one go through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x08_a_producer_that_knows_no_broker_is_replaced() {
    let cluster = MockCluster::new(1).expect("mock cluster");
    cluster.create_topic("t", 1, 1).expect("topic");
    let config = config(&cluster.bootstrap_servers());
    let appender = Appender::new(&config).expect("appender");
    let record = [NewRecord::default()];
    assert_eq!(appender.append("t", 0, &record).await.expect("appended"), [0]);
    assert_eq!(active(&appender), Some(0), "it knows a broker");
    forget(&appender);
    let appended = async {
        loop {
            match appender.append("t", 0, &record).await {
                Ok(offsets) => break offsets,
                Err(LogError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(other) => panic!("unexpected: {other}"),
            }
        }
    };
    let offsets = tokio::time::timeout(PATIENCE, appended).await.expect("a new producer");
    assert_eq!((offsets, active(&appender)), (vec![1], Some(1)));
    forget(&appender);
    assert!(!appender.look_for_brokers(Instant::now()), "not so soon again");
    assert!(appender.look_for_brokers(Instant::now() + PATIENCE));
}
