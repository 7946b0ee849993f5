//! Topics: made when they do not exist, verified always, never changed.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rdkafka::admin::{AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;

use super::admin::{ANSWER_WAIT, Admin};
use super::client::describe;
use crate::{LogError, TopicMismatch, TopicSpec};

/// How long a topic that was just made may be unknown to some broker.
const MADE_ASKS: u32 = 50;
const MADE_PAUSE: Duration = Duration::from_millis(200);

/// What a topic is, as far as it must be as configured.
struct Found {
    partitions: usize,
    replicas: usize,
}

impl Admin {
    pub(super) async fn ensure_topics(self: &Arc<Self>, specs: &[TopicSpec]) -> Result<(), LogError> {
        let mut found = HashMap::new();
        for spec in specs {
            match self.find(&spec.name).await? {
                Some(topic) => found.insert(spec.name.clone(), topic),
                None => None,
            };
        }
        // Nothing is made while something else is wrong.
        self.verify(specs, &found).await?;
        let missing: Vec<&TopicSpec> = specs.iter().filter(|it| !found.contains_key(&it.name)).collect();
        if !missing.is_empty() {
            self.make(&missing).await?;
            for spec in missing {
                found.insert(spec.name.clone(), self.find_made(&spec.name).await?);
            }
            self.verify(specs, &found).await?;
        }
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = specs.first().map(|it| it.name.clone());
        Ok(())
    }

