//! `GET /v1/status`: what waits, per pipeline. Unknown is said, with the reason, and never shown as zero.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use mailrail_log::{Bounds, Log, LogError};
use serde::{Deserialize, Serialize};

use crate::config::{Pipeline, Topic};
use crate::parked::ParkedStatus;
use crate::respond::json;
use crate::service::Shared;

/// Questions to the log at once: a topic of many partitions answers soon, and a status never floods the brokers.
pub(crate) const QUESTIONS_AT_ONCE: usize = 16;

/// The answer of `GET /v1/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Each pipeline.
    pub pipelines: Vec<PipelineStatus>,
    /// This process's view of the set-up.
    pub store: StoreStatus,
}

/// This process's view of the set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Position of the change feed.
    pub seq: u64,
    /// Whether the last read of the feed succeeded.
    pub current: bool,
}

/// What waits in a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineStatus {
    /// Its name.
    pub pipeline: String,
    /// Events on their way to match.
    pub events: QueueStatus,
    /// Deliveries on their way to their endpoints, those that are parked aside.
    pub deliveries: QueueStatus,
    /// Deliveries that wait in the journal for a time, a limit or their endpoint.
    #[serde(default)]
    pub parked: ParkedStatus,
    /// Deliveries that were given up and are still kept.
    pub dead_letters: TopicStatus,
    /// Attempts that are still kept.
    pub attempts: TopicStatus,
}

/// A topic that a group works off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// The topic.
    pub topic: String,
    /// Its number of partitions.
    pub partitions: u32,
    /// Records that the group has not committed, summed over the partitions; `null` when one of them did not answer.
    pub waiting: Option<u64>,
    /// Why it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A topic that nobody works off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicStatus {
    /// The topic.
    pub topic: String,
    /// Its number of partitions.
    pub partitions: u32,
    /// Records in it, summed over the partitions; `null` when one of them did not answer.
    pub records: Option<u64>,
    /// Why it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /v1/status`.
pub(crate) async fn status(State(shared): State<Arc<Shared>>) -> Response {
    let ask = Ask { log: shared.log.as_ref(), timeout: shared.config.log_timeout };
    let (parked, pipelines) = tokio::join!(
        shared.parked.now(&shared),
        futures::future::join_all(shared.config.pipelines.iter().map(|of| ask.pipeline(of)))
    );
    let pipelines =
        pipelines.into_iter().zip(parked).map(|(of, parked)| PipelineStatus { parked, ..of }).collect();
    let store = StoreStatus { seq: shared.directory.seq(), current: shared.directory.is_current() };
    json(&Status { pipelines, store })
}

/// Questions to the log.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) log: &'a dyn Log,
    /// Bounds each question.
    pub(crate) timeout: Duration,
}

impl Ask<'_> {
    async fn pipeline(self, of: &Pipeline) -> PipelineStatus {
        let (events, deliveries, dead_letters, attempts) = tokio::join!(
            self.queue(&of.events, &of.match_group),
            self.queue(&of.deliveries, &of.deliver_group),
            self.topic(&of.dead_letters),
            self.topic(&of.attempts),
        );
        let parked = ParkedStatus::default();
        PipelineStatus { pipeline: of.name.clone(), events, deliveries, parked, dead_letters, attempts }
    }

    async fn queue(self, topic: &Topic, group: &str) -> QueueStatus {
        let partition = async |partition| {
            // In this order: the end that is read after a position is never below it.
            let committed = self.answer(self.log.committed(group, &topic.name, partition)).await?;
            let bounds = self.bounds(&topic.name, partition).await?;
            waiting(bounds, committed.map(|c| c.offset)).map_err(|why| format!("partition {partition} {why}"))
        };
        let (waiting, error) = sum(stream::iter(0..topic.partitions).map(partition)).await;
        QueueStatus { topic: topic.name.clone(), partitions: topic.partitions, waiting, error }
    }

    async fn topic(self, topic: &Topic) -> TopicStatus {
        let partition = async |partition| {
            let bounds = self.bounds(&topic.name, partition).await?;
            Ok(bounds.high.saturating_sub(bounds.low))
        };
        let (records, error) = sum(stream::iter(0..topic.partitions).map(partition)).await;
        TopicStatus { topic: topic.name.clone(), partitions: topic.partitions, records, error }
    }

    pub(crate) async fn bounds(self, topic: &str, partition: u32) -> Result<Bounds, String> {
        self.answer(self.log.bounds(topic, partition)).await
    }

    pub(crate) async fn answer<T>(
        self,
        answer: impl Future<Output = Result<T, LogError>>,
    ) -> Result<T, String> {
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the log did not answer within {:?}", self.timeout)),
        }
    }
}

/// Sum over the partitions, or the first reason why there is none.
async fn sum<F>(partitions: impl stream::Stream<Item = F>) -> (Option<u64>, Option<String>)
where
    F: Future<Output = Result<u64, String>>,
{
    let total = partitions
        .buffer_unordered(QUESTIONS_AT_ONCE)
        .try_fold(0u64, async |sum, one| Ok(sum.saturating_add(one)))
        .await;
    match total {
        Ok(total) => (Some(total), None),
        Err(error) => (None, Some(error)),
    }
}

/// Records that are not committed; a group that never committed has all of them before it. Or why the partition stands
/// still: its group was committed where nothing is any more, and never skips by itself.
pub(crate) fn waiting(bounds: Bounds, committed: Option<u64>) -> Result<u64, String> {
    let Bounds { low, high } = bounds;
    let committed = committed.unwrap_or(low);
    if committed < low {
        return Err(format!(
            "is stopped: records {committed} to {} were deleted before they were worked off; see 'A partition stopped' in \
             the documentation",
            low - 1
        ));
    }
    high.checked_sub(committed).ok_or_else(|| {
        format!("is stopped: {committed} is committed, above its end at {high}; was the topic re-created?")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_what_is_not_committed() {
        let bounds = Bounds { low: 10, high: 30 };
        assert_eq!(waiting(bounds, None), Ok(20));
        assert_eq!(waiting(bounds, Some(10)), Ok(20));
        assert_eq!(waiting(bounds, Some(25)), Ok(5));
        assert_eq!(waiting(bounds, Some(30)), Ok(0));
        assert_eq!(waiting(Bounds { low: 7, high: 7 }, None), Ok(0));
    }

    #[test]
    fn a_position_where_nothing_is_any_more_is_an_error_and_not_a_number() {
        let bounds = Bounds { low: 10, high: 30 };
        let gone = waiting(bounds, Some(3)).expect_err("records are gone");
        assert!(gone.contains("is stopped: records 3 to 9 were deleted"), "{gone}");
        let gone = waiting(Bounds { low: 10, high: 10 }, Some(0)).expect_err("all of them");
        assert!(gone.contains("records 0 to 9"), "{gone}");
        assert!(waiting(bounds, Some(31)).expect_err("another topic").contains("above its end at 30"));
    }
}
