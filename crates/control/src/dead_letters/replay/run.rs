//! Carrying replays on: one at a time, the oldest first, by one process of all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mailrail_log::Readers;
use mailrail_types::{RedriveBatch, RedriveEntry, ReplayId, ReplayOrder};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::PUT_BACK_MAX;
use super::batch::{Put, Source};
use super::measure::Shown;
use super::pace::{Pace, Pauses};
use crate::dead_letters::follow::{Follower, answer};
use crate::dead_letters::{DeadLetterOptions, DeadLetters, Trouble};
use crate::mailboxes::now;

/// Between two looks for a replay that was ordered elsewhere, or is carried on by nobody any more.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Between two words of a runner: a third of what [`DeadLetterOptions::TAKEOVER_MARGIN`] leaves it.
const SPEAK_EVERY: Duration = Duration::from_secs(DeadLetterOptions::TAKEOVER_MARGIN.as_secs() / 3);

/// What there was to do.
enum Turn {
    /// A replay was carried on as far as it went.
    Worked,
    /// There is none, or it is another process's; look again then.
    Idle(Duration),
}

/// How a replay goes on.
enum Next {
    More,
    Over,
    /// Another process carries it on.
    Lost,
    /// The process is to end, in the middle of a batch.
    Stopped,
}

/// A replay that this process carries on.
pub(super) struct Run<'a> {
    pub(super) all: &'a DeadLetters,
    pub(super) replay: ReplayId,
    pub(super) order: ReplayOrder,
    pub(super) pace: Pace,
    pub(super) readers: Box<dyn Readers>,
    pub(super) source: Option<Source>,
    /// Names it in the ledger. Each run has a name of its own: what an earlier one of this process wrote, and what comes
    /// into the log only after the claim of this one, is void.
    runner: String,
    /// When the ledger was last written to: just before, so what others see is never older than this says.
    spoke: Instant,
    /// Ends it, in good order.
    pub(super) stop: CancellationToken,
    /// In metrics, as long as it is carried on.
    pub(super) shown: Shown,
}

