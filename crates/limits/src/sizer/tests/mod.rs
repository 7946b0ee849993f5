//! The sizer over a store that fails as told, with a clock that moves as told.

mod outages;
mod windows;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mailrail_policy::{SHARD, SizingOptions, shard_start};
use mailrail_types::Timestamp;

use super::{Clock, Sizer, Sizing};
use crate::{Counter, Error, HeldWidth, LocalWindows, Stored, Windows, Write};

/// One payload is worth one mailbox.
const FINEST: SizingOptions = SizingOptions { threads: 1, payloads_per_thread: 1, buckets_max: 64 };

/// Far enough from zero for the window to lie behind it.
const SHARD_NOW: i64 = 1_000;

/// How the store behaves.
#[derive(Clone)]
enum Mode {
    Sound,
    /// Reads and writes fail with this.
    Failing(Error),
    /// Reads are answered, writes fail with this.
    NotWriting(Error),
    /// Writes are applied, and then fail with this.
    Unheard(Error),
    Hanging,
    Panicking,
    /// Fewer results than writes.
    Short,
}

struct Scripted {
    kept: Mutex<Arc<LocalWindows>>,
    mode: Mutex<Mode>,
    reads: AtomicUsize,
    writes: AtomicUsize,
    /// Counters with this name cannot be read or written.
    broken: Counter,
}

impl Scripted {
    fn set(&self, mode: Mode) {
        *self.mode.lock().expect("mode") = mode;
    }

    fn wipe(&self) {
        *self.kept.lock().expect("kept") = Arc::new(LocalWindows::new());
    }

    fn parts(&self) -> (Arc<LocalWindows>, Mode) {
        (Arc::clone(&self.kept.lock().expect("kept")), self.mode.lock().expect("mode").clone())
    }

    async fn payloads(&self, counter: &Counter, shard: i64) -> [u64; 6] {
        self.parts().0.read(counter, shard).await.expect("local").shards
    }
}

#[async_trait]
impl Windows for Scripted {
    async fn write(&self, writes: &[Write], now: Timestamp) -> Vec<Result<(), Error>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let (kept, mode) = self.parts();
        let failed = |error: Error| writes.iter().map(|_| Err(error.clone())).collect();
        match mode {
            Mode::Sound => {
                let (good, bad): (Vec<_>, Vec<_>) =
                    writes.iter().cloned().partition(|it| *it.counter() != self.broken);
                kept.write(&good, now).await;
                let refused = || Error::Refused("WRONGTYPE".to_owned());
                let result = |it: &Write| if bad.contains(it) { Err(refused()) } else { Ok(()) };
                writes.iter().map(result).collect()
            }
            Mode::Failing(error) | Mode::NotWriting(error) => failed(error),
            Mode::Unheard(error) => {
                kept.write(writes, now).await;
                failed(error)
            }
            Mode::Hanging => std::future::pending().await,
            Mode::Panicking => panic!("the client has a bug"),
            Mode::Short => vec![],
        }
    }

    async fn read(&self, counter: &Counter, shard: i64) -> Result<Stored, Error> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let (kept, mode) = self.parts();
        match mode {
            Mode::Failing(error) => Err(error),
            Mode::Hanging => std::future::pending().await,
            Mode::Panicking => panic!("the client has a bug"),
            _ if *counter == self.broken => Err(Error::Refused("WRONGTYPE".to_owned())),
            _ => kept.read(counter, shard).await,
        }
    }
}

/// A sizer, its store and its clock.
struct Bench {
    sizer: Sizer,
    store: Arc<Scripted>,
    now: Arc<AtomicI64>,
}

impl Bench {
    /// At the start of a shard.
    fn new() -> Self {
        let store = Arc::new(Scripted {
            kept: Mutex::new(Arc::new(LocalWindows::new())),
            mode: Mutex::new(Mode::Sound),
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            broken: Counter::new("broken", &[]),
        });
        Self::over(store, Arc::new(AtomicI64::new(shard_start(SHARD_NOW).millis())))
    }

    fn over(store: Arc<Scripted>, now: Arc<AtomicI64>) -> Self {
        let read = Arc::clone(&now);
        let clock: Clock = Arc::new(move || Timestamp(read.load(Ordering::Relaxed)));
        Self { sizer: Sizer::new(Arc::clone(&store) as Arc<dyn Windows>, clock), store, now }
    }

    /// Another process with the same store and time.
    fn another(&self) -> Self {
        Self::over(Arc::clone(&self.store), Arc::clone(&self.now))
    }

    fn pass(&self, time: Duration) {
        self.now.fetch_add(i64::try_from(time.as_millis()).expect("small"), Ordering::Relaxed);
    }

    fn pass_shards(&self, shards: u32) {
        self.pass(SHARD * shards);
    }

    fn count(&self, counter: &Counter, payloads: usize) {
        (0..payloads).for_each(|_| self.sizer.count(counter));
    }

    async fn width(&self, counter: &Counter) -> Sizing {
        self.sizer.width(counter, &FINEST).await
    }

    async fn known(&self, counter: &Counter) -> u64 {
        let sizing = self.width(counter).await;
        assert!(sizing.known, "{sizing:?}");
        sizing.payloads.expect("known")
    }

    /// What a process that begins now would be told.
    async fn stored(&self, counter: &Counter) -> u64 {
        self.another().known(counter).await
    }

    fn reads(&self) -> usize {
        self.store.reads.load(Ordering::Relaxed)
    }
}

fn push() -> Counter {
    Counter::new("github", &["4321", "push"])
}

fn down() -> Error {
    Error::NotConnected("refused".to_owned())
}

fn read_only() -> Error {
    Error::Refused("READONLY".to_owned())
}
