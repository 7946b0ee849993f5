//! The poll thread's steps, one by one, against librdkafka's mock cluster.

use std::collections::HashMap;

use rdkafka::ClientContext;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use tokio::sync::oneshot;

use super::*;
use crate::kafka::brokers::REPORTS_OF_FORGOTTEN;
use crate::{Committed, GroupEvent};

const PATIENCE: Duration = Duration::from_secs(60);

/// A member whose poll thread is the test.
struct Rig {
    _cluster: MockCluster<'static, DefaultProducerContext>,
    shared: Arc<Shared>,
    events: mpsc::Receiver<GroupEvent>,
    poller: Poller,
}

impl Rig {
    fn new() -> Self {
        let cluster = MockCluster::new(1).expect("mock cluster");
        cluster.create_topic("t", 2, 1).expect("topic");
        let config = KafkaConfig {
            session_timeout: Duration::from_secs(6),
            heartbeat_interval: Duration::from_secs(1),
            ..KafkaConfig::new(&cluster.bootstrap_servers())
        };
        let (shared, events) = Shared::new(&config, "g", "t");
        let poller = Poller::new(&shared, &config).expect("joined");
        Self { _cluster: cluster, shared, events, poller }
    }

    fn forget(&self) {
        for report in REPORTS_OF_FORGOTTEN {
            self.poller.joined.consumer.context().stats_raw(report);
        }
    }

    /// Polls until there is an event.
    fn event(&mut self) -> GroupEvent {
        let began = Instant::now();
        loop {
            if let Ok(event) = self.events.try_recv() {
                return event;
            }
            assert!(began.elapsed() < PATIENCE, "no event for {PATIENCE:?}");
            poll_once(&self.shared, &self.poller.joined.consumer);
        }
    }

    fn assigned(&mut self) -> (u64, Vec<u32>) {
        match self.event() {
            GroupEvent::Assigned { sequence, mut partitions } => {
                partitions.sort_unstable();
                (sequence, partitions)
            }
            other => panic!("expected an assignment, got {other:?}"),
        }
    }

    fn client(&self) -> *const BaseConsumer<Callbacks> {
        Arc::as_ptr(&self.poller.joined.consumer)
    }

    /// The outcome of commits that were claimed some time ago.
    fn commit(&self, commits: Vec<(u32, u64, Committed)>) -> Result<(), LogError> {
        let (reply, answer) = oneshot::channel();
        let sender = self.shared.commits.lock().expect("unpoisoned").clone().expect("commits are taken");
        sender.blocking_send(Request { commits, reply }).expect("a committing thread");
        answer.blocking_recv().expect("answered")
    }

    fn claimed(&self) -> Vec<(u32, u64, Committed)> {
        let position = Committed { offset: 0, metadata: String::new() };
        self.shared.claim(vec![(0, position)]).expect("owned")
    }

    /// The loss of everything, and then the number of the assignment that gave each partition again. The group may give them out one by
    /// one: the old client is a member for a while yet.
    fn lost_and_assigned(&mut self) -> HashMap<u32, u64> {
        let GroupEvent::Lost { mut partitions } = self.event() else { panic!("something before the loss") };
        partitions.sort_unstable();
        assert_eq!(partitions, [0, 1]);
        let mut owned = HashMap::new();
        while owned.len() < 2 {
            let (sequence, partitions) = self.assigned();
            owned.extend(partitions.into_iter().map(|partition| (partition, sequence)));
        }
        owned
    }

    fn end(self) {
        self.shared.stop(true);
        self.poller.run();
    }
}

