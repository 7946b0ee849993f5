//! The end of a run: what is in the log, and whether the books balance.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use mailrail_demo::books::{Accepted, Books, Claims, Pipeline, Statement, settle};
use mailrail_egress::operator::ApiClient;
use mailrail_log::{KafkaConfig, KafkaLog, LocalLog, Log, StoredRecord, TopicSpec};
use mailrail_testkit::read_topic;
use mailrail_types::{Delivery, DeliveryId, EndpointId, SubscriptionId, TenantId};

use crate::fleet::until;

use super::set_up::{ENDPOINTS, TOLERANT};
use super::{PARTITIONS, PATIENCE, Place, Rig, TENANTS, TOKEN};

impl Rig {
    /// Every delivery of the deliveries topic, partition by partition.
    pub(crate) async fn deliveries(&self) -> Vec<Delivery> {
        let decode = |r: &StoredRecord| mailrail_wire::decode_delivery(&r.value).expect("delivery");
        self.delivery_records().await.iter().map(decode).collect()
    }

    /// As [`Rig::deliveries`], as they stand there.
    pub(crate) async fn delivery_records(&self) -> Vec<StoredRecord> {
        read_topic(&*self.log(), &self.pipeline().deliveries.name, PARTITIONS).await
    }

    /// Waits until so many deliveries were written, whoever delivers them.
    pub(crate) async fn wait_matched(&self, count: u64) {
        let (log, topic) = (self.log(), self.pipeline().deliveries.name);
        until("all are matched", async || {
            let mut written = 0;
            for partition in 0..PARTITIONS {
                written += log.bounds(&topic, partition).await.map_or(0, |bounds| bounds.high - bounds.low);
            }
            written >= count
        })
        .await;
    }

    /// Waits until everything came to its end, and closes the books. An embedded log is read after its process ended.
    pub(crate) async fn close_books(&mut self, accepted: &[Accepted]) -> Statement {
        let expected = expected(accepted);
        if matches!(self.place, Place::Embedded) {
            let dead = accepted.iter().filter(|a| a.sequence % 2 == 1).count();
            let all = expected.len() - dead;
            let done = self.receiver.reached(|r| r.total.delivered as usize >= all);
            if tokio::time::timeout(PATIENCE, done).await.is_err() {
                panic!("not everything arrived: {:?} {}", self.receiver.snapshot(), self.logs());
            }
            // The last dead letters may still be on their way: the drain writes them.
            self.wait_settled().await;
            self.stop_all().await;
        }
        let mut books = Books::read(self.log(), self.pipeline()).await.expect("books");
        settle(&mut books, Some(&expected), PATIENCE, &ProgressBar::hidden()).await.expect("settled");
        let receipts = self.receiver.receipts();
        let names = TENANTS.iter().flat_map(|tenant| ENDPOINTS.map(|(endpoint, _)| (*tenant, endpoint)));
        let strict = names.filter(|(_, endpoint)| *endpoint != TOLERANT);
        let valid = |(tenant, endpoint): (&str, &str)| {
            (TenantId::new(tenant).expect("valid"), EndpointId::new(endpoint).expect("valid"))
        };
        let strict = strict.map(valid).collect();
        books.reconcile(&Claims {
            accepted: Some(accepted),
            // What the tolerant ones get is about no key, and several at a time.
            strict: Some(&strict),
            expected: Some(&expected),
            receipts: Some(&receipts),
            receipts_truncated: self.receiver.snapshot().truncated,
            ..Claims::default()
        })
    }

    /// Waits until the control API says that nothing is waiting.
    async fn wait_settled(&self) {
        let api = ApiClient::new(&self.control, Some(TOKEN)).expect("client");
        let settled = async {
            loop {
                if let Ok(status) = api.get("/v1/status").await
                    && lag(&status, "deliveries") == Some(0)
                    && lag(&status, "events") == Some(0)
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, settled).await.is_err() {
            panic!("something still waits: {:?} {}", api.get("/v1/status").await, self.logs());
        }
    }

    fn log(&self) -> Arc<dyn Log> {
        match &self.place {
            Place::Embedded => Arc::new(
                LocalLog::open(&self.folder.path().join("data/log/log.db")).expect("the embedded log"),
            ),
            Place::Services { kafka, .. } => {
                let config =
                    KafkaConfig { replication_factor: 1, min_insync_replicas: 1, ..KafkaConfig::new(kafka) };
                Arc::new(KafkaLog::connect(config).expect("kafka"))
            }
        }
    }

    fn pipeline(&self) -> Pipeline {
        let topic = |kind: &str| TopicSpec {
            name: format!("{}{kind}.default", self.prefix),
            partitions: PARTITIONS,
            retention: None,
        };
        Pipeline {
            events: topic("events"),
            deliveries: topic("deliveries"),
            attempts: topic("attempts"),
            dead_letters: topic("dead-letters"),
            match_group: format!("{}match.default", self.prefix),
        }
    }
}

/// What waits in a queue, from the answer of `/v1/status`.
fn lag(status: &serde_json::Value, queue: &str) -> Option<u64> {
    status["pipelines"][0][queue]["waiting"].as_u64()
}

/// What the set-up wants, told without match: every event goes to all endpoints of its tenant.
fn expected(accepted: &[Accepted]) -> HashSet<DeliveryId> {
    let to = |a: &Accepted| {
        ENDPOINTS.map(|(name, _)| {
            let subscription = SubscriptionId::new(&format!("to-{name}")).expect("valid");
            DeliveryId::derive(&a.event, &a.tenant, &subscription)
        })
    };
    accepted.iter().flat_map(to).collect()
}
