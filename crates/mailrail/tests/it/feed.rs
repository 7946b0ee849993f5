//! Deliveries put straight into the deliveries topic, and what the log says became of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use mailrail_log::{Log, NewRecord, Reader, Readers, StoredRecord, append_insistently};
use mailrail_mailbox::Kind;
use mailrail_types::{
    AppId, Attributes, Delivery, DeliveryId, EndpointId, Event, EventId, History, Mailbox, Outcome,
    PartitionCount, SubscriptionId, TenantId, Timestamp,
};

use crate::history::{End, Owed};

/// Whose everything is.
pub(crate) const TENANT: &str = "acme";
/// Records of one append.
const BATCH: usize = 500;
/// Buckets of a strict mailbox, as the class of that name has them.
const BUCKETS: u32 = 10;
/// Longest wait for a record that is in the log.
const READ_WAIT: Duration = Duration::from_secs(180);

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(i64::try_from(since.as_millis()).expect("in range"))
}

pub(crate) fn subscription(endpoint: &str) -> SubscriptionId {
    SubscriptionId::new(&format!("to-{endpoint}")).expect("valid")
}

/// Puts deliveries into the log, each key's in order, and remembers what is owed.
pub(crate) struct Feeder {
    log: Arc<dyn Log>,
    topic: String,
    partitions: u32,
    /// Bytes that fill a body up.
    pub(crate) padding: usize,
    strict: BTreeMap<String, bool>,
    next: HashMap<(String, u32), u64>,
    pub(crate) owed: Vec<Owed>,
}

impl Feeder {
    pub(crate) fn new(
        log: Arc<dyn Log>,
        topic: String,
        partitions: u32,
        strict: BTreeMap<String, bool>,
    ) -> Self {
        Self { log, topic, partitions, padding: 0, strict, next: HashMap::new(), owed: Vec::new() }
    }

    /// Adds `count` deliveries for each of the keys, key after key in turn.
    pub(crate) async fn feed(&mut self, endpoint: &str, keys: std::ops::Range<u32>, count: u64) {
        let mut batches: BTreeMap<u32, Vec<NewRecord>> = BTreeMap::new();
        for _ in 0..count {
            for key in keys.clone() {
                let delivery = self.delivery(endpoint, key);
                let mailbox = delivery.mailbox.key();
                let count = PartitionCount(NonZeroU32::new(self.partitions).expect("partitions"));
                batches.entry(mailbox.partition(count)).or_default().push(NewRecord {
                    key: Bytes::copy_from_slice(mailbox.as_str().as_bytes()),
                    value: mailrail_wire::encode_delivery(&delivery),
                    headers: Vec::new(),
                });
            }
        }
        let appends = batches.into_iter().map(|(partition, records)| self.append(partition, records));
        futures::future::join_all(appends).await;
    }

    async fn append(&self, partition: u32, records: Vec<NewRecord>) {
        for batch in records.chunks(BATCH) {
            append_insistently(&*self.log, &self.topic, partition, batch.to_vec()).await.expect("appended");
        }
    }

    fn delivery(&mut self, endpoint: &str, key: u32) -> Delivery {
        let next = self.next.entry((endpoint.to_owned(), key)).or_insert(0);
        let sequence = *next;
        *next += 1;
        let tenant = TenantId::new(TENANT).expect("valid");
        let name = format!("{endpoint}-{key}");
        let event = EventId::derive(&tenant, "/it", &format!("{name}-{sequence}"));
        let subscription = subscription(endpoint);
        let id = DeliveryId::derive(&event, &tenant, &subscription);
        let strict = self.strict[endpoint];
        let owed = Owed { id, endpoint: endpoint.to_owned(), key: name.clone(), sequence, strict };
        self.owed.push(owed);
        let endpoint = EndpointId::new(endpoint).expect("valid");
        let padding = "x".repeat(self.padding);
        let body = format!(r#"{{"key":"{name}","seq":{sequence},"padding":"{padding}"}}"#);
        Delivery {
            id,
            event: event_of(event, &tenant, name, Bytes::from(body)),
            app: AppId::new("app").expect("valid"),
            subscription,
            mailbox: Mailbox {
                pipeline: "default".into(),
                region: "".into(),
                tenant,
                endpoint: endpoint.clone(),
                event_type: None,
                bucket: key % BUCKETS,
            },
            endpoint,
            setup_seq: 1,
            matched_at: now(),
            deadline: Timestamp(now().0 + 86_400_000),
            history: History::default(),
            unknown: Bytes::new(),
        }
    }
}

fn event_of(id: EventId, tenant: &TenantId, key: String, body: Bytes) -> Event {
    let attributes = Attributes {
        id: id.to_string(),
        source: "/it".into(),
        event_type: "numbered".into(),
        content_type: Some("application/json".into()),
        ..Attributes::default()
    };
    Event {
        id,
        tenant: tenant.clone(),
        attributes,
        ordering_key: Some(key),
        body,
        trace: None,
        forwarded: None,
        accepted_at: now(),
        setup_seq: 1,
        unknown: Bytes::new(),
    }
}

/// Reads a topic to its end, again and again.
pub(crate) struct Tail {
    log: Arc<dyn Log>,
    readers: Box<dyn Readers>,
    topic: String,
    open: BTreeMap<u32, (u64, Option<Box<dyn Reader>>)>,
}

impl Tail {
    pub(crate) fn new(log: Arc<dyn Log>, topic: String, partitions: u32) -> Self {
        let open = (0..partitions).map(|partition| (partition, (0, None))).collect();
        Self { readers: log.readers().expect("readers"), log, topic, open }
    }

