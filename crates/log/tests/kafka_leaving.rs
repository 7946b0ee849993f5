//! Members that leave, and members that come back under the name of one that did not: nobody need wait for the end of a session. Needs
//! what tests/kafka.rs needs.

mod broker;
mod contract;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{brokers, config};
use contract::{assigned, event, leave, topic, within};
use mailrail_log::{Committed, GroupEvent, KafkaConfig, KafkaLog, Log, LogError, Membership};

/// As many as make librdkafka's goodbye long enough to be forgotten: one of eight was.
const PARTITIONS: u32 = 64;
const TIMES: u32 = 10;
/// The same with a name.
const TIMES_NAMED: u32 = 5;
/// Far longer than a member takes that need not wait for it.
const SESSION: Duration = Duration::from_secs(45);

/// A client of a process that its group knows by this name.
fn log_of(brokers: &str, name: Option<&str>) -> Arc<dyn Log> {
    let config = KafkaConfig {
        session_timeout: SESSION,
        group_instance_id: name.map(str::to_owned),
        ..config(brokers)
    };
    Arc::new(KafkaLog::connect(config).expect("settings"))
}

async fn join(log: &Arc<dyn Log>, topic: &str) -> Arc<dyn Membership> {
    Arc::from(log.join(topic, topic).await.expect("joined"))
}

/// Gets all partitions, and before a session is over.
async fn gets_all(member: &dyn Membership, what: &str) {
    let began = Instant::now();
    let (_, partitions) = assigned(member).await;
    assert_eq!(partitions.len(), PARTITIONS as usize, "{what}");
    assert!(began.elapsed() < SESSION / 2, "{what} waited {:?}", began.elapsed());
}

/// N22: a process that is asked to end hands over at once. Without a goodbye nobody owns its partitions until its session ends. So it
/// does under a name: librdkafka says none for a client with a name that is ended before it left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n22_the_next_member_need_not_wait_for_the_session_of_one_that_left() {
    let Some(brokers) = brokers() else { return };
    let next = log_of(&brokers, None);
    let topic = topic(&next, &format!("leaving-{}", std::process::id()), PARTITIONS).await;
    for (name, times) in [(None, TIMES), (Some("pod"), TIMES_NAMED)] {
        let log = log_of(&brokers, name);
        for time in 0..times {
            for (log, what) in [(&log, "member"), (&next, "the next")] {
                let member = join(log, &topic).await;
                gets_all(&*member, &format!("{what} {time}, {name:?}")).await;
                assert_eq!(leave(member, BTreeMap::new()).await.len(), PARTITIONS as usize);
            }
        }
        log.close(Duration::from_secs(10)).await;
    }
    next.close(Duration::from_secs(10)).await;
}

/// N22, I11: a process that died, as far as its group can tell, and is back under its name has its partitions at once. Whoever had the
/// name has lost them, commits nothing more, and can leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n22_i11_who_is_back_under_its_name_has_its_partitions_at_once() {
    let Some(brokers) = brokers() else { return };
    let [dead, back] = [Some("pod"), Some("pod")].map(|name| log_of(&brokers, name));
    let topic = topic(&back, &format!("named-{}", std::process::id()), PARTITIONS).await;
    let before = join(&dead, &topic).await;
    gets_all(&*before, "the first").await;
    // Not a word: its client does not know that it is dead.
    let after = join(&back, &topic).await;
    gets_all(&*after, "who is back").await;
    let committed = Committed { offset: 0, metadata: "by whom".to_owned() };
    let late = before.commit(vec![(0, committed.clone())]).await;
    assert!(late.is_err(), "{late:?}");
    let lost = event(&*before).await;
    assert!(
        matches!(&lost, GroupEvent::Lost { partitions } if partitions.len() == PARTITIONS as usize),
        "{lost:?}"
    );
    let late = before.commit(vec![(0, committed.clone())]).await;
    assert!(matches!(late, Err(LogError::NotOwned { partition: 0 })), "{late:?}");
    within("the end of its membership", before.leave()).await;
    assert!(within("the last event", before.next()).await.is_none());
    after.commit(vec![(0, committed)]).await.expect("it owns them, and is in the group");
    assert_eq!(leave(after, BTreeMap::new()).await.len(), PARTITIONS as usize);
    for log in [dead, back] {
        log.close(Duration::from_secs(10)).await;
    }
}
