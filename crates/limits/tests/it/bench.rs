//! A sizer over a real store, with a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use mailrail_limits::{Clock, Counter, RedisWindows, Sizer, Sizing};
use mailrail_policy::{SizingOptions, shard_start};
use mailrail_types::Timestamp;

use crate::servers::PATIENCE;

/// One payload is worth one mailbox.
pub(crate) const FINEST: SizingOptions =
    SizingOptions { threads: 1, payloads_per_thread: 1, buckets_max: 64 };

pub(crate) const PREFIX: &str = "test:";

/// The shard in which the clock starts.
pub(crate) const SHARD: i64 = 9_000_000;

pub(crate) fn push() -> Counter {
    Counter::new("github", &["4321", "push"])
}

pub(crate) fn key(counter: &Counter, end: impl std::fmt::Display) -> String {
    format!("{PREFIX}whrate:{{{}}}:{end}", counter.name())
}

pub(crate) struct Bench {
    pub(crate) sizer: Sizer,
    urls: Vec<String>,
    now: Arc<AtomicI64>,
}

impl Bench {
    pub(crate) fn new(urls: &[String]) -> Self {
        Self::at(urls, Arc::new(AtomicI64::new(shard_start(SHARD).millis())))
    }

    fn at(urls: &[String], now: Arc<AtomicI64>) -> Self {
        let windows = RedisWindows::new(urls, PREFIX).expect("urls");
        let read = Arc::clone(&now);
        let clock: Clock = Arc::new(move || Timestamp(read.load(Ordering::Relaxed)));
        Self { sizer: Sizer::new(Arc::new(windows), clock), urls: urls.to_vec(), now }
    }

    /// Another process with the same store and time.
    pub(crate) fn another(&self) -> Self {
        Self::at(&self.urls, Arc::clone(&self.now))
    }

    /// A second passes, so that nothing that was read before is used, and another try is due.
    pub(crate) fn second(&self) {
        self.now.fetch_add(1_000, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, counter: &Counter, payloads: usize) {
        (0..payloads).for_each(|_| self.sizer.count(counter));
    }

    pub(crate) async fn width(&self, counter: &Counter) -> Sizing {
        self.sizer.width(counter, &FINEST).await
    }

    /// Flushes and sizes until the store is back, and answers what it says then. The clock moves back as well, so that
    /// any number of tries lie in one shard.
    pub(crate) async fn healed(&self, counter: &Counter) -> Sizing {
        let began = Instant::now();
        let mut tick = 0;
        loop {
            self.now.fetch_add(if tick % 2 == 0 { 2_000 } else { -1_000 }, Ordering::Relaxed);
            tick += 1;
            if tick % 20 == 0 {
                self.now.fetch_sub(10_000, Ordering::Relaxed);
            }
            let flushed = self.sizer.flush().await;
            let sizing = self.width(counter).await;
            if flushed && sizing.known {
                return sizing;
            }
            assert!(began.elapsed() < PATIENCE, "not back: {:?}", self.sizer);
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// What a process that begins now is told.
    pub(crate) async fn stored(&self, counter: &Counter) -> u64 {
        self.another().healed(counter).await.payloads.expect("known")
    }
}
