//! Writing what was counted: soon, before the shard rolls, and never twice.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use mailrail_policy::{SHARD, shard_number, shard_start};
use mailrail_types::Timestamp;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::tracked::Taken;
use super::{Inner, PAUSE_AFTER_FAILURE, Sizer};
use crate::{Counter, Error, HeldWidth, Write};

/// Longest that a count stays in memory while the store takes counts.
pub const FLUSH_EVERY: Duration = Duration::from_millis(250);

/// How long before a shard rolls its counts are written, so that whoever reads the new shard first finds them.
const BEFORE_ROLL: Duration = Duration::from_millis(10);

/// Counters of one write: some 100 kB, so that the store is not held up by one command stream.
const COUNTERS_PER_WRITE: usize = 256;

/// Counters that are tried at a time after their write failed.
const TRIED_AT_A_TIME: usize = 64;

/// Longest that one write may take. Nobody waits for it; it is long enough for a slow link.
const WRITE_WITHIN: Duration = Duration::from_millis(500);

/// Longest that one round of writes may take before what is left waits for the next.
const ROUND_WITHIN: Duration = Duration::from_secs(2);

/// Something of a counter on its way to the store.
enum Sent {
    Count(Taken),
    Width(HeldWidth),
}

/// The counters of a round. Whatever ends it, also its future being dropped: those that still have something to write are
/// listed again.
struct Listed<'a> {
    inner: &'a Inner,
    counters: Vec<Counter>,
    began: Timestamp,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.counters.iter().for_each(|it| self.inner.table.list_again(it, self.began));
    }
}

/// What was taken out of the table and has no result yet. A write that is given up half-way may have been applied, so it is
/// as one that was not answered: not repeated, and its counts are counted as dropped.
struct Outstanding<'a> {
    inner: &'a Inner,
    counters: &'a [Counter],
    sent: Vec<(usize, Sent)>,
    now: Timestamp,
}

impl Outstanding<'_> {
    /// Takes in one result for each; answers the first failure of each counter.
    fn settle(mut self, results: Vec<Result<(), Error>>) -> Vec<Option<Error>> {
        let mut failures: Vec<Option<Error>> = vec![None; self.counters.len()];
        for ((at, sent), result) in std::mem::take(&mut self.sent).into_iter().zip(results) {
            let error = result.err();
            self.inner.settle(&self.counters[at], sent, error.as_ref(), self.now);
            failures[at] = failures[at].take().or(error);
        }
        failures
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        for (at, sent) in self.sent.drain(..) {
            let given_up = Error::NoAnswer("the flush was given up".to_owned());
            self.inner.settle(&self.counters[at], sent, Some(&given_up), self.now);
        }
    }
}

impl Sizer {
    /// Flushes until `stop`, then once more, for at most two seconds.
    ///
    /// What the stop interrupts may be written or not; it is not written twice. Counts that are not known to be written at
    /// the end are in [`Counts::counts_dropped`](crate::Counts::counts_dropped).
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            let pause = pause((self.inner.clock)(), self.is_current());
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(pause) => {}
            }
            tokio::select! {
                () = stop.cancelled() => break,
                _ = self.flush() => {}
            }
        }
        if timeout(ROUND_WITHIN, self.flush()).await != Ok(true) {
            tracing::info!("stopped with counts that the store did not take");
        }
        self.inner.counting.counts_dropped(self.inner.table.take_pending());
    }

    /// Writes what was counted so far; answers whether the store took it, but for single counters that cannot be written.
    /// [`Sizer::run`] does this by itself.
    pub async fn flush(&self) -> bool {
        let inner = &self.inner;
        let round = AssertUnwindSafe(inner.round()).catch_unwind();
        let flushed = round.await.unwrap_or(false);
        if !inner.flushed.swap(flushed, Ordering::Relaxed) && flushed {
            tracing::info!("rate counts are written again");
        }
        flushed
    }
}

/// Until the next flush.
fn pause(now: Timestamp, flushed: bool) -> Duration {
    if !flushed {
        return PAUSE_AFTER_FAILURE;
    }
    let rolls_in = shard_start(shard_number(now)).plus(SHARD).since(now);
    match rolls_in.checked_sub(BEFORE_ROLL) {
        Some(left) if !left.is_zero() => left.min(FLUSH_EVERY),
        _ => FLUSH_EVERY,
    }
}

impl Inner {
    async fn round(&self) -> bool {
        let began = (self.clock)();
        let listed = Listed { inner: self, counters: self.table.take_listed(), began };
        let failed = |it: &Counter| self.table.change(it, |it| it.write_failed) == Some(true);
        let (failed, sound): (Vec<_>, Vec<_>) = listed.counters.iter().cloned().partition(failed);
        let began = tokio::time::Instant::now();
        for counters in sound.chunks(COUNTERS_PER_WRITE) {
            if began.elapsed() > ROUND_WITHIN || !self.write(counters).await {
                return false;
            }
        }
        for counters in failed.chunks(TRIED_AT_A_TIME) {
            // In an outage one handful shows as much as all would.
            if began.elapsed() > ROUND_WITHIN || !self.write_after_reading(counters).await {
                return false;
            }
        }
        true
    }

