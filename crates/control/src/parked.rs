//! What is parked, for `GET /v1/status`: the journals alone, which is a quick look.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::config::Pipeline;
use crate::mailboxes::now;
use crate::service::Shared;
use crate::status::Ask;
use crate::waiting::{Found, LookLimits, Subject, look};

/// Longest look: a status is waited for.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// Until this age what was found is answered again, so that many who ask cost no more than one.
const FRESH: Duration = Duration::from_secs(2);
/// Of a mailbox whose first delivery has its turn.
const IN_TURN: &str = "in_turn";

/// Deliveries that wait for a time, a limit or their endpoint, in the journal and not among those that were read last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ParkedStatus {
    /// The topic.
    pub topic: String,
    /// Its number of partitions.
    pub partitions: u32,
    /// Deliveries that are parked; `null` when not every partition could be looked at. Those that were parked since the last commit are
    /// among the deliveries that wait, too.
    pub records: Option<u64>,
    /// Mailboxes with something parked; `null` when not known.
    pub mailboxes: Option<u64>,
    /// How many of these mailboxes wait for what: the reason of their first delivery, such as `backoff` or `paused`; `in_turn` where that
    /// waits for nothing.
    pub held: BTreeMap<String, u64>,
    /// Seconds since the oldest of it was parked; at least that, where it is in many mailboxes of a partition. `null` when nothing is
    /// parked, or not known.
    pub oldest_seconds: Option<u64>,
    /// Whether a limit was reached before all was looked at: numbers are lower bounds then.
    pub truncated: bool,
    /// Why it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was found last, of each pipeline.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<Option<(Instant, Vec<ParkedStatus>)>>);

impl Parked {
    /// What is parked in each pipeline, as of a few seconds ago at most. One look at a time; whoever comes meanwhile gets what it finds.
    pub(crate) async fn now(&self, shared: &Shared) -> Vec<ParkedStatus> {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < FRESH
        {
            return found.clone();
        }
        let looks = shared.config.pipelines.iter().map(|of| of_pipeline(shared, of));
        let found = futures::future::join_all(looks).await;
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

async fn of_pipeline(shared: &Shared, of: &Pipeline) -> ParkedStatus {
    let config = &shared.config;
    let ask = Ask { log: shared.log.as_ref(), timeout: config.log_timeout };
    let subject = Subject { topic: &of.deliveries, group: &of.deliver_group, journal: Some(&of.journal) };
    let limits = LookLimits { records_max: config.scan_records_max, within: LOOK_WITHIN, parked_only: true };
    let Found { mailboxes, truncated, error, .. } = look(ask, &[subject], limits).await;
    let mut status = ParkedStatus {
        topic: of.journal.name.clone(),
        partitions: of.journal.partitions,
        ..Default::default()
    };
    if error.is_some() {
        status.error = error;
        return status;
    }
    for waiting in mailboxes.values() {
        let reason = waiting.hold.map_or(IN_TURN, |hold| hold.reason.code());
        *status.held.entry(reason.to_owned()).or_default() += 1;
    }
    status.records = Some(mailboxes.values().fold(0, |sum, waiting| sum.saturating_add(waiting.parked)));
    status.mailboxes = Some(mailboxes.len() as u64);
    let oldest = mailboxes.values().map(|waiting| waiting.oldest).min();
    status.oldest_seconds = oldest.map(|oldest| now().since(oldest).as_secs());
    status.truncated = truncated;
    status
}
