//! The committing thread of a member: one synchronous commit at a time, what waits goes out together.

use std::collections::BTreeMap;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset as Place, TopicPartitionList};
use tokio::sync::mpsc;

use super::client::unavailable;
use super::membership::{COMMITS_MAX, Request, Shared};
use super::rebalance::Callbacks;
use crate::{Committed, LogError};

/// The committing thread: what waits goes out together, the latest of each partition.
pub(super) fn commit_all(
    shared: &Shared,
    consumer: &BaseConsumer<Callbacks>,
    mut requests: mpsc::Receiver<Request>,
) {
    while let Some(first) = requests.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < COMMITS_MAX
            && let Ok(request) = requests.try_recv()
        {
            batch.push(request);
        }
        let mut merged = BTreeMap::new();
        let mut waiting = Vec::new();
        for request in batch {
            // Checked here, after the wait: the partition may have left since.
            if let Err(error) = shared.check(&request.commits) {
                let _ = request.reply.send(Err(error));
                continue;
            }
            merged.extend(request.commits.into_iter().map(|(partition, _, it)| (partition, it)));
            waiting.push(request.reply);
        }
        if merged.is_empty() {
            continue;
        }
        let outcome = commit(shared, consumer, &merged);
        for reply in waiting {
            // A caller that went away does not need its answer.
            let _ = reply.send(outcome.clone());
        }
    }
}

fn commit(
    shared: &Shared,
    consumer: &BaseConsumer<Callbacks>,
    commits: &BTreeMap<u32, Committed>,
) -> Result<(), LogError> {
    // A list of its own for each commit: setting metadata twice on one leaks the first.
    let mut list = TopicPartitionList::with_capacity(commits.len());
    for (partition, committed) in commits {
        let number = i32::try_from(*partition).map_err(|_| LogError::NotOwned { partition: *partition })?;
        let offset = Place::Offset(i64::try_from(committed.offset).unwrap_or(i64::MAX));
        let mut element = list.add_partition(&shared.topic, number);
        element.set_offset(offset).map_err(unavailable)?;
        if !committed.metadata.is_empty() {
            element.set_metadata(&committed.metadata);
        }
    }
    let committed = consumer.commit(&list, CommitMode::Sync);
    if committed.as_ref().is_err_and(|it| it.rdkafka_error_code() == Some(RDKafkaErrorCode::FencedInstanceId))
    {
        // The poll thread hears of it too, but may wait for an owner just now.
        shared.fence();
    }
    committed.map_err(|error| match error.rdkafka_error_code() {
        // The coordinator does not know us any more, or knows a later us.
        Some(
            RDKafkaErrorCode::UnknownMemberId
            | RDKafkaErrorCode::IllegalGeneration
            | RDKafkaErrorCode::FencedInstanceId
            | RDKafkaErrorCode::StaleMemberEpoch,
        ) => LogError::NotOwned { partition: commits.keys().next().copied().unwrap_or(0) },
        Some(RDKafkaErrorCode::RebalanceInProgress) => LogError::Rebalancing,
        _ => unavailable(error),
    })
}
