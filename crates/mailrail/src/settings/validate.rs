//! Checks across keys: what each value must be for a role to work.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::backends::LogKind;
use mailrail_control::Operator;
use mailrail_log::sasl_problem;
use mailrail_policy::RetrySchedule;

use super::load::ADMIN_TOKEN_ENV;
use super::{Place, Problem, Settings, SettingsError};

/// Most partitions of a topic: more costs memory and file handles on every broker for nothing.
const PARTITIONS_MAX: u32 = 1024;
/// Longest topic prefix: Kafka takes 249 characters for the whole name.
const PREFIX_MAX_CHARS: usize = 100;
/// Longest pipeline name.
const PIPELINE_NAME_MAX_CHARS: usize = 64;
/// Longest region: it is in every mailbox's key and a label of metrics.
const REGION_MAX_CHARS: usize = 64;
/// Largest body that can be set: one record must fit the log and the window of a partition.
const BODY_LIMIT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Most events of a batch that can be set: the answer names each of them.
const BATCH_EVENTS_MAX: usize = 1000;
/// Most open requests of a process: each holds a socket, and a process has 65,535 ports for one recipient.
const IN_FLIGHT_MAX: usize = 32_768;
/// Most records of a window: as many as the bitmap beside a commit can mark.
const WINDOW_RECORDS_MAX: usize = 8192;
/// Longest attempt. Longer work belongs behind a queue at the endpoint.
const ATTEMPT_TIMEOUT_MAX: Duration = Duration::from_secs(300);
/// A lease lives from commit to commit: see `LEASE_MARGIN`.
const COMMIT_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// What must remain of the session after the longest attempt: 5 s between commits, 5 s for clocks and scheduling.
/// Without it a member that lost its session could still be sending.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// Least that a look at the log may read: fewer records tell nothing.
const LOOK_RECORDS_MIN: u64 = 1_000;
/// Most that a look at the mailboxes may read: each record may be a mailbox of its own, in memory.
const SCAN_RECORDS_MAX: u64 = 10_000_000;
/// Most that a look for one delivery may read. They are not kept: the time is what bounds it.
const WHY_RECORDS_MAX: u64 = 1_000_000_000;
/// Longest look for one delivery: a request of the control API has 30 s.
const WHY_TIMEOUT_MAX: Duration = Duration::from_secs(25);
/// Longest drain: the group waits 10 s for a partition that is taken away.
const DRAIN_MAX: Duration = Duration::from_secs(8);

/// Properties that mailrail sets itself: its promises rest on them.
const OWN_PROPERTIES: &[(&str, &str)] = &[
    ("bootstrap.servers", "set log.kafka.brokers"),
    ("metadata.broker.list", "set log.kafka.brokers"),
    ("client.id", "set log.kafka.client_id"),
    ("delivery.timeout.ms", "set log.kafka.delivery_timeout"),
    ("message.timeout.ms", "set log.kafka.delivery_timeout"),
    ("session.timeout.ms", "set log.kafka.session_timeout"),
    ("acks", "remove it; an event is accepted when all in-sync replicas have it"),
    ("request.required.acks", "remove it; an event is accepted when all in-sync replicas have it"),
    ("enable.idempotence", "remove it; it is always on"),
    ("enable.gapless.guarantee", "remove it"),
    ("max.in.flight", "remove it; order rests on it"),
    ("max.in.flight.requests.per.connection", "remove it; order rests on it"),
    ("transactional.id", "remove it; mailrail does not use transactions"),
    ("group.id", "remove it; groups are named after topic_prefix and pipeline.name"),
    ("group.instance.id", "set log.kafka.group_instance_id"),
    ("partition.assignment.strategy", "remove it"),
    ("enable.auto.commit", "remove it; commits follow finished work"),
    ("enable.auto.offset.store", "remove it; commits follow finished work"),
    ("auto.offset.reset", "remove it; a missing offset is an error and never skipped"),
    ("isolation.level", "remove it"),
];

