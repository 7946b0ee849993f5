//! The command line's client half: `apply`, `send`, `status`, `mailboxes`, `why`, `explain`, `classes`, `endpoints`, `shed`, `dlq`,
//! over the same HTTP APIs that everybody uses.

mod access;
pub(crate) mod apply;
pub(crate) mod classes;
pub(crate) mod dlq;
pub(crate) mod endpoints;
pub(crate) mod explain;
pub(crate) mod mailboxes;
mod segment;
pub(crate) mod send;
pub(crate) mod shed;
pub(crate) mod status;
mod unknown;
mod when;
pub(crate) mod why;

use anyhow::Result;
use serde_json::Value;

use crate::say::print;

pub(crate) use apply::ApplyArgs;
pub(crate) use classes::ClassesArgs;
pub(crate) use dlq::DlqArgs;
pub(crate) use endpoints::EndpointsArgs;
pub(crate) use explain::ExplainArgs;
pub(crate) use mailboxes::MailboxesArgs;
pub(crate) use send::SendArgs;
pub(crate) use shed::ShedArgs;
pub(crate) use status::StatusArgs;
pub(crate) use why::WhyArgs;

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs: the API's answer as it is.
    Json,
}

impl Output {
    /// Prints an answer: as it is, or as the text that `shown` makes of it.
    ///
    /// # Errors
    /// When the answer is not what it should be, or cannot be written.
    pub(crate) fn print(self, answer: &Value, shown: impl FnOnce(&Value) -> Result<String>) -> Result<()> {
        match self {
            Output::Json => print(&format!("{answer:#}\n")),
            Output::Text => print(&shown(answer)?),
        }
    }
}

#[cfg(test)]
mod tests;
