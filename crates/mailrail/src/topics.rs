//! The topics and groups of the pipeline: their names, and what each must be.

use mailrail_log::TopicSpec;

use crate::settings::Settings;

/// Names of everything in the log that belongs to the pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Topics {
    pub(crate) events: String,
    pub(crate) deliveries: String,
    pub(crate) journal: String,
    pub(crate) attempts: String,
    pub(crate) dead_letters: String,
    pub(crate) quarantine: String,
    pub(crate) redrives: String,
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
            journal: name("journal"),
            attempts: name("attempts"),
            dead_letters: name("dead-letters"),
            quarantine: name("quarantine"),
            redrives: name("redrives"),
            match_group: name("match"),
            deliver_group: name("deliver"),
        }
    }

    /// What each topic must be. Quarantine keeps records as long as dead letters: both wait for a person. The journal keeps
    /// its records until the owner of their partition trims them: what waits in it is owed, however long. The ledger of redrives
    /// keeps its entries until the letters are gone that they are about, and is one partition: their order is what it says.
    pub(crate) fn specs(&self, settings: &Settings) -> Vec<TopicSpec> {
        let keep = &settings.pipeline.retention;
        [
            (&self.events, Some(keep.events)),
            (&self.deliveries, Some(keep.deliveries)),
            (&self.journal, None),
            (&self.attempts, Some(keep.attempts)),
            (&self.dead_letters, Some(keep.dead_letters)),
            (&self.quarantine, Some(keep.dead_letters)),
            (&self.redrives, None),
        ]
        .map(|(name, retention)| TopicSpec {
            name: name.clone(),
            partitions: if *name == self.redrives { 1 } else { settings.pipeline.partitions },
            retention,
        })
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_has_the_partitions_of_the_deliveries_and_keeps_for_ever() {
        let mut settings = Settings { topic_prefix: "p.".to_owned(), ..Settings::default() };
        settings.pipeline.partitions = 7;
        let topics = Topics::named(&settings);
        assert_eq!(topics.journal, format!("p.journal.{}", settings.pipeline.name));
        let specs = topics.specs(&settings);
        let spec = |name: &str| specs.iter().find(|it| it.name == name).expect("in the list");
        assert_eq!(spec(&topics.journal).partitions, spec(&topics.deliveries).partitions);
        assert_eq!(spec(&topics.journal).retention, None);
        assert_eq!(
            spec(&topics.redrives),
            &TopicSpec { name: topics.redrives.clone(), partitions: 1, retention: None }
        );
        assert_eq!(specs.iter().filter(|it| it.retention.is_none()).count(), 2, "{specs:?}");
    }
}
