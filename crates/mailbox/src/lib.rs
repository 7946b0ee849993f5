//! The delivery protocol of one partition as a sans-I/O state machine.
//!
//! [`Window`] holds the records of a partition of the deliveries topic that are not done yet. It says which delivery may
//! be attempted next, and up to where the partition is done.
//!
//! **Always holds** (names as in docs/adr/0005): I1, an offset is committed only when every record below it is done, and
//! done means that its end is recorded; I2, the window is bounded in records, bytes and offsets, so that its bitmap always
//! fits the commit metadata, and metadata that cannot be read means that nothing is done; I2b, an offset that the log never
//! delivered counts as done; I12, a mailbox has at most one delivery in flight, the lowest one that is not settled, beside those that a tolerant mailbox
//! set aside.
//!
//! **Deliberately absent**: I/O, clocks, async, randomness, and what a delivery is.

mod checkpoint;
mod recent;
mod window;

pub use checkpoint::{Checkpoint, DoneMap, SPAN_MAX};
pub use recent::RecentIds;
pub use window::{Limits, Offered, Settlement, Window};
