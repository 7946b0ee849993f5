//! Rebalances of a member: callbacks on its poll thread, which may wait there for the owner.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Offset as Place, TopicPartitionList};
use tokio::sync::oneshot;

use super::client::log;
use super::membership::{LAST_COMMIT_WAIT, RELEASE_LOOK, Request, Shared};
use crate::size::check_metadata;
use crate::{Committed, GroupEvent, LogError, Release};

/// Callbacks of the member's client; they run on the poll thread.
pub(super) struct Callbacks(pub(super) Arc<Shared>);

impl ClientContext for Callbacks {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, log_message: &str) {
        log(level, fac, log_message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AutoOffsetReset) {
            tracing::warn!(target: "mailrail_log::kafka", group = self.0.group, %error, reason, "group member error");
        }
    }
}

impl ConsumerContext for Callbacks {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, tpl: &mut TopicPartitionList) {
        let partitions: Vec<u32> =
            tpl.elements().iter().filter_map(|it| u32::try_from(it.partition()).ok()).collect();
        let outcome = if err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assigned(consumer, tpl, partitions)
        } else {
            if consumer.assignment_lost() {
                self.lost(&partitions);
            } else {
                self.revoked(partitions);
            }
            consumer.incremental_unassign(tpl)
        };
        if let Err(error) = outcome {
            tracing::error!(target: "mailrail_log::kafka", group = self.0.group, %error, "a rebalance failed; the member leaves");
            self.0.stop(true);
        }
    }
}

impl Callbacks {
    fn assigned(
        &self,
        consumer: &BaseConsumer<Self>,
        tpl: &mut TopicPartitionList,
        partitions: Vec<u32>,
    ) -> Result<(), KafkaError> {
        // Any explicit offset: without one the client would ask for the committed one, which it does not need.
        tpl.set_all_offsets(Place::Offset(0))?;
        consumer.incremental_assign(tpl)?;
        if partitions.is_empty() {
            return Ok(());
        }
        consumer.pause(tpl)?;
        if self.0.leaving.load(Ordering::Acquire) {
            return Ok(());
        }
        let sequence = {
            let mut ownership = self.0.ownership();
            ownership.sequence += 1;
            let sequence = ownership.sequence;
            ownership.owned.extend(partitions.iter().map(|it| (*it, sequence)));
            sequence
        };
        self.0.tell(GroupEvent::Assigned { sequence, partitions });
        Ok(())
    }

    fn lost(&self, partitions: &[u32]) {
        let partitions = self.0.disown(partitions);
        if !partitions.is_empty() {
            self.0.tell(GroupEvent::Lost { partitions });
        }
    }

    /// Asks for the release and commits it; ours until then, not ours afterwards, whatever happened.
    fn revoked(&self, mut partitions: Vec<u32>) {
        partitions.retain(|it| self.0.ownership().owned.contains_key(it));
        if partitions.is_empty() {
            return;
        }
        if !self.0.at_once.load(Ordering::Acquire) {
            let commits = self.released(&partitions);
            self.commit_last(&partitions, commits);
        }
        self.0.disown(&partitions);
    }

    fn released(&self, partitions: &[u32]) -> Vec<(u32, Committed)> {
        let (release, mut released) = Release::new();
        if !self.0.tell(GroupEvent::Revoked { partitions: partitions.to_vec(), release }) {
            return Vec::new();
        }
        let deadline = Instant::now() + self.0.release_wait;
        loop {
            match released.try_recv() {
                Ok(commits) => return commits,
                Err(oneshot::error::TryRecvError::Closed) => return Vec::new(),
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            if Instant::now() > deadline || self.0.at_once.load(Ordering::Acquire) {
                tracing::warn!(target: "mailrail_log::kafka", group = self.0.group, "partitions were not released in time");
                return Vec::new();
            }
            std::thread::sleep(RELEASE_LOOK);
        }
    }

    fn commit_last(&self, partitions: &[u32], mut commits: Vec<(u32, Committed)>) {
        commits.retain(|(partition, _)| partitions.contains(partition));
        if commits.is_empty() {
            return;
        }
        let (reply, mut answer) = oneshot::channel();
        let queued = check_metadata(&commits).and_then(|()| {
            let request = Request { commits: self.0.claim(commits)?, reply };
            let commits = self.0.commits.lock().unwrap_or_else(PoisonError::into_inner).clone();
            commits
                .ok_or(LogError::Closed)?
                .try_send(request)
                .map_err(|_| LogError::Unavailable("commits are stuck".to_owned()))
        });
        let deadline = Instant::now() + LAST_COMMIT_WAIT;
        let outcome = loop {
            if let Err(error) = queued {
                break Err(error);
            }
            match answer.try_recv() {
                Ok(outcome) => break outcome,
                Err(oneshot::error::TryRecvError::Closed) => break Err(LogError::Closed),
                Err(oneshot::error::TryRecvError::Empty) if Instant::now() > deadline => {
                    break Err(LogError::Unavailable("no answer in time".to_owned()));
                }
                Err(oneshot::error::TryRecvError::Empty) => std::thread::sleep(RELEASE_LOOK),
            }
        };
        if let Err(error) = outcome {
            tracing::warn!(target: "mailrail_log::kafka", group = self.0.group, %error, "the last commits of released partitions were not taken");
        }
    }
}
