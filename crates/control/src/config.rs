//! The settings of the control API: who may use it, which pipelines it reports on, and every limit.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use subtle::{Choice, ConstantTimeEq};

use crate::dead_letters::DeadLetterOptions;
use crate::setup_file::{TOKEN_MAX_CHARS, TOKEN_MIN_CHARS};

/// Settings of [`crate::Service`]. [`Config::new`] gives the defaults written at each field.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the binary binds the listener that [`crate::Service::run`] gets. Default 127.0.0.1:8081.
    pub listen: SocketAddr,
    /// Who may use the API. Never empty.
    pub operators: Vec<Operator>,
    /// The pipelines that `status` reports on.
    pub pipelines: Vec<Pipeline>,
    /// Most bytes of a request body. Default 8 MiB: a set-up of some ten thousand subscriptions.
    pub body_limit_bytes: usize,
    /// Most connections at once; the next one waits in the listener's backlog. Default 128: people and scripts, no producers.
    pub connections_max: usize,
    /// Longest time for the headers of a request, and longest idle time between two. Default 10 s.
    pub header_timeout: Duration,
    /// Longest time for a request from its headers to its answer. Default 30 s.
    pub request_timeout: Duration,
    /// Longest wait for this process's own view to show a change before it is answered. Default 2 s, eight polls of the
    /// change feed: later requests of the same caller then see the change; a slower view follows by itself.
    pub visible_timeout: Duration,
    /// Longest time for one answer of the log in `status`. Default 5 s.
    pub log_timeout: Duration,
    /// Most records that one look at the mailboxes reads, over all partitions of a queue. Default 200,000: some seconds of
    /// a broker's attention, and at most as many keys in memory.
    pub scan_records_max: u64,
    /// Longest time of one look at the mailboxes. Default 10 s, so that a request that waits for the look before it still
    /// ends within [`Config::request_timeout`].
    pub scan_timeout: Duration,
    /// Most records that are looked at to say why a delivery waits, over all topics and partitions. Default 1,500,000; where
    /// its mailbox is named, all of them are its partition's.
    pub why_records_max: u64,
    /// Longest time of that look. Default 15 s, half of [`Config::request_timeout`].
    pub why_timeout: Duration,
    /// How dead letters are looked at and put back. Default as [`DeadLetterOptions::new`] with a lifetime of 4 days.
    pub dead_letters: DeadLetterOptions,
    /// Longest time that requests have to end after the stop. Default 20 s, which the chart's grace period counts with.
    pub drain_timeout: Duration,
}

impl Config {
    /// The defaults.
    #[must_use]
    pub fn new(operators: Vec<Operator>, pipelines: Vec<Pipeline>) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)),
            operators,
            pipelines,
            body_limit_bytes: 8 * 1024 * 1024,
            connections_max: 128,
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            visible_timeout: Duration::from_secs(2),
            log_timeout: Duration::from_secs(5),
            scan_records_max: 200_000,
            scan_timeout: Duration::from_secs(10),
            why_records_max: 1_500_000,
            why_timeout: Duration::from_secs(15),
            dead_letters: DeadLetterOptions::new(Duration::from_hours(96)),
            drain_timeout: Duration::from_secs(20),
        }
    }

    /// What of it connections are held to. They may be as old as their callers like, and a request may take the whole
    /// drain to end.
    pub(crate) fn of_connections(&self) -> mailrail_serve::Limits {
        mailrail_serve::Limits {
            name: "control",
            connections_max: self.connections_max,
            headers_max: mailrail_serve::HEADERS_MAX,
            header_bytes_max: mailrail_serve::HEADER_BYTES_MAX,
            header_timeout: self.header_timeout,
            age_max: Duration::MAX,
            end_grace: Duration::MAX,
            drain_timeout: self.drain_timeout,
        }
    }
}

/// Someone who may use the API, by a bearer token. Its name stands in the audit log.
#[derive(Clone)]
pub struct Operator {
    name: String,
    token: String,
}

/// Why a token cannot be an operator's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token of operator '{0}' is not usable: use {TOKEN_MIN_CHARS} to {TOKEN_MAX_CHARS} visible ASCII characters, \
     for example the output of 'openssl rand -hex 32'"
)]
pub struct OperatorError(String);

impl Operator {
    /// An operator called `name`.
    ///
    /// # Errors
    /// [`OperatorError`] when the token could be guessed or cannot stand in a header.
    pub fn new(name: &str, token: &str) -> Result<Self, OperatorError> {
        let usable = (TOKEN_MIN_CHARS..=TOKEN_MAX_CHARS).contains(&token.len())
            && token.bytes().all(|b| b.is_ascii_graphic());
        if !usable {
            return Err(OperatorError(name.to_owned()));
        }
        Ok(Operator { name: name.to_owned(), token: token.to_owned() })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is the token, in a time that depends on lengths only.
    pub(crate) fn has(&self, token: &str) -> Choice {
        self.token.as_bytes().ct_eq(token.as_bytes())
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The topics and groups of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// Events on their way to match.
    pub events: Topic,
    /// Deliveries on their way to deliver.
    pub deliveries: Topic,
    /// Deliveries that wait, parked by deliver.
    pub journal: Topic,
    /// Deliveries that were given up.
    pub dead_letters: Topic,
    /// Records that could not be read.
    pub quarantine: Topic,
    /// What was redriven: the ledger, always one partition.
    pub redrives: Topic,
    /// What happened.
    pub attempts: Topic,
    /// The group that reads events.
    pub match_group: String,
    /// The group that reads deliveries.
    pub deliver_group: String,
}

/// A topic and its pinned number of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its number of partitions.
    pub partitions: u32,
}

impl Pipeline {
    /// A pipeline whose topics and groups are named as everywhere in mailrail, all with the same number of partitions.
    #[must_use]
    pub fn named(prefix: &str, name: &str, partitions: u32) -> Self {
        let topic = |kind: &str| Topic { name: format!("{prefix}{kind}.{name}"), partitions };
        Pipeline {
            name: name.to_owned(),
            events: topic("events"),
            deliveries: topic("deliveries"),
            journal: topic("journal"),
            dead_letters: topic("dead-letters"),
            quarantine: topic("quarantine"),
            redrives: Topic { partitions: 1, ..topic("redrives") },
            attempts: topic("attempts"),
            match_group: format!("{prefix}match.{name}"),
            deliver_group: format!("{prefix}deliver.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n16_an_operator_token_is_strong_and_never_printed() {
        for bad in
            ["", "short", &"x".repeat(31), &format!("{} ", "x".repeat(40)), &"é".repeat(40), &"x".repeat(513)]
        {
            assert!(Operator::new("ops", bad).is_err(), "{bad:?}");
        }
        let token = "canary".repeat(8);
        let operator = Operator::new("ops", &token).expect("strong");
        assert!(!format!("{operator:?}").contains("canary"));
        assert!(bool::from(operator.has(&token)));
        assert!(!bool::from(operator.has(&token[1..])));
        assert!(!bool::from(operator.has("")));
    }
}
