//! Groups of the local log: one member, which owns everything until a test takes something away.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::schema::Topic;
use super::work::Work;
use super::{Inner, LocalLog};
use crate::size::check_metadata;
use crate::{Committed, GroupEvent, LogError, Membership, Release};

/// Events nobody took yet. One event comes per rebalance, and a rebalance waits for the one before.
const EVENTS_MAX: usize = 16;

/// How long a release is waited for. Longer than the longest attempt that can be set (300 s), which an owner that could not say its last
/// word lets end first: nobody else waits, for there is one member.
const RELEASE_WAIT: Duration = Duration::from_secs(360);

/// The members by group name.
#[derive(Default)]
pub(super) struct Groups(Mutex<HashMap<String, Arc<Member>>>);

impl Groups {
    fn find(&self, group: &str) -> Result<Arc<Member>, LogError> {
        let members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        members.get(group).cloned().ok_or_else(|| LogError::Config(format!("group {group} has no member")))
    }

    fn remove(&self, member: &Arc<Member>) {
        let mut members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if members.get(&member.group).is_some_and(|it| Arc::ptr_eq(it, member)) {
            members.remove(&member.group);
        }
    }

    /// Ends the event streams of all members.
    pub(super) fn close(&self) {
        let members = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for member in members.into_values() {
            member.close();
        }
    }
}

struct Ownership {
    owned: BTreeSet<u32>,
    sequence: u64,
}

struct Member {
    group: String,
    topic: Arc<Topic>,
    ownership: Mutex<Ownership>,
    sender: Mutex<Option<mpsc::Sender<GroupEvent>>>,
    events: tokio::sync::Mutex<mpsc::Receiver<GroupEvent>>,
    /// One rebalance at a time.
    rebalance: tokio::sync::Mutex<()>,
}

impl Member {
    fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    async fn tell(&self, event: GroupEvent) -> Result<(), LogError> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sender = sender.ok_or(LogError::Closed)?;
        sender.send(event).await.map_err(|_| LogError::Closed)
    }

    fn check_owned(&self, partitions: impl Iterator<Item = u32>) -> Result<(), LogError> {
        let ownership = self.ownership.lock().unwrap_or_else(PoisonError::into_inner);
        for partition in partitions {
            if !ownership.owned.contains(&partition) {
                return Err(LogError::NotOwned { partition });
            }
        }
        Ok(())
    }

    fn owned(&self) -> Vec<u32> {
        self.ownership.lock().unwrap_or_else(PoisonError::into_inner).owned.iter().copied().collect()
    }

    fn disown(&self, partitions: &[u32]) {
        let mut ownership = self.ownership.lock().unwrap_or_else(PoisonError::into_inner);
        for partition in partitions {
            ownership.owned.remove(partition);
        }
    }

    async fn assign(&self, partitions: Vec<u32>) -> Result<(), LogError> {
        let sequence = {
            let mut ownership = self.ownership.lock().unwrap_or_else(PoisonError::into_inner);
            ownership.owned.extend(&partitions);
            ownership.sequence += 1;
            ownership.sequence
        };
        self.tell(GroupEvent::Assigned { sequence, partitions }).await
    }

    /// Asks the owner to release, applies its last commits, and only then takes the partitions away.
    async fn revoke(&self, log: &Inner, partitions: Vec<u32>) -> Result<(), LogError> {
        self.check_owned(partitions.iter().copied())?;
        let (release, released) = Release::new();
        let ask = async {
            self.tell(GroupEvent::Revoked { partitions: partitions.clone(), release }).await.ok()?;
            released.await.ok()
        };
        let commits = tokio::time::timeout(RELEASE_WAIT, ask).await;
        let outcome = match commits {
            Ok(Some(mut commits)) => {
                commits.retain(|(partition, _)| partitions.contains(partition));
                self.commit(log, commits).await
            }
            Ok(None) => Ok(()),
            Err(_) => {
                tracing::warn!(group = self.group, ?partitions, "partitions were not released in time");
                Ok(())
            }
        };
        self.disown(&partitions);
        outcome
    }

    async fn commit(&self, log: &Inner, commits: Vec<(u32, Committed)>) -> Result<(), LogError> {
        check_metadata(&commits)?;
        self.check_owned(commits.iter().map(|(partition, _)| *partition))?;
        if commits.is_empty() {
            return Ok(());
        }
        let work = Work::Commit { group: self.group.clone(), topic: self.topic.name.clone(), commits };
        log.ask(work).await.map(drop)
    }
}

