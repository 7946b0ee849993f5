//! The delivery protocol of one partition as a sans-I/O state machine.
//!
//! A partition of the deliveries topic has an owner. It takes what it reads there through a bounded window to the
//! endpoints; what cannot go now is *parked* in the journal partition beside it, and the window goes on. [`Fold`] is the
//! state that a journal describes; [`Protocol`] is an owner at work. docs/delivery-protocol.md explains both.
//!
//! **Always holds** (names as in docs/delivery-protocol.md): I1, an offset is committed only when every record below it is
//! done: its end is recorded, or its entry in the journal was read back (I5); I2, the window is bounded in records, bytes and
//! offsets, so that its bitmap always fits the commit metadata, and metadata that cannot be read means that nothing is
//! done; I2b, an offset that the log never gave counts as done; I4, an entry under an older claim, or out of its chain, is
//! void for every reader; I6, a blocked mailbox has one cursor for each stretch, however much it holds; I7, nothing
//! overtakes; I8, nothing that waits or takes long holds the commit; I12, a strict mailbox has one attempt at a time, and I12b, any
//! mailbox one of an ordering key; I13,
//! attempts are in the journal before the next one starts; I16, after crashes without progress one delivery is tried at a
//! time, and what kills its process is found; I17, what lets others pass is asked again.
//!
//! **Deliberately absent**: I/O, clocks, async, randomness, and what a delivery is.

mod backlog;
mod checkpoint;
mod entry;
mod flying;
mod fold;
mod lane;
mod protocol;
mod queue;
mod ready;
mod recent;
mod rules;
mod trials;
mod window;

pub use backlog::{Backlog, SetAside, Stretch};
pub use checkpoint::{Checkpoint, DoneMap, Mark, SPAN_MAX};
pub use entry::{
    Aside, Claim, Cursor, Drained, Entry, Head, Hold, Kind, Link, Park, Place, Snapshot, Source, State,
    TrialEnd, Unfinished,
};
pub use flying::OrderKey;
pub use fold::{Fold, Verdict};
pub use lane::{Shape, Traits};
pub use protocol::{
    AtHand, Config, Fenced, ISOLATED_ATTEMPTS, Offered, PARK_AFTER, Protocol, SUSPECT_PAUSE, Scanned,
    Settlement, Started, UNCLEAN_MAX,
};
pub use ready::TURNS_FOR_OTHERS;
pub use recent::RecentIds;
pub use rules::Rules;
pub use trials::{CONDEMNED_MAX, TRIALS_MAX, Trials};
pub use window::Limits;
