//! What processes count together: rates, which size mailboxes, and requests that are open at an endpoint.
//!
//! **Rate windows**: how many payloads a sender or recipient had in the last fifteen minutes, and the width that follows.
//! [`Sizer`] is what roles use. It counts in memory and writes at most 250 ms later to a [`Windows`]: [`RedisWindows`]
//! (one server or a cluster), shared by all processes, or [`LocalWindows`], for one process.
//!
//! **Leases**: [`Leases`] gives out owned rights to have a request open at an endpoint, over a [`LeaseStore`]:
//! [`RedisLeases`] or [`LocalLeases`].
//!
//! **Always holds**: sizing never fails. [`Sizer::width`] has no error and catches panics; what it does not know is the
//! cap, at the latest 50 ms later, and an outage costs callers that wait at most once a second. A width that was known does
//! not drop because a store was away, read-only, full or wiped. A count belongs to the three minutes in which it was
//! made. There are never more leases of an endpoint than its limit, as long as the store is there and remembers; when it is not,
//! each process keeps to the limit over the processes last seen alive, at least 1, and nothing stops. Everything here may be lost at any moment without losing an event or the order of a strict class. No key outlives
//! 1,260 s from the start of its shard, or an hour from its last lease.
//!
//! **Deliberately absent**: the arithmetic, which is `mailrail_policy::next_width`; the choice of what is counted (once
//! per admitted payload, never for a strict class), which is the caller's; clocks, which are arguments. Nothing is
//! remembered beyond a window.
//!
//! **Boundary**: the only crate that imports a Redis client.

mod counter;
mod error;
mod leases;
mod local;
mod port;
mod redis;
mod route;
mod sizer;

pub use counter::Counter;
pub use error::Error;
pub use leases::{
    Admission, Exchange, Exchanged, Lease, LeaseStore, Leases, LocalLeases, OnFree, Recipient, RedisLeases,
    Refused, Terms, Token,
};
pub use local::{COUNTERS_MAX as LOCAL_COUNTERS_MAX, LocalWindows};
pub use port::{HeldWidth, Stored, Windows, Write};
pub use redis::{RedisWindows, WhenFull, when_full};
pub use route::{Reason, Routed, Width};
pub use sizer::{
    CACHED_FOR, COUNTERS_MAX, Clock, Counts, FLUSH_EVERY, PAUSE_AFTER_FAILURE, READ_BUDGET, Sizer, Sizing,
};
