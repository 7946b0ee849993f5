//! Why the store of limits did not do what it was asked. Never reaches a caller of [`Sizer`](crate::Sizer), which answers the
//! cap, or of [`Leases`](crate::Leases), which falls back to a share.

/// A failure of a store of windows or leases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings of the store cannot be used. Says what to change; holds no URL, which may hold a password.
    #[error("{0}")]
    Settings(String),
    /// There is no connection, so nothing was sent.
    #[error("the store of limits is not connected: {0}")]
    NotConnected(String),
    /// The connection broke, or the client gave up, with the outcome unknown.
    #[error("the store of limits did not answer: {0}")]
    NoAnswer(String),
    /// The answer did not come in time.
    #[error("the store of limits did not answer in time")]
    Timeout,
    /// The store answered with an error, so nothing was applied.
    #[error("the store of limits refused: {0}")]
    Refused(String),
    /// The answer was not what was asked for.
    #[error("the store of limits answered something else than was asked: {0}")]
    Shape(String),
    /// The client panicked.
    #[error("the client of the store of limits panicked")]
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

    /// The stable code, for metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::NotConnected(_) => "not_connected",
            Self::NoAnswer(_) => "no_answer",
            Self::Timeout => "timeout",
            Self::Refused(_) => "refused",
            Self::Shape(_) => "shape",
            Self::Panicked => "panicked",
        }
    }

    /// Whether it says something about one key only: what is at it is not ours.
    pub(crate) fn is_of_one_key(&self) -> bool {
        match self {
            Self::Refused(code) => code == "WRONGTYPE",
            Self::Shape(_) => true,
            Self::Settings(_)
            | Self::NotConnected(_)
            | Self::NoAnswer(_)
            | Self::Timeout
            | Self::Panicked => false,
        }
    }

    /// Whether the server is not the one that takes writes any more: the address may lead to another one by now.
    pub(crate) fn is_of_a_replica(&self) -> bool {
        matches!(self, Self::Refused(code) if code == "READONLY" || code == "MASTERDOWN")
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