pub(super) struct LocalMembership {
    log: Arc<Inner>,
    member: Arc<Member>,
}

/// Makes the only member of a group and gives it everything.
pub(super) async fn join(
    log: &Arc<Inner>,
    group: &str,
    topic: Arc<Topic>,
) -> Result<LocalMembership, LogError> {
    let (sender, events) = mpsc::channel(EVENTS_MAX);
    let partitions: Vec<u32> = (0..topic.bounds.len() as u32).collect();
    let member = Arc::new(Member {
        group: group.to_owned(),
        topic,
        ownership: Mutex::new(Ownership { owned: BTreeSet::new(), sequence: 0 }),
        sender: Mutex::new(Some(sender)),
        events: tokio::sync::Mutex::new(events),
        rebalance: tokio::sync::Mutex::new(()),
    });
    {
        let mut members = log.groups.0.lock().unwrap_or_else(PoisonError::into_inner);
        if members.contains_key(group) {
            return Err(LogError::InUse(format!(
                "group {group} has a member already; the local log allows one a group"
            )));
        }
        members.insert(group.to_owned(), member.clone());
    }
    let membership = LocalMembership { log: log.clone(), member };
    membership.member.assign(partitions).await?;
    Ok(membership)
}

#[async_trait]
impl Membership for LocalMembership {
    async fn next(&self) -> Option<GroupEvent> {
        self.member.events.lock().await.recv().await
    }

    async fn commit(&self, commits: Vec<(u32, Committed)>) -> Result<(), LogError> {
        self.member.commit(&self.log, commits).await
    }

    async fn leave(&self) {
        let _turn = self.member.rebalance.lock().await;
        let owned = self.member.owned();
        if !owned.is_empty()
            && let Err(error) = self.member.revoke(&self.log, owned).await
        {
            tracing::warn!(%error, group = self.member.group, "the last commits of a leaving member were not taken");
        }
        self.member.close();
        self.log.groups.remove(&self.member);
    }
}

impl Drop for LocalMembership {
    fn drop(&mut self) {
        self.member.close();
        self.log.groups.remove(&self.member);
    }
}

/// Rebalances that the local log never makes by itself: for tests and simulation of the roles.
impl LocalLog {
    /// Takes partitions away as a rebalance does: the member is asked to release them, its last commits are applied.
    ///
    /// # Errors
    /// [`LogError::Config`] when the group has no member, [`LogError::NotOwned`] when it does not own a partition.
    pub async fn simulate_revoke(&self, group: &str, partitions: &[u32]) -> Result<(), LogError> {
        let member = self.inner.groups.find(group)?;
        let _turn = member.rebalance.lock().await;
        member.revoke(&self.inner, partitions.to_vec()).await
    }

    /// Gives partitions to the member, with the next sequence number.
    ///
    /// # Errors
    /// [`LogError::Config`] when the group has no member or the topic has no such partition.
    pub async fn simulate_assign(&self, group: &str, partitions: &[u32]) -> Result<(), LogError> {
        let member = self.inner.groups.find(group)?;
        for partition in partitions {
            member.topic.partition(*partition)?;
        }
        let _turn = member.rebalance.lock().await;
        member.assign(partitions.to_vec()).await
    }

    /// Takes partitions away as the coordinator does from a member that it took for dead: no release, no commit.
    ///
    /// # Errors
    /// [`LogError::Config`] when the group has no member, [`LogError::NotOwned`] when it does not own a partition.
    pub async fn simulate_loss(&self, group: &str, partitions: &[u32]) -> Result<(), LogError> {
        let member = self.inner.groups.find(group)?;
        let _turn = member.rebalance.lock().await;
        member.check_owned(partitions.iter().copied())?;
        member.disown(partitions);
        member.tell(GroupEvent::Lost { partitions: partitions.to_vec() }).await
    }
}
