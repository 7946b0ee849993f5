//! Metrics of putting dead letters back.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::OutcomeLabels;
use super::register::{counter, family, gauge};

/// Every outcome of a letter that a replay met. All are there from the start: what first comes into being with its first letter has
/// never increased.
const OUTCOMES: [&str; 5] = ["put_back", "skipped", "failed", "undecided", "unreadable"];

/// Metrics of replays. Its default is shown nowhere.
#[derive(Debug, Clone, Default)]
pub struct ReplayMetrics {
    /// `mailrail_replay_unfinished`
    pub unfinished: Gauge,
    /// `mailrail_replay_running`
    pub running: Gauge,
    /// `mailrail_replay_rate_limit`
    pub rate_limit: Gauge,
    /// `mailrail_replay_looked_total`
    pub looked: Counter,
    /// `mailrail_replay_letters_total`
    pub letters: Family<OutcomeLabels, Counter>,
}

impl ReplayMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        let metrics = Self {
            unfinished: gauge(
                r,
                "unfinished",
                "Replays that are not over, as this process saw last: each control process shows the same ones",
            ),
            running: gauge(r, "running", "Replays that this process carries on now"),
            rate_limit: gauge(
                r,
                "rate_limit",
                "Letters a second that those may put back at most, as they were ordered",
            ),
            looked: counter(r, "looked", "Offsets of dead letters that replays have got past"),
            letters: family(
                r,
                "letters",
                "Dead letters that replays met: put_back, skipped (put back before), failed (they are gone, or the log does not take them), undecided (nobody can say whether they were put back) or unreadable",
            ),
        };
        for outcome in OUTCOMES {
            drop(metrics.letters.get_or_create(&OutcomeLabels { outcome }));
        }
        metrics
    }
}