    /// Writes those that can be read. A write that is not answered may be applied, so it is not repeated; a read that is
    /// not answered costs nothing.
    async fn write_after_reading(&self, counters: &[Counter]) -> bool {
        let shard = shard_number((self.clock)());
        let answers = join_all(counters.iter().map(|it| self.ask(it, shard))).await;
        let (mut readable, mut outage) = (Vec::new(), false);
        for (counter, answer) in counters.iter().zip(answers) {
            match answer {
                Ok(_) => readable.push(counter.clone()),
                Err(error) => outage |= error.is_outage(),
            }
        }
        let written = readable.is_empty() || self.write(&readable).await;
        written && !outage
    }

    /// Writes what these counters have; answers whether it makes sense to go on with others.
    async fn write(&self, counters: &[Counter]) -> bool {
        let now = (self.clock)();
        let mut writes = Vec::new();
        let mut outstanding = Outstanding { inner: self, counters, sent: Vec::new(), now };
        for (at, counter) in counters.iter().enumerate() {
            let taken = self.table.change(counter, |it| it.take(now));
            let Some((counts, width, dropped)) = taken else { continue };
            self.counting.counts_dropped(dropped);
            for taken in counts {
                let Taken { shard, count } = taken;
                writes.push(Write::Count { counter: counter.clone(), shard, count });
                outstanding.sent.push((at, Sent::Count(taken)));
            }
            if let Some(held) = width {
                writes.push(Write::Width { counter: counter.clone(), held });
                outstanding.sent.push((at, Sent::Width(held)));
            }
        }
        let results = self.apply(&writes, now).await;
        let failures = outstanding.settle(results);
        let now = (self.clock)();
        for (counter, failure) in counters.iter().zip(&failures) {
            self.table.change(counter, |it| it.write_failed = failure.is_some());
        }
        let Some(error) = failures.iter().flatten().next() else { return true };
        if self.counting.is_log_due(now) {
            tracing::warn!(%error, "rate counts cannot be written; they wait, and mailboxes are as many as they may be");
        }
        // One that cannot be written for itself says nothing about the others.
        failures.iter().any(Option::is_none) && !failures.iter().flatten().any(Error::is_outage)
    }

    /// One result for each write, whatever the client does.
    async fn apply(&self, writes: &[Write], now: Timestamp) -> Vec<Result<(), Error>> {
        if writes.is_empty() {
            return Vec::new();
        }
        let write = AssertUnwindSafe(async { self.windows.write(writes, now).await }).catch_unwind();
        let failed = match timeout(WRITE_WITHIN, write).await {
            Ok(Ok(results)) if results.len() == writes.len() => return results,
            Ok(Ok(results)) => Error::Shape(format!("{} answers to {} writes", results.len(), writes.len())),
            Ok(Err(_)) => Error::Panicked,
            Err(_) => Error::Timeout,
        };
        writes.iter().map(|_| Err(failed.clone())).collect()
    }

    fn settle(&self, counter: &Counter, sent: Sent, error: Option<&Error>, now: Timestamp) {
        if error.is_some() {
            self.counting.write_failed();
        }
        match (sent, error) {
            (Sent::Width(held), None) => {
                self.table.change(counter, |it| it.width_written(held, now));
            }
            (Sent::Count(_), None) | (Sent::Width(_), Some(_)) => {}
            (Sent::Count(taken), Some(error)) if error.may_have_applied() => {
                self.counting.counts_dropped(taken.count);
            }
            (Sent::Count(taken), Some(_)) => {
                // An evicted counter has nowhere to wait.
                let dropped = self.table.change(counter, |it| it.give_back(taken)).unwrap_or(taken.count);
                self.counting.counts_dropped(dropped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_comes_within_250_ms_and_before_the_shard_rolls() {
        let start = shard_start(9);
        let at = |ms: i64| Timestamp(start.millis() + ms);
        assert_eq!(pause(at(0), true), FLUSH_EVERY);
        assert_eq!(pause(at(179_740), true), FLUSH_EVERY);
        assert_eq!(pause(at(179_800), true), Duration::from_millis(190));
        assert_eq!(pause(at(179_989), true), Duration::from_millis(1));
        assert_eq!(pause(at(179_990), true), FLUSH_EVERY);
        assert_eq!(pause(at(1_000), false), PAUSE_AFTER_FAILURE);
        for ms in 0..180_000 {
            let next = pause(at(ms), true);
            assert!(!next.is_zero() && next <= FLUSH_EVERY);
            assert!(ms > 179_989 || ms + i64::try_from(next.as_millis()).expect("small") < 180_000, "{ms}");
        }
    }
}
