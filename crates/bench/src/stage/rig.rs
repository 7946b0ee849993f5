//! What is measured: one set-up, a topic of events, and the topics that the two produce to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use mailrail_log::{KafkaLog, Log, NewRecord};
use mailrail_types::{Attributes, Event, EventId, TenantId, Timestamp};
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};

use super::{Args, ONE_IN};
use crate::events::{EVENT_TYPE, SOURCE, event_id};
use crate::matching::workload::{Bodies, filter};
use crate::recipe::Recipe;

/// Whose events they are.
const TENANT: &str = "bench";
/// Events that are appended before the next ones are made: what is held in memory.
const PART: u64 = 50_000;
/// How long the log may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Everything that a run has.
pub(super) struct Rig {
    pub(super) recipe: Recipe,
    pub(super) log: Arc<KafkaLog>,
    pub(super) folder: tempfile::TempDir,
    /// What the floor produces to.
    pub(super) floor_topic: String,
    tenant: TenantId,
    bodies: Bodies,
    /// Number of the next event.
    next: u64,
}

impl Rig {
    pub(super) async fn start(args: &Args) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let recipe = Recipe::new(&args.services, args.partitions.get(), args.workers.get())?;
        let setup = setup_file(&recipe.token(TENANT), args.subscriptions);
        recipe.set_up(folder.path(), &setup, &[]).await?;
        let log = Arc::new(recipe.log()?);
        let floor_topic = recipe.topic("floor");
        let new =
            NewTopic::new(&floor_topic, i32::try_from(args.partitions.get())?, TopicReplication::Fixed(1));
        let made = recipe.admin()?.create_topics(&[new], &AdminOptions::new()).await?;
        made.into_iter()
            .next()
            .context("no answer")?
            .map_err(|(topic, code)| anyhow::anyhow!("topic {topic} was not made: {code}"))?;
        for topic in [&recipe.topic("events"), &recipe.topic("deliveries"), &floor_topic] {
            recipe.online(&*log, topic).await?;
        }
        let (tenant, bodies) = (TenantId::new(TENANT)?, Bodies::new(args.body_bytes as usize));
        Ok(Self { recipe, log, folder, floor_topic, tenant, bodies, next: 0 })
    }

    /// Appends the events of a round. Gives the offset of the first one of each partition.
    pub(super) async fn fill(&mut self, args: &Args) -> Result<Vec<u64>> {
        let topic = self.recipe.topic("events");
        let mut from = Vec::new();
        for partition in 0..args.partitions.get() {
            from.push(self.log.bounds(&topic, partition).await?.high);
        }
        let end = self.next + args.events;
        while self.next < end {
            let part = self.next..end.min(self.next + PART);
            let records = part.clone().map(|number| {
                let place = (number / ONE_IN + number) % u64::from(args.partitions.get());
                Ok((u32::try_from(place)?, self.event(number)))
            });
            crate::mail::append(&self.log, &topic, records).await?;
            self.next = part.end;
        }
        Ok(from)
    }

    /// One event in so many matches one subscription.
    fn event(&self, number: u64) -> NewRecord {
        let of = |bodies: &[Vec<u8>]| {
            let turn = usize::try_from(number / ONE_IN).unwrap_or(0) % bodies.len();
            Bytes::copy_from_slice(&bodies[turn])
        };
        let body =
            if number.is_multiple_of(ONE_IN) { of(&self.bodies.hits) } else { of(&self.bodies.misses) };
        let id = event_id(number);
        let event = Event {
            id: EventId::derive(&self.tenant, SOURCE, &id),
            tenant: self.tenant.clone(),
            attributes: Attributes {
                id,
                source: SOURCE.to_owned(),
                event_type: EVENT_TYPE.to_owned(),
                content_type: Some("application/json".to_owned()),
                ..Attributes::default()
            },
            ordering_key: Some(number.to_string()),
            body,
            trace: None,
            forwarded: None,
            accepted_at: Timestamp(1_700_000_000_000),
            setup_seq: 1,
            unknown: Bytes::new(),
        };
        NewRecord {
            key: Bytes::from_static(b"bench"),
            value: mailrail_wire::encode_event(&event),
            headers: Vec::new(),
        }
    }

    /// Records that a topic has, by partition.
    pub(super) async fn ends(&self, topic: &str) -> Result<BTreeMap<u32, u64>> {
        let mut ends = BTreeMap::new();
        for partition in 0..self.recipe.partitions {
            ends.insert(partition, self.log.bounds(topic, partition).await?.high);
        }
        Ok(ends)
    }

    /// That the stage made exactly the deliveries that it owed, each once, and quarantined nothing.
    pub(super) async fn check(&self, events: u64) -> Result<()> {
        for (kind, expected) in [("deliveries", events / ONE_IN), ("quarantine", 0)] {
            let records = self.recipe.records(&*self.log, kind).await?;
            ensure!(records == expected, "{kind} has {records} records, not {expected}");
        }
        eprintln!("stage: each event that matches has its delivery, and no other has one");
        Ok(())
    }

    /// Removes what was made.
    pub(super) async fn end(self) {
        self.log.close(CLOSE_WAIT).await;
        self.recipe.remove(&[&self.floor_topic]).await;
    }
}

/// Subscriptions of one app to one event type, all to one endpoint.
fn setup_file(token: &str, subscriptions: u32) -> String {
    let wanted: String = (0..subscriptions)
        .map(|n| {
            let pattern = filter(n as usize);
            format!(
                "    - {{id: s{n}, endpoint: e, event_types: [{EVENT_TYPE}], filter: {{pattern: {pattern}}}}}\n"
            )
        })
        .collect();
    format!(
        "version: 1\ntenants:\n- id: {TENANT}\n  keys: [{{id: producer, token: {token}}}]\n  event_types: [{{name: \
         {EVENT_TYPE}}}]\n  apps:\n  - id: app\n    endpoints: [{{id: e, url: \"https://receiver.example.com/\"}}]\n    \
         subscriptions:\n{wanted}"
    )
}