    async fn make(self: &Arc<Self>, specs: &[&TopicSpec]) -> Result<(), LogError> {
        let settings: Vec<Vec<(&str, String)>> = specs.iter().map(|it| self.settings(it)).collect();
        let topics: Vec<NewTopic<'_>> = specs
            .iter()
            .zip(&settings)
            .map(|(spec, settings)| {
                let partitions = i32::try_from(spec.partitions).unwrap_or(i32::MAX);
                let replication = TopicReplication::Fixed(i32::from(self.config.replication_factor));
                settings
                    .iter()
                    .fold(NewTopic::new(&spec.name, partitions, replication), |topic, (name, value)| {
                        topic.set(name, value)
                    })
            })
            .collect();
        let options =
            AdminOptions::new().request_timeout(Some(ANSWER_WAIT)).operation_timeout(Some(ANSWER_WAIT));
        for made in self.order(async |it| it.create_topics(&topics, &options).await).await? {
            match made {
                Ok(topic) => tracing::info!(target: "mailrail_log::kafka", topic, "topic made"),
                // Another process makes the same ones; whether they are right is verified next.
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, RDKafkaErrorCode::InvalidReplicationFactor)) => {
                    return Err(LogError::Config(format!(
                        "topic {topic} cannot have {} replicas in this cluster; set replication_factor to at most the \
                         number of brokers",
                        self.config.replication_factor
                    )));
                }
                Err((topic, code)) => {
                    return Err(LogError::Unavailable(format!(
                        "topic {topic} was not made: {}",
                        describe(code)
                    )));
                }
            }
        }
        Ok(())
    }

    fn settings(&self, spec: &TopicSpec) -> Vec<(&'static str, String)> {
        vec![
            ("cleanup.policy", "delete".to_owned()),
            ("min.insync.replicas", self.config.min_insync_replicas.to_string()),
            ("unclean.leader.election.enable", "false".to_owned()),
            ("retention.ms", retention_ms(spec).to_string()),
            ("retention.bytes", "-1".to_owned()),
            ("max.message.bytes", self.config.message_max_bytes().to_string()),
            ("message.timestamp.type", "LogAppendTime".to_owned()),
        ]
    }

    async fn find_made(self: &Arc<Self>, topic: &str) -> Result<Found, LogError> {
        for _ in 0..MADE_ASKS {
            if let Some(found) = self.find(topic).await? {
                return Ok(found);
            }
            tokio::time::sleep(MADE_PAUSE).await;
        }
        Err(LogError::Unavailable(format!("topic {topic} was made, but the brokers do not show it yet")))
    }

    async fn find(self: &Arc<Self>, topic: &str) -> Result<Option<Found>, LogError> {
        let (this, topic) = (self.clone(), topic.to_owned());
        self.blocking
            .run(move || {
                let metadata = this.ask(|it| it.fetch_metadata(Some(&topic), ANSWER_WAIT))?;
                let Some(found) = metadata.topics().iter().find(|it| it.name() == topic) else {
                    return Ok(None);
                };
                match found.error() {
                    None => {}
                    Some(
                        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                        | RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
                    ) => return Ok(None),
                    Some(error) => {
                        let text = describe(RDKafkaErrorCode::from(error));
                        return Err(LogError::Unavailable(format!("topic {topic}: {text}")));
                    }
                }
                if found.partitions().is_empty() {
                    return Ok(None);
                }
                let replicas = found.partitions().iter().map(|it| it.replicas().len()).min().unwrap_or(0);
                Ok(Some(Found { partitions: found.partitions().len(), replicas }))
            })
            .await
    }

    /// All topics that exist, all of their mismatches.
    async fn verify(
        self: &Arc<Self>,
        specs: &[TopicSpec],
        found: &HashMap<String, Found>,
    ) -> Result<(), LogError> {
        let existing: Vec<&TopicSpec> = specs.iter().filter(|it| found.contains_key(&it.name)).collect();
        if existing.is_empty() {
            return Ok(());
        }
        let resources: Vec<ResourceSpecifier<'_>> =
            existing.iter().map(|it| ResourceSpecifier::Topic(&it.name)).collect();
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WAIT));
        let described = self.order(async |it| it.describe_configs(&resources, &options).await).await?;
        let mut mismatches = Vec::new();
        for (spec, described) in existing.into_iter().zip(described) {
            let config = described.map_err(|code| {
                LogError::Unavailable(format!("topic {} cannot be described: {}", spec.name, describe(code)))
            })?;
            mismatches.extend(self.compare(spec, &found[&spec.name], &config));
        }
        if mismatches.is_empty() { Ok(()) } else { Err(LogError::Topics(mismatches)) }
    }

    fn compare(&self, spec: &TopicSpec, found: &Found, config: &ConfigResource) -> Vec<TopicMismatch> {
        let mut mismatches = Vec::new();
        let mut add = |problem: String, remedy: String| {
            mismatches.push(TopicMismatch { topic: spec.name.clone(), problem, remedy });
        };
        if found.partitions != spec.partitions as usize {
            add(
                format!("has {} partitions, settings say {}", found.partitions, spec.partitions),
                format!("set the partitions to {}; a topic with records keeps its number", found.partitions),
            );
        }
        if found.replicas < usize::from(self.config.replication_factor) {
            add(
                format!("has {} replicas, settings say {}", found.replicas, self.config.replication_factor),
                "reassign its partitions to more brokers, or lower replication_factor".to_owned(),
            );
        }
        let value = |name: &str| config.get(name).and_then(|it| it.value.clone()).unwrap_or_default();
        let number = |name: &str| value(name).parse::<i64>().unwrap_or(0);
        let alter = |name: &str, wanted: &str| format!("alter the topic to {name}={wanted}");
        if number("min.insync.replicas") < i64::from(self.config.min_insync_replicas) {
            let wanted = self.config.min_insync_replicas.to_string();
            add(
                format!("has min.insync.replicas {}, settings say {wanted}", number("min.insync.replicas")),
                alter("min.insync.replicas", &wanted),
            );
        }
        for (name, wanted) in [("unclean.leader.election.enable", "false"), ("cleanup.policy", "delete")] {
            if value(name) != wanted {
                add(format!("has {name} {}, which loses records", value(name)), alter(name, wanted));
            }
        }
        if number("retention.ms") != retention_ms(spec) {
            let wanted = retention_ms(spec).to_string();
            add(
                format!("has retention.ms {}, settings say {wanted}", number("retention.ms")),
                format!("{}, or change the setting", alter("retention.ms", &wanted)),
            );
        }
        if number("retention.bytes") != -1 {
            add(
                format!(
                    "has retention.bytes {}, which deletes records before their time",
                    number("retention.bytes")
                ),
                alter("retention.bytes", "-1"),
            );
        }
        let bytes = i64::try_from(self.config.message_max_bytes()).unwrap_or(i64::MAX);
        if number("max.message.bytes") < bytes {
            add(
                format!("has max.message.bytes {}, records may take {bytes}", number("max.message.bytes")),
                alter("max.message.bytes", &bytes.to_string()),
            );
        }
        mismatches
    }
}

fn retention_ms(spec: &TopicSpec) -> i64 {
    spec.retention.map_or(-1, |it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX))
}
