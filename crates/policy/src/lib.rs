//! When a delivery is tried again, what an attempt's result means, and over how many mailboxes payloads are split.
//!
//! [`RetrySchedule`] says how long to wait after a failed attempt, [`parse_retry_after`] what the endpoint asked for, and
//! [`classify`] puts both together with the result into an [`Outcome`](mailrail_types::Outcome). [`next_width`] sizes
//! mailboxes by a rolling rate, and [`bucket`] sends a key to one of them. [`RateUse`] and [`Breaker`] say whether an endpoint
//! may be asked now.
//!
//! **Always holds**: every result has one outcome; a retry is never due before its schedule says, nor later than the
//! longer of its schedule and 24 h; the number of attempts is bounded; a rate-sized width is a power of two within its
//! cap, and the cap when the rate is unknown; no input panics.
//!
//! **Deliberately absent**: clocks and randomness. `now` and a random number are arguments, so that a simulation owns
//! them and a failure can be played again.

mod breaker;
mod classify;
mod rate;
mod retry_after;
mod schedule;
mod sizing;

pub use breaker::{Breaker, BreakerOptions, Signal};
pub use classify::{RETRY_AFTER_MAX, classify};
pub use rate::{Rate, RateUse};
pub use retry_after::parse_retry_after;
pub use schedule::{ATTEMPTS_MAX, DELAY_MAX, Jitter, RetrySchedule, ScheduleError};
pub use sizing::{
    COUNTER_TTL, COUNTERS_READ, Key, SHARD, SHARDS, SizingOptions, WINDOW, WindowReading, bucket,
    fixed_width, next_width, plain_width, shard_number, shard_start,
};
