//! Rebalances of a member: callbacks on its poll thread, which may wait there for the owner.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Offset as Place, TopicPartitionList};
use tokio::sync::oneshot;

use super::brokers::KnownBrokers;
use super::client::lines_and_reports;
use super::membership::{LAST_COMMIT_WAIT, RELEASE_LOOK, Request, Shared};
use crate::size::check_metadata;
use crate::{Committed, GroupEvent, LogError, Release};

/// Callbacks of a member's client; they run on the poll thread.
pub(super) struct Callbacks {
    shared: Arc<Shared>,
    brokers: KnownBrokers,
    /// Another client took its place: what the group may still say to it concerns nobody.
    pub(super) retired: AtomicBool,
}

impl ClientContext for Callbacks {
    lines_and_reports!();

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AutoOffsetReset) {
            tracing::warn!(target: "mailrail_log::kafka", group = self.shared.group, %error, reason, "group member error");
        }
    }
}

impl ConsumerContext for Callbacks {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, tpl: &mut TopicPartitionList) {
        let partitions: Vec<u32> =
            tpl.elements().iter().filter_map(|it| u32::try_from(it.partition()).ok()).collect();
        let is_retired = self.retired.load(Ordering::Acquire);
        let outcome = if err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assigned(consumer, tpl, partitions)
        } else {
            if is_retired {
                // Everything was given up before.
            } else if consumer.assignment_lost() {
                self.shared.lose(&partitions);
            } else {
                self.revoked(partitions);
            }
            consumer.incremental_unassign(tpl)
        };
        if let Err(error) = outcome
            && !is_retired
        {
            tracing::error!(target: "mailrail_log::kafka", group = self.shared.group, %error, "a rebalance failed; the member leaves");
            self.shared.stop(true);
        }
    }
}

impl Callbacks {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, brokers: KnownBrokers::default(), retired: AtomicBool::new(false) }
    }

    /// The client cannot reach the group any more.
    pub(super) fn knows_no_broker(&self) -> bool {
        self.brokers.are_forgotten()
    }

    /// From now on the client owns nothing.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

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
        if self.shared.leaving.load(Ordering::Acquire) || self.retired.load(Ordering::Acquire) {
            return Ok(());
        }
        let sequence = {
            let mut ownership = self.shared.ownership();
            ownership.sequence += 1;
            let sequence = ownership.sequence;
            ownership.owned.extend(partitions.iter().map(|it| (*it, sequence)));
            sequence
        };
        self.shared.tell(GroupEvent::Assigned { sequence, partitions });
        Ok(())
    }

    /// Asks for the release and commits it; ours until then, not ours afterwards, whatever happened.
    fn revoked(&self, mut partitions: Vec<u32>) {
        partitions.retain(|it| self.shared.ownership().owned.contains_key(it));
        if partitions.is_empty() {
            return;
        }
        if !self.shared.at_once.load(Ordering::Acquire) {
            let commits = self.released(&partitions);
            self.commit_last(&partitions, commits);
        }
        self.shared.disown(&partitions);
    }

    fn released(&self, partitions: &[u32]) -> Vec<(u32, Committed)> {
        let (release, mut released) = Release::new();
        if !self.shared.tell(GroupEvent::Revoked { partitions: partitions.to_vec(), release }) {
            return Vec::new();
        }
        let deadline = Instant::now() + self.shared.release_wait;
        loop {
            match released.try_recv() {
                Ok(commits) => return commits,
                Err(oneshot::error::TryRecvError::Closed) => return Vec::new(),
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            if Instant::now() > deadline || self.shared.at_once.load(Ordering::Acquire) {
                tracing::warn!(target: "mailrail_log::kafka", group = self.shared.group, "partitions were not released in time");
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
            let request = Request { commits: self.shared.claim(commits)?, reply };
            let commits = self.shared.commits.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
            tracing::warn!(target: "mailrail_log::kafka", group = self.shared.group, %error, "the last commits of released partitions were not taken");
        }
    }
}
