//! Why counters could not be read or written. Never reaches a caller of [`Sizer`](crate::Sizer), which answers the cap.

/// A failure of a window store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings of the store cannot be used. Says what to change; holds no URL, which may hold a password.
    #[error("{0}")]
    Settings(String),
    /// There is no connection, so nothing was sent.
    #[error("the counter store is not connected: {0}")]
    NotConnected(String),
    /// The connection broke, or the client gave up, with the outcome unknown.
    #[error("the counter store did not answer: {0}")]
    NoAnswer(String),
    /// The answer did not come in time.
    #[error("the counter store did not answer in time")]
    Timeout,
    /// The store answered with an error, so nothing was applied.
    #[error("the counter store refused: {0}")]
    Refused(String),
    /// The answer was not what was asked for.
    #[error("the counter store answered something else than counts: {0}")]
    Shape(String),
    /// The client panicked.
    #[error("the client of the counter store panicked")]
    Panicked,
}

impl Error {
    /// Whether a write that ended like this may have been applied all the same. It is not repeated then: a count twice
    /// in the window widens a sender for a quarter of an hour, one flush of counts missing from it changes nothing.
    #[must_use]
    pub fn may_have_applied(&self) -> bool {
        match self {
            Self::NoAnswer(_) | Self::Timeout | Self::Shape(_) | Self::Panicked => true,
            Self::Settings(_) | Self::NotConnected(_) | Self::Refused(_) => false,
        }
    }

    /// Whether it says something about the store as a whole, and may have cost the caller time, rather than about one
    /// counter of it.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::NoAnswer(_) | Self::Timeout => true,
            Self::Settings(_) | Self::Refused(_) | Self::Shape(_) | Self::Panicked => false,
        }
    }
}
