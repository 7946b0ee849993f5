//! The port itself: counters of three minutes, one contract, two adapters.

use async_trait::async_trait;
use mailrail_policy::COUNTERS_READ;
use mailrail_types::Timestamp;

use crate::{Counter, Error};

/// A width beside its counter, for the shrink rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldWidth {
    /// Mailboxes.
    pub width: u32,
    /// Payloads per mailbox that the width was chosen with: under another unit it says nothing.
    pub unit: u32,
}

/// What a store knows of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stored {
    /// Payloads counted in the current shard, then in each older one; 0 where there is no counter.
    pub shards: [u64; COUNTERS_READ],
    /// The last width that was written, if it is still there and readable.
    pub width: Option<HeldWidth>,
}

/// One thing to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Adds to a counter. It then expires 1,260 s after the start of its shard at the latest.
    Count {
        /// Whose.
        counter: Counter,
        /// The shard in which the payloads came.
        shard: i64,
        /// How many.
        count: u64,
    },
    /// Replaces the width beside a counter. It expires 1,080 s later.
    Width {
        /// Whose.
        counter: Counter,
        /// The width.
        held: HeldWidth,
    },
}

impl Write {
    /// Whose counter it is about.
    #[must_use]
    pub fn counter(&self) -> &Counter {
        match self {
            Self::Count { counter, .. } | Self::Width { counter, .. } => counter,
        }
    }
}

/// Where counters live.
#[async_trait]
pub trait Windows: Send + Sync {
    /// Applies each write, in one round trip where all of them live in one place. The answer has one result for each
    /// write, in the same order; a failure of one does not keep the others from being applied.
    async fn write(&self, writes: &[Write], now: Timestamp) -> Vec<Result<(), Error>>;

    /// The counters of the shard numbered `shard` and of the five before it, in one round trip.
    ///
    /// # Errors
    /// Anything that leaves one of the counts unknown.
    async fn read(&self, counter: &Counter, shard: i64) -> Result<Stored, Error>;
}
