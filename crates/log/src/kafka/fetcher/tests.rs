//! The thread's steps, one by one, against librdkafka's mock cluster.

use rdkafka::ClientContext;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::*;
use crate::Offset;
use crate::kafka::brokers::REPORTS_OF_FORGOTTEN;
use crate::kafka::producer::Appender;
use crate::kafka::readers::KafkaReaders;
use crate::kafka::tests::config;
use crate::{NewRecord, Reader, Readers};

const PATIENCE: Duration = Duration::from_secs(60);

/// A set whose thread is the test.
struct Rig {
    _cluster: MockCluster<'static, DefaultProducerContext>,
    appender: Appender,
    _reader: Box<dyn Reader>,
    slot: Arc<Slot>,
    fetcher: Fetcher,
}

impl Rig {
    fn new() -> Self {
        let cluster = MockCluster::new(1).expect("mock cluster");
        cluster.create_topic("t", 1, 1).expect("topic");
        let config = config(&cluster.bootstrap_servers());
        let readers = KafkaReaders::new(&config).expect("readers");
        let set = readers.set().clone();
        // From here on the set has no thread but this one.
        set.stopped.store(true, Ordering::Release);
        let reader = readers.open("t", 0, 0).expect("reader");
        let slot = set.wanted.lock().expect("unpoisoned").values().next().expect("a slot").clone();
        Self {
            appender: Appender::new(&config).expect("appender"),
            fetcher: Fetcher::new(&config, set).expect("a client"),
            _cluster: cluster,
            _reader: reader,
            slot,
        }
    }

    async fn append(&self) {
        self.appender.append("t", 0, &[NewRecord::default()]).await.expect("appended");
    }

    fn read_until(&mut self, next: Offset) {
        let started = Instant::now();
        while self.slot.ahead().next < next {
            assert!(started.elapsed() < PATIENCE, "{next}: nothing happened for {PATIENCE:?}");
            self.fetcher.bring_in_line();
            self.fetcher.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn forget(&self) {
        for report in REPORTS_OF_FORGOTTEN {
            self.fetcher.consumer.context().stats_raw(report);
        }
    }

    /// Whether the client was replaced since something was read: then nothing is assigned.
    fn is_replaced(&self) -> bool {
        self.fetcher.assigned.is_empty()
    }

    fn offsets(&self) -> Vec<Offset> {
        self.slot.ahead().records.iter().map(|record| record.offset).collect()
    }
}

/// X08: the client forgets the partition, as librdkafka's issue 5430 has it: it fetches nothing and says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x08_a_client_that_does_not_read_on_is_replaced() {
    let mut rig = Rig::new();
    rig.append().await;
    rig.read_until(1);
    let mut all = TopicPartitionList::new();
    all.add_partition("t", 0);
    rig.fetcher.consumer.incremental_unassign(&all).expect("forgotten");
    rig.append().await;
    for looked in 1..=3 {
        assert_eq!(rig.fetcher.assigned.len(), 1, "still the first client at look {looked}");
        rig.fetcher.look_for_stalls();
    }
    assert!(rig.fetcher.assigned.is_empty(), "a new one");
    rig.read_until(2);
    assert_eq!(rig.offsets(), [0, 1], "no record twice, and none left out");
}

/// X08: reading goes on with another client, whose first reports count for themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x08_a_client_to_read_with_that_knows_no_broker_is_replaced() {
    let mut rig = Rig::new();
    rig.append().await;
    rig.read_until(1);
    rig.fetcher.look_for_brokers(Instant::now());
    assert!(!rig.is_replaced(), "it knows one");
    rig.forget();
    let now = Instant::now();
    rig.fetcher.look_for_brokers(now);
    assert!(rig.is_replaced());
    rig.append().await;
    rig.read_until(2);
    assert_eq!(rig.offsets(), [0, 1], "no record twice, and none left out");
    rig.forget();
    rig.fetcher.look_for_brokers(now + Duration::from_millis(1));
    assert!(!rig.is_replaced(), "not so soon again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_to_read_with_stays_where_there_is_no_other_and_is_replaced_later() {
    let mut rig = Rig::new();
    rig.append().await;
    rig.read_until(1);
    rig.forget();
    rig.fetcher.config.properties.insert("no.such.property".to_owned(), String::new());
    let now = Instant::now();
    rig.fetcher.look_for_brokers(now);
    rig.append().await;
    rig.read_until(2);
    rig.fetcher.config.properties.clear();
    rig.fetcher.look_for_brokers(now);
    assert!(!rig.is_replaced(), "not tried again at once");
    rig.fetcher.look_for_brokers(now + PATIENCE);
    assert!(rig.is_replaced());
}

/// After damaged records the client would go on with what is behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_behind_damaged_records_is_not_read() {
    let mut rig = Rig::new();
    rig.append().await;
    rig.read_until(1);
    rig.append().await;
    rig.append().await;
    rig.fetcher.failed(&KafkaError::MessageConsumption(RDKafkaErrorCode::BadMessage));
    // What the client had for it already is not taken.
    rig.fetcher.poll();
    assert!(rig.fetcher.assigned.is_empty() && rig.fetcher.assign_again.is_some());
    assert_eq!(rig.offsets(), [0]);
    rig.read_until(3);
    assert_eq!(rig.offsets(), [0, 1, 2], "from where the buffer ends");
}
