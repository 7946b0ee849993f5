//! The topics and groups of the pipeline: their names, and what each must be.

use mailrail_log::TopicSpec;

use crate::settings::Settings;

/// Names of everything in the log that belongs to the pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Topics {
    pub(crate) events: String,
    pub(crate) deliveries: String,
    pub(crate) attempts: String,
    pub(crate) dead_letters: String,
    pub(crate) quarantine: String,
    pub(crate) match_group: String,
    pub(crate) deliver_group: String,
}

impl Topics {
    /// The names that these settings give.
    pub(crate) fn named(settings: &Settings) -> Self {
        let name = |kind: &str| format!("{}{kind}.{}", settings.topic_prefix, settings.pipeline.name);
        Self {
            events: name("events"),
            deliveries: name("deliveries"),
            attempts: name("attempts"),
            dead_letters: name("dead-letters"),
            quarantine: name("quarantine"),
            match_group: name("match"),
            deliver_group: name("deliver"),
        }
    }

    /// What each topic must be. Quarantine keeps records as long as dead letters: both wait for a person.
    pub(crate) fn specs(&self, settings: &Settings) -> Vec<TopicSpec> {
        let keep = &settings.pipeline.retention;
        [
            (&self.events, keep.events),
            (&self.deliveries, keep.deliveries),
            (&self.attempts, keep.attempts),
            (&self.dead_letters, keep.dead_letters),
            (&self.quarantine, keep.dead_letters),
        ]
        .map(|(name, retention)| TopicSpec {
            name: name.clone(),
            partitions: settings.pipeline.partitions,
            retention: Some(retention),
        })
        .to_vec()
    }
}