/// Who reads the settings: each role needs only its own part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// The front door.
    Ingest,
    /// Stage one.
    Match,
    /// Stage two.
    Deliver,
    /// The control API.
    Control,
    /// Every role in one process.
    All,
    /// Every role in one process on embedded parts.
    #[value(skip)]
    Dev,
}

impl Role {
    const fn is_alone(self) -> bool {
        !matches!(self, Role::All | Role::Dev)
    }

    pub(super) const fn delivers(self) -> bool {
        matches!(self, Role::Deliver | Role::All | Role::Dev)
    }
}

impl Settings {
    /// Checks everything that `role` needs.
    ///
    /// # Errors
    /// Every problem, each with its key, its place and what to change.
    pub(crate) fn validate(&self, role: Role) -> Result<(), SettingsError> {
        let mut found = Found { settings: self, problems: Vec::new() };
        found.names();
        found.log(role);
        found.store(role);
        found.redis();
        found.logs();
        found.doors(role);
        found.looks();
        found.deliver();
        found.authorities(role);
        found.traces();
        found.problems.sort();
        SettingsError::from_problems(found.problems)
    }

    /// Checks what making topics and migrating the store needs.
    ///
    /// # Errors
    /// As [`Settings::validate`].
    pub(crate) fn validate_prepare(&self) -> Result<(), SettingsError> {
        let mut found = Found { settings: self, problems: Vec::new() };
        found.names();
        // As for all roles: those that will use the topics.
        found.log(Role::All);
        found.store(Role::All);
        found.redis();
        found.logs();
        found.problems.sort();
        SettingsError::from_problems(found.problems)
    }

    /// Checks what a command needs that uses the log alone.
    ///
    /// # Errors
    /// As [`Settings::validate`].
    pub(crate) fn validate_log(&self) -> Result<(), SettingsError> {
        let mut found = Found { settings: self, problems: Vec::new() };
        found.names();
        // A command is no role: the local log is its own while it runs.
        found.log(Role::All);
        found.problems.sort();
        SettingsError::from_problems(found.problems)
    }
}

pub(super) struct Found<'a> {
    pub(super) settings: &'a Settings,
    problems: Vec<Problem>,
}

