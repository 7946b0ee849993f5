//! Counters of one process, for `dev` and for a single node.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use hashlink::LruCache;
use mailrail_policy::{COUNTER_TTL, COUNTERS_READ, shard_number};
use mailrail_types::Timestamp;

use crate::{Counter, Error, HeldWidth, Stored, Windows, Write};

/// Most counters that are kept; some 200 bytes each. Above it the one that was not touched for longest is forgotten,
/// which sizes its sender from live traffic again.
pub const COUNTERS_MAX: usize = 65_536;

/// Counters in memory. They begin empty with the process.
#[derive(Debug)]
pub struct LocalWindows {
    counters: Mutex<LruCache<Counter, Kept>>,
    counters_max: usize,
}

/// One counter: its last six shards, each where its number modulo six says, and its width.
#[derive(Debug, Default)]
struct Kept {
    shards: [Option<(i64, u64)>; COUNTERS_READ],
    width: Option<(HeldWidth, Timestamp)>,
}

impl LocalWindows {
    /// Room for [`COUNTERS_MAX`] counters.
    #[must_use]
    pub fn new() -> Self {
        Self::with_room_for(COUNTERS_MAX)
    }

    /// Room for at most `counters_max` counters, at least 1.
    #[must_use]
    pub fn with_room_for(counters_max: usize) -> Self {
        Self { counters: Mutex::new(LruCache::new_unbounded()), counters_max: counters_max.max(1) }
    }

    /// How many counters are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counters().len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn counters(&self) -> MutexGuard<'_, LruCache<Counter, Kept>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for LocalWindows {
    fn default() -> Self {
        Self::new()
    }
}

impl Kept {
    fn add(&mut self, shard: i64, count: u64) {
        let slot = &mut self.shards[place(shard)];
        match slot {
            Some((number, counted)) if *number == shard => *counted = counted.saturating_add(count),
            // Older than everything that is read: as if it had expired.
            Some((number, _)) if *number > shard => {}
            _ => *slot = Some((shard, count)),
        }
    }

    fn read(&self, shard: i64) -> [u64; COUNTERS_READ] {
        let mut back = 0;
        [(); COUNTERS_READ].map(|()| {
            let number = shard.saturating_sub(back);
            back += 1;
            self.shards[place(number)].filter(|(it, _)| *it == number).map_or(0, |(_, count)| count)
        })
    }
}

/// Which of six places a shard has.
pub(crate) fn place(shard: i64) -> usize {
    const PLACES: i64 = COUNTERS_READ as i64;
    usize::try_from(shard.rem_euclid(PLACES)).unwrap_or(0)
}

#[async_trait]
impl Windows for LocalWindows {
    async fn write(&self, writes: &[Write], now: Timestamp) -> Vec<Result<(), Error>> {
        let mut counters = self.counters();
        for write in writes {
            let kept = counters.entry(write.counter().clone()).or_insert_with(Kept::default);
            match write {
                Write::Count { shard, count, .. } => kept.add(*shard, *count),
                Write::Width { held, .. } => kept.width = Some((*held, now.plus(COUNTER_TTL))),
            }
        }
        while counters.len() > self.counters_max {
            counters.remove_lru();
        }
        writes.iter().map(|_| Ok(())).collect()
    }

    async fn read(&self, counter: &Counter, shard: i64) -> Result<Stored, Error> {
        let mut counters = self.counters();
        let Some(kept) = counters.get(counter) else { return Ok(Stored::default()) };
        let width = kept.width.filter(|(_, until)| shard_number(*until) >= shard).map(|(held, _)| held);
        Ok(Stored { shards: kept.read(shard), width })
    }
}
