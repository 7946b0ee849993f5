//! The command line's client half: `apply`, `send`, `status`, over the same HTTP APIs that everybody uses.

mod access;
pub(crate) mod apply;
pub(crate) mod send;
pub(crate) mod status;

pub(crate) use apply::ApplyArgs;
pub(crate) use send::SendArgs;
pub(crate) use status::StatusArgs;

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs: the API's answer as it is.
    Json,
}

#[cfg(test)]
mod tests;
