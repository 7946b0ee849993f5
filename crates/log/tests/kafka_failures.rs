//! A broker that crashes, stops and stalls in the middle of appends. Needs what tests/kafka.rs needs, and a broker of its own.

mod broker;
mod contract;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker::{Broker, brokers, config};
use contract::{append, leave, read, record, records, text, topic, within};
use mailrail_log::{Committed, GroupEvent, KafkaConfig, KafkaLog, Log, LogError, Membership};

/// What became of one call.
struct Call {
    name: String,
    acked: bool,
}

const RECORDS_A_CALL: usize = 400;

/// Appends call after call until told to stop.
async fn append_calls(log: Arc<dyn Log>, topic: String, writer: usize, stop: Arc<AtomicBool>) -> Vec<Call> {
    let mut calls = Vec::new();
    let padding = "x".repeat(1024);
    while !stop.load(Ordering::Relaxed) {
        let name = format!("w{writer}c{}", calls.len());
        let records = (0..RECORDS_A_CALL).map(|n| record(format!("{name}-{n}-{padding}"))).collect();
        let acked = match within("append", log.append(&topic, 0, records)).await {
            Ok(_) => true,
            Err(LogError::Unavailable(_)) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                false
            }
            Err(other) => panic!("unexpected: {other}"),
        };
        calls.push(Call { name, acked });
    }
    calls
}

/// Acknowledged calls are there once and whole, failed ones as a prefix or not at all, in the order of the calls. Returns
/// how many were acknowledged and how many were cut.
async fn verify_calls(log: &Arc<dyn Log>, topic: &str, calls: &[Vec<Call>]) -> (usize, usize) {
    let bounds = within("bounds", log.bounds(topic, 0)).await.expect("bounds");
    let mut reader = log.readers().expect("readers").open(topic, 0, 0).expect("reader");
    let got = read(&mut reader, usize::try_from(bounds.high).expect("small")).await;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut first_seen = Vec::new();
    for record in &got {
        let text = text(record);
        let mut parts = text.splitn(3, '-');
        let (name, number) = (parts.next().expect("name"), parts.next().expect("number"));
        let next = seen.entry(name.to_owned()).or_insert(0);
        assert_eq!(number, next.to_string(), "call {name} has a gap, a repeat or a wrong order");
        if *next == 0 {
            first_seen.push(name.to_owned());
        }
        *next += 1;
    }
    let (mut whole, mut cut) = (0, 0);
    for (writer, calls) in calls.iter().enumerate() {
        for call in calls {
            let count = seen.get(&call.name).copied().unwrap_or(0);
            if call.acked {
                assert_eq!(count, RECORDS_A_CALL, "acknowledged call {} is not whole", call.name);
                whole += 1;
            } else {
                cut += usize::from(count < RECORDS_A_CALL);
            }
        }
        let acked: Vec<&String> = calls.iter().filter(|it| it.acked).map(|it| &it.name).collect();
        let stored: Vec<&String> = first_seen.iter().filter(|it| acked.contains(it)).collect();
        assert_eq!(stored, acked, "the order of writer {writer}'s calls");
    }
    (whole, cut)
}

/// Runs writers while the broker fails in the given ways, then verifies what is in the topic.
async fn append_through(broker: &Broker, timeout: Duration, name: &str, failures: &[&str]) -> (usize, usize) {
    let config = KafkaConfig { delivery_timeout: timeout, ..config(&broker.address) };
    let log: Arc<dyn Log> = Arc::new(KafkaLog::connect(config).expect("settings"));
    let topic = topic(&log, name, 1).await;
    let mut reader = log.readers().expect("readers").open(&topic, 0, 0).expect("reader");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..3).map(|n| tokio::spawn(append_calls(log.clone(), topic.clone(), n, stop.clone()))).collect();
    for failure in failures {
        // In the middle of the flow, and not before the last failure is over.
        read(&mut reader, 5 * RECORDS_A_CALL).await;
        match *failure {
            "stall" => {
                broker.stall();
                tokio::time::sleep(Duration::from_secs(4)).await;
                broker.resume();
            }
            command => {
                broker.run(command);
                broker.run("start");
            }
        }
    }
    read(&mut reader, 20 * RECORDS_A_CALL).await;
    stop.store(true, Ordering::Relaxed);
    let mut calls = Vec::new();
    for writer in writers {
        calls.push(within("writer", writer).await.expect("no panic"));
    }
    let counted = verify_calls(&log, &topic, &calls).await;
    append(&log, &topic, 0, records("healthy", 2)).await;
    within("close", log.close(Duration::from_secs(10))).await;
    counted
}

/// A broker that crashes, stops and stalls in the middle of appends: impatient calls fail as a prefix, patient ones are
/// all written once; everything works again afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_failures_leave_no_gaps_and_no_repeats() {
    if brokers().is_none() {
        return;
    }
    let Some(broker) = Broker::start() else { return };
    // Shorter than the stall, and long enough that a slow machine's appends succeed between the failures.
    let impatient =
        append_through(&broker, Duration::from_secs(3), "impatient", &["kill", "stop", "stall"]).await;
    assert!(impatient.0 > 0 && impatient.1 > 0, "the test must see both whole and cut calls: {impatient:?}");
    let patient =
        append_through(&broker, Duration::from_secs(50), "patient", &["kill", "stall", "kill"]).await;
    assert_eq!(patient.1, 0, "{patient:?}");
}

/// N22: a commit that gets no answer has no deadline in the client. Who leaves then gives its partitions back, and does not wait
/// for it: a process that drains would be killed at the end of its grace period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n22_a_member_leaves_while_a_commit_gets_no_answer() {
    if brokers().is_none() {
        return;
    }
    let Some(broker) = Broker::start() else { return };
    let log: Arc<dyn Log> = Arc::new(KafkaLog::connect(config(&broker.address)).expect("settings"));
    let topic = topic(&log, "leaving", 1).await;
    let member: Arc<dyn Membership> = Arc::from(log.join("g", &topic).await.expect("joined"));
    let Some(GroupEvent::Assigned { .. }) = within("assigned", member.next()).await else {
        panic!("no assignment")
    };
    broker.stall();
    let position = Committed { offset: 0, metadata: String::new() };
    let committing = tokio::spawn({
        let (member, position) = (member.clone(), position.clone());
        async move { member.commit(vec![(0, position)]).await }
    });
    let given_back = leave(member, BTreeMap::from([(0, position)])).await;
    assert!(
        given_back.is_empty() || given_back == [0],
        "{given_back:?}: taken away before, or given back now"
    );
    assert!(matches!(committing.await.expect("no panic"), Err(LogError::Unavailable(_) | LogError::Closed)));
    broker.resume();
    within("close", log.close(Duration::from_secs(10))).await;
}