    /// Gives every record since the last time. A broker that does not answer gives none.
    pub(crate) async fn catch_up(&mut self, mut give: impl FnMut(u32, &StoredRecord)) {
        for (partition, (next, reader)) in &mut self.open {
            let Ok(bounds) = self.log.bounds(&self.topic, *partition).await else { continue };
            *next = (*next).max(bounds.low);
            while *next < bounds.high {
                let open = match reader {
                    Some(open) => open,
                    None => {
                        let open = self.readers.open(&self.topic, *partition, *next).expect("reader");
                        reader.insert(open)
                    }
                };
                let batch = tokio::time::timeout(READ_WAIT, open.next(500)).await;
                let Ok(batch) = batch.expect("the log gives what it has") else { break };
                for record in &batch {
                    give(*partition, record);
                    *next = record.offset + 1;
                }
            }
        }
    }
}

/// What the attempts and the dead letters say became of deliveries.
pub(crate) struct Ends {
    attempts: Tail,
    dead_letters: Tail,
    pub(crate) of: HashMap<DeliveryId, BTreeSet<End>>,
}

impl Ends {
    pub(crate) fn new(attempts: Tail, dead_letters: Tail) -> Self {
        Self { attempts, dead_letters, of: HashMap::new() }
    }

    pub(crate) async fn catch_up(&mut self) {
        let of = &mut self.of;
        self.attempts
            .catch_up(|_, record| {
                let attempt = mailrail_wire::decode_attempt(&record.value).expect("an attempt");
                let end = match attempt.outcome {
                    Outcome::Delivered => End::Delivered,
                    Outcome::Cancelled(_) => End::Cancelled,
                    // Its end is the dead letter.
                    Outcome::Dead(_) | Outcome::Retry { .. } => return,
                };
                of.entry(attempt.delivery).or_default().insert(end);
            })
            .await;
        self.dead_letters
            .catch_up(|_, record| {
                let letter = mailrail_wire::decode_dead_letter(&record.value).expect("a dead letter");
                of.entry(letter.delivery.id).or_default().insert(End::Dead);
            })
            .await;
    }
}

/// Who claimed which partitions: the claims in the journals, by the process that wrote them.
#[derive(Debug, Default)]
pub(crate) struct Claims(Vec<(u32, u64, String)>);

impl Claims {
    /// Those in the journals now.
    pub(crate) async fn read(mut journal: Tail) -> Self {
        let mut claims = Vec::new();
        journal
            .catch_up(|partition, record| {
                let (entry, _) = mailrail_wire::decode_entry(&record.value).expect("an entry");
                if let Kind::Claim(claim) = entry.kind {
                    claims.push((partition, record.offset, claim.member));
                }
            })
            .await;
        Self(claims)
    }

    /// Partition and place of the claims of one process.
    pub(crate) fn of(&self, pid: u32) -> BTreeSet<(u32, u64)> {
        let suffix = format!("/{pid}");
        let own = self.0.iter().filter(|(_, _, member)| member.ends_with(&suffix));
        own.map(|(partition, place, _)| (*partition, *place)).collect()
    }
}
