//! Putting dead letters back: orders, and what became of them.

mod batch;
mod measure;
mod pace;
mod run;
mod settle;

use mailrail_types::{LetterRange, RedriveEntry, ReplayId, ReplayOrder, Unsent, UnsentReason};

use super::follow::answer;
use super::ledger::Replay;
use super::shapes::{FilterParts, ReplayRequest, ReplayStatus, UnsentLetter};
use super::{DeadLetters, Trouble};
use crate::mailboxes::now;

/// Letters per second of a replay whose order names no number: little beside live traffic, and three thousand in a minute.
pub const RATE_DEFAULT: u32 = 50;
/// Most letters per second of a replay.
pub const RATE_MAX: u32 = 10_000;
/// Replays that are not over: one is carried on, the others wait.
pub(super) const UNFINISHED_MAX: usize = 16;
/// Letters that were put back and can be told apart: some hundred megabytes.
pub(super) const PUT_BACK_MAX: usize = 5_000_000;
/// Replays of a list.
const LIST_MAX: usize = 100;
/// Longest name of whoever orders or cancels.
const BY_MAX_CHARS: usize = 128;

impl DeadLetters {
    /// Orders a replay of the letters that there are now. It is carried on by [`DeadLetters::run`], here or elsewhere, after
    /// those that were ordered before. `here`: by this process, unless that goes silent.
    ///
    /// # Errors
    /// [`Trouble`] with what to change about the order, or when the log does not answer.
    pub async fn order(
        &self,
        request: &ReplayRequest,
        by: &str,
        here: bool,
    ) -> Result<ReplayStatus, Trouble> {
        let filter = request.filter.parse()?;
        if filter.is_empty() && !request.all {
            let detail =
                "the filter lets everything pass: name which letters are meant, or say that all are ('all')";
            return Err(Trouble::Filter { field: "filter", detail: detail.to_owned() });
        }
        let rate = request.rate.unwrap_or(RATE_DEFAULT);
        if !(1..=RATE_MAX).contains(&rate) {
            let detail = format!("{rate} letters per second: order 1 to {RATE_MAX}");
            return Err(Trouble::Filter { field: "rate", detail });
        }
        let ranges = self.ranges().await?;
        let replay = ReplayId::from_bytes(rand::random());
        let by: String = by.chars().take(BY_MAX_CHARS).collect();
        let order = ReplayOrder { replay, by, at: now(), filter, again: request.again, rate, ranges };
        let mut follower = self.ledger().await?;
        if follower.ledger.known() >= PUT_BACK_MAX {
            // Letters that are deleted by now make room.
            drop(follower);
            self.tidy_up().await;
            follower = self.ledger().await?;
        }
        let unfinished = follower.ledger.unfinished().count();
        if unfinished >= UNFINISHED_MAX {
            return Err(Trouble::TooManyReplays(unfinished));
        }
        if follower.ledger.known() >= PUT_BACK_MAX {
            return Err(Trouble::LedgerFull(follower.ledger.known()));
        }
        let mut entries = vec![RedriveEntry::Ordered(order)];
        if here {
            entries.push(RedriveEntry::Claimed {
                replay,
                runner: self.inner.runner.clone(),
                after: String::new(),
            });
        }
        follower.write(&entries).await?;
        let status = follower.ledger.get(&replay).map(|it| self.status(it));
        drop(follower);
        self.inner.wake.notify_one();
        status.ok_or_else(|| Trouble::Log("the ledger of redrives does not show the order".to_owned()))
    }

    /// All of the dead letters that there are now.
    async fn ranges(&self) -> Result<Vec<LetterRange>, Trouble> {
        let (log, topic) = (&self.inner.log, &self.inner.pipeline.dead_letters);
        let mut ranges = Vec::new();
        for partition in 0..topic.partitions {
            let bounds = answer(self.inner.limits.answer, log.bounds(&topic.name, partition)).await?;
            if bounds.low < bounds.high {
                ranges.push(LetterRange { partition, from: bounds.low, to: bounds.high });
            }
        }
        Ok(ranges)
    }

    /// The latest replays, the newest first.
    ///
    /// # Errors
    /// [`Trouble`] when the ledger cannot be read.
    pub async fn replays(&self) -> Result<Vec<ReplayStatus>, Trouble> {
        let follower = self.ledger().await?;
        Ok(follower.ledger.newest_first().take(LIST_MAX).map(|it| self.status(it)).collect())
    }

