//! Dead letters: what was given up, and putting it back.
//!
//! The dead-letters topic is the truth; nothing else keeps an index of it, so every look is bounded and says how far it went.
//! What was put back is in a ledger, a topic of one partition. It is written before the deliveries are, so whoever carries a
//! replay on after a crash knows which deliveries to look for, and puts back the rest.
//!
//! All of it needs the log alone: the control API serves it, and the command line does the same without that API.

mod describe;
mod filter;
mod follow;
mod ledger;
mod letters;
mod replay;
pub(crate) mod routes;
mod scan;
mod shapes;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use mailrail_log::{Log, LogError};
use mailrail_telemetry::ReplayMetrics;
use thiserror::Error;
use tokio::sync::{Mutex, MutexGuard, Notify};

pub use replay::{RATE_DEFAULT, RATE_MAX};
pub use shapes::{
    AttemptFacts, FilterParts, LetterCount, LetterDetail, LetterFacts, LetterList, LetterMore, LetterSummary,
    Payload, QuarantineList, QuarantinedRecord, ReplayRequest, ReplayStatus, UnsentLetter,
};

use crate::config::Pipeline;
use follow::Follower;

/// Why dead letters could not be looked at or put back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The log did not answer.
    #[error("{0}")]
    Log(String),
    /// The ledger of redrives cannot be understood. Nothing is put back on a guess.
    #[error("{0}; use the version that wrote it, or a newer one")]
    Ledger(String),
    /// A part of the filter cannot be meant.
    #[error("{field}: {detail}")]
    Filter {
        /// Which part.
        field: &'static str,
        /// What to change.
        detail: String,
    },
    /// The rest of the request cannot be meant.
    #[error("{0}")]
    Request(String),
    /// There is no such letter, record or replay.
    #[error("there is no '{0}' here")]
    NotFound(String),
    /// It was not found, and there is more than was looked at.
    #[error("it is not among the newest {0} records; name its position, as lists show it")]
    LookedOnly(u64),
    /// As many replays wait as may.
    #[error("{0} replays are not over yet; wait for one, or cancel it")]
    TooManyReplays(usize),
    /// As many letters were put back as can be told apart.
    #[error("{0} letters were put back and are not deleted yet; what is deleted by its retention makes room")]
    LedgerFull(usize),
}

impl Trouble {
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over the error they just got")]
    fn of(error: LogError) -> Self {
        Trouble::Log(error.to_string())
    }

    /// The stable code, as the API answers it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Trouble::Log(_) => "log_unavailable",
            Trouble::Ledger(_) => "ledger_unreadable",
            Trouble::Filter { .. } => "invalid_filter",
            Trouble::Request(_) => "invalid_request",
            Trouble::NotFound(_) | Trouble::LookedOnly(_) => "not_found",
            Trouble::TooManyReplays(_) => "too_many_replays",
            Trouble::LedgerFull(_) => "ledger_full",
        }
    }
}

/// How far a look goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Records.
    pub(crate) records_max: u64,
    /// All of it.
    pub(crate) within: Duration,
    /// One answer of the log.
    pub(crate) answer: Duration,
}

/// How dead letters are looked at and put back. [`DeadLetterOptions::new`] gives the defaults written at each field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterOptions {
    /// How long a delivery that is put back may be tried: its new deadline.
    pub lifetime: Duration,
    /// After so long without a word of it, whoever carried a replay on is taken for dead. Longer than an append may take, by
    /// [`DeadLetterOptions::TAKEOVER_MARGIN`] or more; zero where one process alone can have the log. Default 45 s.
    pub takeover_after: Duration,
    /// Most records of one look. Default 200,000.
    pub records_max: u64,
    /// Most deliveries that are looked through for a batch that a process left in the middle. Default 1,000,000: what a partition
    /// gets in minutes, and not in days.
    pub searched_max: u64,
    /// Longest time of one look. Default 10 s.
    pub look_within: Duration,
    /// Longest time for one answer of the log. Default 5 s.
    pub log_timeout: Duration,
}

impl DeadLetterOptions {
    /// What [`DeadLetterOptions::takeover_after`] must have beyond the longest append: three times
    /// the longest time between two words of a runner.
    pub const TAKEOVER_MARGIN: Duration = Duration::from_secs(15);

    /// The defaults.
    #[must_use]
    pub const fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            takeover_after: Duration::from_secs(45),
            records_max: 200_000,
            searched_max: 1_000_000,
            look_within: Duration::from_secs(10),
            log_timeout: Duration::from_secs(5),
        }
    }
}

/// The dead letters of one pipeline. Clones are the same.
#[derive(Clone)]
pub struct DeadLetters {
    inner: Arc<Inner>,
}

struct Inner {
    log: Arc<dyn Log>,
    pipeline: Pipeline,
    options: DeadLetterOptions,
    limits: Limits,
    /// Names this process in the ledger; its runs have names that begin so.
    runner: String,
    follower: Mutex<Follower>,
    looking: Mutex<()>,
    /// A replay was ordered or cancelled here.
    wake: Notify,
    /// Steps that replays made here.
    steps: AtomicU64,
    metrics: ReplayMetrics,
    /// How many replays that are not over are in `metrics` from here.
    shown_unfinished: AtomicI64,
}

impl DeadLetters {
    /// Those of `pipeline` in `log`.
    #[must_use]
    pub fn new(log: Arc<dyn Log>, pipeline: Pipeline, options: DeadLetterOptions) -> Self {
        Self::measured(log, pipeline, options, ReplayMetrics::default())
    }

    /// As [`DeadLetters::new`]; `metrics` say how the replays go on that this carries on.
    #[must_use]
    pub fn measured(
        log: Arc<dyn Log>,
        pipeline: Pipeline,
        options: DeadLetterOptions,
        metrics: ReplayMetrics,
    ) -> Self {
        let DeadLetterOptions { records_max, look_within, log_timeout, .. } = options;
        let runner = format!("{}/{:016x}", std::process::id(), rand::random::<u64>());
        let follower =
            Follower::new(Arc::clone(&log), pipeline.redrives.name.clone(), log_timeout, runner.clone());
        Self {
            inner: Arc::new(Inner {
                log,
                pipeline,
                options,
                limits: Limits { records_max, within: look_within, answer: log_timeout },
                runner,
                follower: Mutex::new(follower),
                looking: Mutex::new(()),
                wake: Notify::new(),
                steps: AtomicU64::new(0),
                metrics,
                shown_unfinished: AtomicI64::new(0),
            }),
        }
    }

    /// Name of the pipeline.
    #[must_use]
    pub fn pipeline(&self) -> &str {
        &self.inner.pipeline.name
    }

    /// The ledger as it is now.
    async fn ledger(&self) -> Result<MutexGuard<'_, Follower>, Trouble> {
        let mut follower = self.inner.follower.lock().await;
        follower.catch_up().await?;
        Ok(follower)
    }

    /// The ledger, for answers that say as much without it.
    async fn ledger_or_not(&self) -> Option<MutexGuard<'_, Follower>> {
        match self.ledger().await {
            Ok(follower) => Some(follower),
            Err(trouble) => {
                tracing::warn!(%trouble, "what was redriven is not known");
                None
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
