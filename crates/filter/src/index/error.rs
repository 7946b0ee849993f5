//! Why a filter is not taken into an index.

use thiserror::Error;

use crate::limits::{INDEX_FILTERS_MAX, INDEX_PATHS_MAX};

/// Why a filter is not taken into an index. What is in it stays as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The filters of one shard use too many different paths.
    #[error(
        "the filters of one event type use more than {INDEX_PATHS_MAX} different paths; remove filters, or give the events fewer dynamic keys"
    )]
    TooManyPaths,
    /// The shard is full.
    #[error("one event type has more than {INDEX_FILTERS_MAX} filters; split the event type")]
    TooManyFilters,
}

impl IndexError {
    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            IndexError::TooManyPaths => "index_too_many_paths",
            IndexError::TooManyFilters => "index_too_many_filters",
        }
    }
}