impl Found<'_> {
    pub(super) fn check(&mut self, holds: bool, key: &str, message: impl FnOnce() -> String) {
        if !holds {
            let place = self.settings.origins.get(key).cloned().unwrap_or(Place::Default);
            self.problems.push(Problem { place, message: format!("{key} {}", message()) });
        }
    }

    pub(super) fn between<N: Copy + PartialOrd + std::fmt::Display>(
        &mut self,
        key: &str,
        value: N,
        least: N,
        most: N,
    ) {
        let holds = value >= least && value <= most;
        self.check(holds, key, || format!("is {value}: set it to {least}..={most}"));
    }

    pub(super) fn lasting(&mut self, key: &str, value: Duration, most: Duration) {
        let shown = humantime::format_duration(most);
        self.check(!value.is_zero(), key, || format!("is zero: set it to more than 0s, at most {shown}"));
        self.check(value <= most, key, || {
            format!("is {}: set it to at most {shown}", humantime::format_duration(value))
        });
    }

    fn names(&mut self) {
        let Settings { topic_prefix, region, pipeline, deliver, .. } = self.settings;
        let topic_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        self.check(topic_prefix.len() <= PREFIX_MAX_CHARS && topic_prefix.chars().all(topic_char), "topic_prefix", || {
            format!("is not usable in a topic's name: use at most {PREFIX_MAX_CHARS} of letters, digits, '.', '_' and '-'")
        });
        let name_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        let name_ok = !pipeline.name.is_empty()
            && pipeline.name.len() <= PIPELINE_NAME_MAX_CHARS
            && pipeline.name.chars().all(name_char);
        self.check(name_ok, "pipeline.name", || {
            format!("is '{}': use 1 to {PIPELINE_NAME_MAX_CHARS} of a-z, 0-9, '_' and '-'", pipeline.name)
        });
        let region_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let region_ok = region.len() <= REGION_MAX_CHARS && region.chars().all(region_char);
        self.check(region_ok, "region", || {
            format!(
                "is no name of a region: use at most {REGION_MAX_CHARS} of letters, digits, '.', '_' and '-'"
            )
        });
        self.between("pipeline.partitions", pipeline.partitions, 1, PARTITIONS_MAX);
        let retention = &pipeline.retention;
        let most = Duration::from_secs(10 * 365 * 86_400);
        self.lasting("pipeline.retention.events", retention.events, most);
        self.lasting("pipeline.retention.dead_letters", retention.dead_letters, most);
        self.lasting("pipeline.retention.attempts", retention.attempts, most);
        self.check(retention.deliveries > deliver.delivery_deadline, "pipeline.retention.deliveries", || {
            format!(
                "is {}: set it above deliver.delivery_deadline ({}), or mail is gone before it was given up",
                humantime::format_duration(retention.deliveries),
                humantime::format_duration(deliver.delivery_deadline)
            )
        });
    }

    fn log(&mut self, role: Role) {
        let log = &self.settings.log;
        match log.kind {
            LogKind::Kafka => self.kafka(role),
            LogKind::Local => {
                self.check(!role.is_alone(), "log.kind", || {
                    "is \"local\", which one process uses: set it to \"kafka\", or start `mailrail all`"
                        .to_owned()
                });
                self.check(!log.path.as_os_str().is_empty(), "log.path", || {
                    "is empty: name a folder".to_owned()
                });
            }
        }
    }

    fn kafka(&mut self, role: Role) {
        let Settings { log, deliver, .. } = self.settings;
        let kafka = &log.kafka;
        self.check(!kafka.brokers.is_empty(), "log.kafka.brokers", || {
            "is empty: name at least one broker as \"host:port\"".to_owned()
        });
        for (at, broker) in kafka.brokers.iter().enumerate() {
            let good = broker
                .rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
            // Not echoed: a mistyped one may hold a password.
            self.check(good && !broker.contains('@'), "log.kafka.brokers", || {
                format!(
                    "number {} is no address: write it as \"host:port\", without user and password",
                    at + 1
                )
            });
        }
        self.check(kafka.min_insync_replicas >= 1, "log.kafka.min_insync_replicas", || {
            "is 0: set it to 1 or more".to_owned()
        });
        self.check(kafka.replication_factor >= 1, "log.kafka.replication_factor", || {
            "is 0: set it to 1 or more".to_owned()
        });
        self.check(kafka.min_insync_replicas <= kafka.replication_factor, "log.kafka.min_insync_replicas", || {
            format!(
                "is {}, more than log.kafka.replication_factor ({}): no append could ever succeed; lower it",
                kafka.min_insync_replicas, kafka.replication_factor
            )
        });
        self.lasting("log.kafka.delivery_timeout", kafka.delivery_timeout, Duration::from_secs(300));
        self.lasting("log.kafka.session_timeout", kafka.session_timeout, Duration::from_secs(1800));
        let least = deliver.attempt_timeout.saturating_add(LEASE_MARGIN);
        self.check(!role.delivers() || kafka.session_timeout >= least, "log.kafka.session_timeout", || {
            format!(
                "is {}: set it to at least {} (deliver.attempt_timeout and {} of lease), or lower deliver.attempt_timeout",
                humantime::format_duration(kafka.session_timeout),
                humantime::format_duration(least),
                humantime::format_duration(LEASE_MARGIN)
            )
        });
        if let Some((name, problem)) = sasl_problem(&kafka.properties) {
            self.check(false, &format!("log.kafka.properties.{name}"), || problem);
        }
        for name in kafka.properties.keys() {
            let own = OWN_PROPERTIES.iter().find(|(own, _)| own == name);
            self.check(own.is_none(), &format!("log.kafka.properties.{name}"), || {
                format!("cannot be set: {}", own.map_or("remove it", |(_, remedy)| remedy))
            });
        }
        if self.problems.is_empty() {
            self.kafka_clients();
        }
    }

    fn doors(&mut self, role: Role) {
        let Settings { ingest, control, admin, deliver, .. } = self.settings;
        self.between("ingest.body_limit_bytes", ingest.body_limit_bytes, 1, BODY_LIMIT_MAX_BYTES);
        self.between("ingest.batch_events_max", ingest.batch_events_max, 1, BATCH_EVENTS_MAX);
        self.check(deliver.window_bytes >= ingest.body_limit_bytes, "deliver.window_bytes", || {
            format!(
                "is {} bytes, less than ingest.body_limit_bytes ({}): an event that large could not be read; raise it",
                deliver.window_bytes, ingest.body_limit_bytes
            )
        });
        if matches!(role, Role::Control | Role::All) {
            let operator = control.token.as_ref().map(|token| Operator::new("admin", token.expose()));
            self.check(operator.is_some(), "control.token_file", || {
                format!("is not set: set {ADMIN_TOKEN_ENV} or name a file that holds the token")
            });
            if let Some(Err(error)) = operator {
                self.check(false, "control.token_file", || format!("gives no good token: {error}"));
            }
        }
        let ports: &[(&str, SocketAddr)] = match role {
            Role::Ingest => &[("admin.listen", admin.listen), ("ingest.listen", ingest.listen)],
            Role::Control => &[("admin.listen", admin.listen), ("control.listen", control.listen)],
            Role::Match | Role::Deliver => &[("admin.listen", admin.listen)],
            Role::All | Role::Dev => &[
                ("admin.listen", admin.listen),
                ("control.listen", control.listen),
                ("ingest.listen", ingest.listen),
            ],
        };
        let mut taken: BTreeMap<SocketAddr, &str> = BTreeMap::new();
        for (key, address) in ports.iter().filter(|(_, address)| address.port() != 0) {
            if let Some(other) = taken.insert(*address, key) {
                self.check(false, key, || format!("is {address}, as is {other}: give each its own port"));
            }
        }
    }

    fn looks(&mut self) {
        let control = &self.settings.control;
        self.between(
            "control.scan_records_max",
            control.scan_records_max,
            LOOK_RECORDS_MIN,
            SCAN_RECORDS_MAX,
        );
        self.between("control.why_records_max", control.why_records_max, LOOK_RECORDS_MIN, WHY_RECORDS_MAX);
        self.lasting("control.why_timeout", control.why_timeout, WHY_TIMEOUT_MAX);
    }

    fn deliver(&mut self) {
        let deliver = &self.settings.deliver;
        self.between("deliver.attempts_in_flight_max", deliver.attempts_in_flight_max, 1, IN_FLIGHT_MAX);
        self.between("deliver.window_records", deliver.window_records, 1, WINDOW_RECORDS_MAX);
        self.lasting("deliver.attempt_timeout", deliver.attempt_timeout, ATTEMPT_TIMEOUT_MAX);
        self.lasting("deliver.commit_interval", deliver.commit_interval, COMMIT_INTERVAL_MAX);
        self.lasting("deliver.drain", deliver.drain, DRAIN_MAX);
        self.lasting(
            "deliver.delivery_deadline",
            deliver.delivery_deadline,
            Duration::from_secs(60 * 86_400),
        );
        let delays = &deliver.retry.delays;
        if let Err(error) = RetrySchedule::list(delays.clone())
            && !delays.is_empty()
        {
            self.check(false, "deliver.retry.delays", || format!("is no schedule: {error}"));
        }
        if let Some(at) = delays.iter().position(Duration::is_zero) {
            self.check(false, "deliver.retry.delays", || {
                format!(
                    "has no wait at number {}: an endpoint that fails needs one; set it to more than 0s",
                    at + 1
                )
            });
        }
        let total: Duration = delays.iter().fold(Duration::ZERO, |sum, d| sum.saturating_add(*d));
        self.check(total <= deliver.delivery_deadline, "deliver.retry.delays", || {
            format!(
                "add up to {}, more than deliver.delivery_deadline ({}): the last attempts would never be made",
                humantime::format_duration(total),
                humantime::format_duration(deliver.delivery_deadline)
            )
        });
    }
}
