//! The sample receiver, the demo set-up and the books that must balance.
//!
//! [`receiver`] is the other end: it verifies every signature with an implementation that is not ours, answers by
//! script, and counts duplicates and order. [`setup`] is the demo's set-up file and what it wants, [`payloads`] brings
//! something real to play, [`play`] posts it as a producer does and [`forward`] as GitHub does. [`books`] reads the log
//! and holds it against what producer and receiver saw. [`show`] is all of it, one after the other.
//!
//! **Always holds**: the books believe nobody about himself: what must be matched is told by plain code and not by the
//! filter engine, what was delivered by receipts and not by attempts; a payload is played byte for byte as its file holds
//! it, but for pushes whose repositories are made up to be many; whatever is kept in memory has a limit, and reaching it is reported.
//!
//! **Deliberately absent**: roles and settings. Whoever runs the demo brings a running pipeline.

pub mod books;
mod door;
mod error;
pub mod forward;
pub mod payloads;
pub mod play;
mod print;
pub mod receiver;
pub mod setup;
pub mod show;

pub use error::Error;