/// X08: what it owned is lost before anything is assigned again, and nothing of the old assignment is committed.
#[test]
fn x08_a_member_without_brokers_joins_anew_and_what_it_owned_is_lost_first() {
    let mut rig = Rig::new();
    let (first, partitions) = rig.assigned();
    assert_eq!(partitions, [0, 1]);
    let (old, claimed) = (rig.client(), rig.claimed());
    rig.poller.look_for_brokers(Instant::now());
    assert_eq!(rig.client(), old, "it knows a broker");
    assert!(rig.commit(claimed.clone()).is_ok());
    rig.forget();
    let context = rig.poller.joined.consumer.context().clone();
    let now = Instant::now();
    rig.poller.look_for_brokers(now);
    assert_ne!(rig.client(), old);
    assert!(context.retired.load(Ordering::Acquire), "the group may still speak to it");
    assert!(matches!(rig.shared.claim(vec![(0, claimed[0].2.clone())]), Err(LogError::NotOwned { .. })));
    assert!(matches!(rig.commit(claimed.clone()), Err(LogError::NotOwned { partition: 0 })));
    let owned = rig.lost_and_assigned();
    assert!(owned.values().all(|sequence| *sequence > first), "{owned:?} after {first}");
    assert!(matches!(rig.commit(claimed), Err(LogError::NotOwned { partition: 0 })), "owned, but later");
    assert!(rig.commit(rig.claimed()).is_ok());
    rig.forget();
    let client = rig.client();
    rig.poller.look_for_brokers(now + Duration::from_millis(1));
    assert_eq!(rig.client(), client, "not so soon again");
    rig.end();
}

#[test]
fn a_member_keeps_its_client_and_its_partitions_where_there_is_no_other() {
    let mut rig = Rig::new();
    let (_, partitions) = rig.assigned();
    let (old, claimed) = (rig.client(), rig.claimed());
    rig.forget();
    rig.poller.config.properties.insert("no.such.property".to_owned(), String::new());
    let now = Instant::now();
    rig.poller.look_for_brokers(now);
    assert_eq!(rig.client(), old);
    assert_eq!(rig.shared.ownership().owned.len(), partitions.len());
    assert!(rig.commit(claimed).is_ok(), "it goes on");
    assert!(rig.events.try_recv().is_err(), "nothing is lost");
    rig.poller.config.properties.clear();
    rig.poller.look_for_brokers(now);
    assert_eq!(rig.client(), old, "after a pause");
    rig.poller.look_for_brokers(now + PATIENCE);
    assert_ne!(rig.client(), old);
    rig.end();
}

/// Its partitions would be nobody's, and its reports would pile up.
#[test]
fn a_client_whose_last_commit_gets_no_answer_leaves_the_group_meanwhile() {
    let mut rig = Rig::new();
    rig.assigned();
    // The committing thread goes on as long as there is somebody who may commit.
    let committing = rig.shared.commits.lock().expect("unpoisoned").clone().expect("commits are taken");
    let old = rig.poller.joined.consumer.clone();
    rig.forget();
    rig.poller.look_for_brokers(Instant::now());
    let began = Instant::now();
    while old.assignment().expect("known").count() > 0 {
        assert!(began.elapsed() < PATIENCE, "nobody polls it for {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    rig.lost_and_assigned();
    assert!(!committing.is_closed(), "it has not ended");
    drop(committing);
    rig.end();
}

/// I16: started again, its process would take the name back, and put the other one out.
#[test]
fn i16_who_lost_its_name_owns_nothing_and_rests_for_a_session_before_it_leaves() {
    let mut rig = Rig::new();
    rig.assigned();
    rig.shared.fence();
    rig.shared.fence();
    assert!(matches!(rig.event(), GroupEvent::Lost { partitions } if partitions.len() == 2));
    assert!(rig.events.try_recv().is_err(), "told once");
    let (now, session) = (Instant::now(), rig.poller.config.session_timeout);
    rig.forget();
    let client = rig.client();
    for at in [now, now + session - Duration::from_millis(1)] {
        rig.poller.rest_when_fenced(at);
        rig.poller.look_for_brokers(at);
        assert!(!rig.shared.leaving.load(Ordering::Acquire), "it rests");
    }
    assert_eq!(rig.client(), client, "nor does it join anew");
    rig.poller.rest_when_fenced(now + session);
    assert!(rig.shared.leaving.load(Ordering::Acquire));
    rig.end();
}

#[test]
fn nothing_of_a_member_stays_when_no_thread_polls_it() {
    let rig = Rig::new();
    let left = Arc::downgrade(&rig.shared);
    // What a thread that cannot be started does with its work.
    drop(rig.poller);
    let error = rig.shared.is_polled(Err(std::io::ErrorKind::OutOfMemory.into())).expect_err("no member");
    assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    drop(rig.shared);
    let began = Instant::now();
    while left.strong_count() > 0 {
        assert!(began.elapsed() < PATIENCE, "the member is still there after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
