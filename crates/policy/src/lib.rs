//! When a delivery is tried again, and what an attempt's result means.
//!
//! [`RetrySchedule`] says how long to wait after a failed attempt, [`parse_retry_after`] what the endpoint asked for, and
//! [`classify`] puts both together with the result into an [`Outcome`](mailrail_types::Outcome).
//!
//! **Always holds**: every result has one outcome; a retry is never due before its schedule says, nor later than the
//! longer of its schedule and 24 h; the number of attempts is bounded; no input panics.
//!
//! **Deliberately absent**: clocks and randomness. `now` and a random number are arguments, so that a simulation owns
//! them and a failure can be played again.

mod classify;
mod retry_after;
mod schedule;

pub use classify::{RETRY_AFTER_MAX, classify};
pub use retry_after::parse_retry_after;
pub use schedule::{ATTEMPTS_MAX, DELAY_MAX, Jitter, RetrySchedule, ScheduleError};