impl DeadLetters {
    /// Carries replays on until `stop`: those that were ordered here, and those that nobody else carries on.
    pub async fn run(&self, stop: CancellationToken) {
        let (mut said, mut pauses) = (None, Pauses::new());
        loop {
            let steps = self.inner.steps.load(Ordering::Relaxed);
            let pause = match self.carry_on(&stop).await {
                Ok(Turn::Worked) => Duration::ZERO,
                Ok(Turn::Idle(pause)) => pause,
                Err(trouble) => {
                    // Said once: the same trouble comes back at every look.
                    if said.as_ref() != Some(&trouble) {
                        tracing::warn!(pipeline = self.pipeline(), %trouble, "replays of dead letters stand still; tried again");
                    }
                    said = Some(trouble);
                    pauses.after_failure()
                }
            };
            if pause.is_zero() || self.inner.steps.load(Ordering::Relaxed) > steps {
                (said, pauses) = (None, Pauses::new());
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.inner.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn carry_on(&self, stop: &CancellationToken) -> Result<Turn, Trouble> {
        let mut follower = self.ledger().await?;
        self.show_unfinished(follower.ledger.unfinished().count());
        let Some(first) = follower.ledger.first_unfinished() else { return Ok(Turn::Idle(LOOK_EVERY)) };
        let (replay, order) = (first.order.replay, first.order.clone());
        let after = first.runner.clone();
        let other = !first.runner.is_empty() && !first.runner.starts_with(&self.inner.runner);
        let wait = self.inner.options.takeover_after.saturating_sub(follower.silence());
        if other && !wait.is_zero() {
            return Ok(Turn::Idle(wait.min(LOOK_EVERY)));
        }
        let runner = format!("{}/{:016x}", self.inner.runner, rand::random::<u64>());
        let spoke = Instant::now();
        follower.write(&[RedriveEntry::Claimed { replay, runner: runner.clone(), after }]).await?;
        if !is_mine(&follower, replay, &runner) {
            return Ok(Turn::Idle(LOOK_EVERY));
        }
        // Only now: until the claim was in the log, whoever was before could still begin a batch.
        let open = follower.ledger.get(&replay).and_then(|it| it.open.clone());
        drop(follower);
        tracing::info!(target: "audit", actor = order.by, action = "replay", %replay, rate = order.rate, "replay is carried on");
        let run = Run {
            all: self,
            replay,
            pace: Pace::new(order.rate, Instant::now()),
            shown: self.show_running(order.rate),
            order,
            readers: self.inner.log.readers().map_err(Trouble::of)?,
            source: None,
            runner,
            spoke,
            stop: stop.clone(),
        };
        run.go(open).await
    }

    /// Forgets what is about letters that are gone.
    pub(in crate::dead_letters) async fn tidy_up(&self) {
        let inner = &self.inner;
        let mut lows = std::collections::BTreeMap::new();
        for partition in 0..inner.pipeline.dead_letters.partitions {
            let asked = inner.log.bounds(&inner.pipeline.dead_letters.name, partition);
            let Ok(bounds) = answer(inner.limits.answer, asked).await else { return };
            lows.insert(partition, bounds.low);
        }
        if let Err(trouble) = inner.follower.lock().await.trim(&lows, now()).await {
            tracing::warn!(%trouble, "the ledger of redrives was not trimmed; tried again after the next replay");
        }
    }
}

/// Whether the ledger says that `runner` carries `replay` on.
fn is_mine(follower: &Follower, replay: ReplayId, runner: &str) -> bool {
    follower.ledger.get(&replay).is_some_and(|it| it.runner == runner && it.ended_at.is_none())
}

impl Run<'_> {
    async fn go(mut self, open: Option<RedriveBatch>) -> Result<Turn, Trouble> {
        let mut next = match open {
            None => Next::More,
            Some(batch) => {
                let put = self.settle(&batch).await?;
                self.done(&batch, put).await?
            }
        };
        loop {
            next = match next {
                Next::More if self.stop.is_cancelled() => return self.leave().await,
                Next::More => self.step().await?,
                Next::Over => return self.end().await,
                // What was begun may still come into the log: whoever is next waits until it cannot.
                Next::Stopped => return Ok(Turn::Worked),
                Next::Lost => {
                    tracing::warn!(replay = %self.replay, "another process carries the replay on");
                    return Ok(Turn::Idle(LOOK_EVERY));
                }
            };
        }
    }

    /// Ends before the replay does. Whoever comes next need not wait, and need not look for the last batch.
    async fn leave(mut self) -> Result<Turn, Trouble> {
        let (replay, runner) = (self.replay, self.runner.clone());
        let settled = RedriveEntry::Settled { replay, runner: runner.clone(), unsent: Vec::new() };
        self.write(&[settled, RedriveEntry::Claimed { replay, runner: String::new(), after: runner }])
            .await?;
        Ok(Turn::Worked)
    }

    /// Writes down which letters of a batch were not put back. That all were is said by whatever is written next.
    async fn done(&mut self, batch: &RedriveBatch, put: Put) -> Result<Next, Trouble> {
        let unsent = match put {
            Put::Done(unsent) => unsent,
            Put::Lost => return Ok(Next::Lost),
            Put::Stopped => return Ok(Next::Stopped),
        };
        if !unsent.is_empty() {
            let (replay, runner) = (self.replay, self.runner.clone());
            self.write(&[RedriveEntry::Settled { replay, runner, unsent: unsent.clone() }]).await?;
        }
        self.shown.put_back(batch.letters.len(), &unsent);
        self.all.inner.steps.fetch_add(1, Ordering::Relaxed);
        Ok(Next::More)
    }

    /// One batch: gathered, written down, put back.
    async fn step(&mut self) -> Result<Next, Trouble> {
        let place = {
            let follower = self.all.ledger().await?;
            if !is_mine(&follower, self.replay, &self.runner) {
                return Ok(Next::Lost);
            }
            let replay = follower.ledger.get(&self.replay).filter(|it| it.cancelled.is_none());
            let full = follower.ledger.known() >= PUT_BACK_MAX;
            if full {
                tracing::error!(replay = %self.replay, "the replay ends early: as many letters were put back as can be told apart");
            }
            replay.and_then(|it| it.place()).filter(|_| !full)
        };
        let Some((partition, next, to)) = place else { return Ok(Next::Over) };
        let gathered = self.gather(partition, next, to).await?;
        self.shown.looked(next, &gathered.step);
        let (replay, runner, step) = (self.replay, self.runner.clone(), gathered.step);
        if gathered.letters.is_empty() {
            self.write(&[RedriveEntry::Passed { replay, runner, step }]).await?;
            self.all.inner.steps.fetch_add(1, Ordering::Relaxed);
            return Ok(Next::More);
        }
        let inner = &self.all.inner;
        let topic = &inner.pipeline.deliveries.name;
        let bounds = answer(inner.limits.answer, inner.log.bounds(topic, partition)).await?;
        let batch = RedriveBatch { partition, deliveries_from: bounds.high, letters: gathered.letters };
        let began = Instant::now();
        self.write(&[RedriveEntry::Sending { replay, runner, step, batch: batch.clone() }]).await?;
        if !self.is_open(&batch).await {
            // Cancelled meanwhile, or another process's: the next step finds out.
            return Ok(Next::More);
        }
        let put = self.put_back(&batch, gathered.records).await?;
        let next = self.done(&batch, put).await?;
        if !matches!(next, Next::More) {
            return Ok(next);
        }
        let due = self.pace.after(batch.letters.len(), began);
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep_until(due) => {}
        }
        Ok(Next::More)
    }

    /// Whether the ledger says that this process puts this batch back now.
    async fn is_open(&mut self, batch: &RedriveBatch) -> bool {
        let follower = self.all.inner.follower.lock().await;
        is_mine(&follower, self.replay, &self.runner)
            && follower.ledger.get(&self.replay).is_some_and(|it| it.open.as_ref() == Some(batch))
    }

    async fn end(mut self) -> Result<Turn, Trouble> {
        let (replay, runner) = (self.replay, self.runner.clone());
        self.write(&[RedriveEntry::Ended { replay, runner, at: now() }]).await?;
        let status = self.all.replay(&replay.to_string()).await?;
        tracing::info!(
            target: "audit", actor = self.order.by, action = "replay", %replay, state = status.state,
            redriven = status.redriven, skipped = status.skipped, too_large = status.too_large, gone = status.gone,
            undecided = status.undecided, "replay is over"
        );
        self.all.tidy_up().await;
        Ok(Turn::Worked)
    }

    /// Whether it is time to say that this process still carries the replay on.
    pub(super) fn must_speak(&self) -> bool {
        self.spoke.elapsed() >= SPEAK_EVERY
    }

    /// Says so; false when it does not any more.
    pub(super) async fn speak(&mut self) -> Result<bool, Trouble> {
        let (replay, runner) = (self.replay, self.runner.clone());
        self.write(&[RedriveEntry::Claimed { replay, runner: runner.clone(), after: runner }]).await?;
        let follower = self.all.inner.follower.lock().await;
        Ok(is_mine(&follower, replay, &self.runner))
    }

    async fn write(&mut self, entries: &[RedriveEntry]) -> Result<(), Trouble> {
        let mut follower = self.all.inner.follower.lock().await;
        let began = Instant::now();
        follower.write(entries).await?;
        drop(follower);
        self.spoke = began;
        Ok(())
    }
}
