//! Clients that were told that there are no brokers. Needs what tests/kafka.rs needs.

mod broker;
mod contract;
mod forgetful;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker::{brokers, config};
use contract::{append, assigned, at, read, records, text, topic, within};
use forgetful::Forgetful;
use mailrail_log::{GroupEvent, KafkaConfig, KafkaLog, Log, LogError, Membership};

/// How often the brokers are gone and come back. Librdkafka forgets them for good only when its threads meet in an unlucky way: without
/// a remedy one of these clients did in most runs.
const TIMES: u32 = 150;
/// How long they are gone, and there, each time: all clients ask more often.
const A_WHILE: Duration = Duration::from_millis(60);
const REFRESH_MS: &str = "20";

/// Until the log takes the order again: a client is replaced within a moment, and errors are of that moment.
async fn insist<T, F: Future<Output = Result<T, LogError>>>(what: &str, order: impl Fn() -> F) -> T {
    within(what, async {
        loop {
            match order().await {
                Ok(done) => return done,
                Err(LogError::Unavailable(_) | LogError::Rebalancing | LogError::NotOwned { .. }) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(other) => panic!("{what}: {other}"),
            }
        }
    })
    .await
}

/// Releases what is asked for, at once, until the membership ends.
async fn give_back(member: Arc<dyn Membership>) {
    while let Some(event) = member.next().await {
        if let GroupEvent::Revoked { release, .. } = event {
            release.done(Vec::new());
        }
    }
}

/// X08: a broker that has just started says that there are none (confluentinc/librdkafka#5301). A client that believes that never reads,
/// appends, commits or asks again, and says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x08_clients_that_were_told_of_no_broker_go_on() {
    let Some(brokers) = brokers() else { return };
    let broker = Forgetful::before(&brokers).await;
    let refresh = ("topic.metadata.refresh.interval.ms".to_owned(), REFRESH_MS.to_owned());
    let config = KafkaConfig { properties: BTreeMap::from([refresh]), ..config(&broker.address) };
    let log: Arc<dyn Log> = Arc::new(KafkaLog::connect(config).expect("settings"));
    let topic = topic(&log, &format!("forgotten-{}", std::process::id()), 1).await;
    append(&log, &topic, 0, records("before", 2)).await;
    let sets: Vec<_> = (0..8).map(|_| log.readers().expect("readers")).collect();
    let mut readers: Vec<_> = sets.iter().map(|set| set.open(&topic, 0, 0).expect("reader")).collect();
    for reader in &mut readers {
        assert_eq!(read(reader, 2).await.len(), 2);
    }
    let member: Arc<dyn Membership> = Arc::from(log.join(&topic, &topic).await.expect("joined"));
    assigned(&*member).await;
    let giving_back = tokio::spawn(give_back(member.clone()));

    for _ in 0..TIMES {
        broker.forget();
        let _ = tokio::time::timeout(A_WHILE, log.bounds(&topic, 0)).await;
        broker.remember();
        tokio::time::sleep(A_WHILE).await;
    }
    insist("append", || log.append(&topic, 0, records("after", 2))).await;
    for reader in &mut readers {
        let after = read(reader, 2).await;
        assert!(text(&after[0]).starts_with("after"), "{}", text(&after[0]));
    }
    insist("commit", || member.commit(vec![(0, at(2, "two"))])).await;
    let committed = insist("committed", || log.committed(&topic, &topic, 0)).await;
    assert_eq!(committed, Some(at(2, "two")));
    assert!(insist("bounds", || log.bounds(&topic, 0)).await.high >= 4);
    insist("check", || log.check()).await;
    within("leave", member.leave()).await;
    within("events", giving_back).await.expect("no panic");
    within("close", log.close(Duration::from_secs(10))).await;
}