    /// One replay.
    ///
    /// # Errors
    /// [`Trouble::NotFound`] when there is none of this id; [`Trouble`] when the ledger cannot be read.
    pub async fn replay(&self, id: &str) -> Result<ReplayStatus, Trouble> {
        let replay = parse(id)?;
        let follower = self.ledger().await?;
        follower.ledger.get(&replay).map(|it| self.status(it)).ok_or_else(|| Trouble::NotFound(id.to_owned()))
    }

    /// The replay that is carried on now, or will be next.
    ///
    /// # Errors
    /// [`Trouble`] when the ledger cannot be read.
    pub async fn unfinished(&self) -> Result<Option<ReplayStatus>, Trouble> {
        let follower = self.ledger().await?;
        Ok(follower.ledger.first_unfinished().map(|it| self.status(it)))
    }

    /// Whether another process carries a replay on, and was heard of lately.
    ///
    /// # Errors
    /// As [`DeadLetters::replay`].
    pub async fn is_carried_on_elsewhere(&self, id: &str) -> Result<bool, Trouble> {
        let replay = parse(id)?;
        let follower = self.ledger().await?;
        let known = follower.ledger.get(&replay).ok_or_else(|| Trouble::NotFound(id.to_owned()))?;
        let is_other = !known.runner.is_empty() && !known.runner.starts_with(&self.inner.runner);
        let is_heard = follower.silence() < self.inner.options.takeover_after;
        Ok(known.ended_at.is_none() && is_other && is_heard)
    }

    /// Stops a replay. What it put back stays where it is. To cancel what is over changes nothing.
    ///
    /// # Errors
    /// As [`DeadLetters::replay`].
    pub async fn cancel(&self, id: &str, by: &str) -> Result<ReplayStatus, Trouble> {
        let replay = parse(id)?;
        let mut follower = self.ledger().await?;
        let known = follower.ledger.get(&replay).ok_or_else(|| Trouble::NotFound(id.to_owned()))?;
        if known.ended_at.is_none() && known.cancelled.is_none() {
            let by = by.chars().take(BY_MAX_CHARS).collect();
            follower.write(&[RedriveEntry::Cancelled { replay, by, at: now() }]).await?;
        }
        let status = follower.ledger.get(&replay).map(|it| self.status(it));
        drop(follower);
        self.inner.wake.notify_one();
        status.ok_or_else(|| Trouble::NotFound(id.to_owned()))
    }

    fn status(&self, replay: &Replay) -> ReplayStatus {
        let order = &replay.order;
        let (looked, looked_all) = replay.progress();
        let unsent = |reason| replay.unsent.get(&reason).copied().unwrap_or_default();
        ReplayStatus {
            id: order.replay.to_string(),
            pipeline: self.pipeline().to_owned(),
            state: replay.state().to_owned(),
            by: order.by.clone(),
            ordered_at_ms: order.at.millis(),
            ended_at_ms: replay.ended_at.map(mailrail_types::Timestamp::millis),
            cancelled_by: replay.cancelled.as_ref().map(|(by, _)| by.clone()),
            filter: FilterParts::from(&order.filter),
            again: order.again,
            rate: order.rate,
            redriven: replay.sent,
            skipped: replay.skipped,
            unreadable: replay.unreadable,
            too_large: unsent(UnsentReason::TooLarge),
            gone: unsent(UnsentReason::Gone),
            undecided: unsent(UnsentReason::Undecided),
            unsent: replay.unsent_letters.iter().map(UnsentLetter::from).collect(),
            looked,
            looked_all,
        }
    }
}

impl ReplayStatus {
    /// Whether it is over.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.ended_at_ms.is_some()
    }
}

impl From<&(u32, u64, Unsent)> for UnsentLetter {
    fn from((partition, offset, it): &(u32, u64, Unsent)) -> Self {
        Self {
            delivery: it.delivery.to_string(),
            position: format!("{partition}:{offset}"),
            reason: it.reason.code().to_owned(),
        }
    }
}

fn parse(id: &str) -> Result<ReplayId, Trouble> {
    id.parse().map_err(|_| Trouble::NotFound(id.chars().filter(|c| !c.is_control()).take(64).collect()))
}
