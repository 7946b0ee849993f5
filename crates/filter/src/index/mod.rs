//! Many filters at once: an index of all filters of one (tenant, event type).
//!
//! An event goes through the cheapest steps first, and each of them may be the last: attributes are looked up; if some
//! filter asks for the body, a search for literals may rule it out; the wanted paths, and only those, are read from its
//! bytes; every value found there is looked up. What comes out are *candidates*, a superset of the matches, most often
//! empty. Candidates are verified by the same evaluator as a single filter, on a strict reading of the body.
//!
//! **Always holds**: the matches are those of the filters one by one; an event that leads to no candidate allocates
//! nothing once the [`Scratch`] has grown; readers hold a snapshot and are never locked out; identical filters share one
//! entry.

// Numbers of clauses, conjunctions and places are 32 bits wide: `limits::INDEX_FILTERS_MAX` bounds the filters, and the
// limits of one filter what it adds to them.
#![allow(clippy::cast_possible_truncation)]

mod access;
mod clauses;
mod dead;
mod error;
mod hash;
mod merge;
mod names;
mod path_probe;
mod prefilter;
mod probe;
mod probes;
mod scan;
mod scratch;
mod segment;
mod shards;
mod snapshot;
mod verify;
mod writer;

pub use error::IndexError;
pub use merge::{MergeJob, Merged};
pub use scratch::{Effort, Scratch};
pub use shards::ShardTable;
pub use snapshot::{IndexSnapshot, Matches};
pub use writer::{Change, Index, IndexOptions, IndexStats};

/// Names a filter in an index: a number that the caller gives, most often the place of a subscription in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterId(pub u32);
