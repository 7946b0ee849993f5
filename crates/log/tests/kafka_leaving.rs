//! Members that leave: the next one need not wait for the end of their session. Needs what tests/kafka.rs needs.

mod broker;
mod contract;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{brokers, config};
use contract::{assigned, leave, topic};
use mailrail_log::{KafkaConfig, KafkaLog, Log, Membership};

/// As many as make librdkafka's goodbye long enough to be forgotten: one of eight was.
const PARTITIONS: u32 = 64;
const TIMES: u32 = 20;
/// Far longer than a member takes that need not wait for it.
const SESSION: Duration = Duration::from_secs(45);

/// N22: a process that is asked to end hands over at once. Without a goodbye nobody owns its partitions until its session ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n22_the_next_member_need_not_wait_for_the_session_of_one_that_left() {
    let Some(brokers) = brokers() else { return };
    let config = KafkaConfig { session_timeout: SESSION, ..config(&brokers) };
    let log: Arc<dyn Log> = Arc::new(KafkaLog::connect(config).expect("settings"));
    let topic = topic(&log, &format!("leaving-{}", std::process::id()), PARTITIONS).await;
    for time in 0..TIMES {
        let began = Instant::now();
        let member: Arc<dyn Membership> = Arc::from(log.join(&topic, &topic).await.expect("joined"));
        let (_, partitions) = assigned(&*member).await;
        assert_eq!(partitions.len(), PARTITIONS as usize);
        assert!(began.elapsed() < SESSION / 2, "member {time} waited {:?}", began.elapsed());
        assert_eq!(leave(member, BTreeMap::new()).await.len(), PARTITIONS as usize);
    }
    log.close(Duration::from_secs(10)).await;
}
