//! What is wrong with the settings, all of it at once, each with its place.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A line of the file, counted from 1.
    Line(PathBuf, usize),
    /// The file as a whole.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// Nowhere: the value is a default, or it is missing.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(file, line) => write!(f, "{}:{line}: ", file.display()),
            Place::File(file) => write!(f, "{}: ", file.display()),
            Place::Env(name) => write!(f, "environment variable {name}: "),
            Place::Default => Ok(()),
        }
    }
}

/// One problem: where, and what to change. Never holds a secret value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Where the value stands.
    pub(crate) place: Place,
    /// What is wrong and what to change.
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.message)
    }
}

/// The settings cannot be used. Displays one problem per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsError {
    /// At least one, in the order of the file.
    pub(crate) problems: Vec<Problem>,
}

impl SettingsError {
    /// The stable code of settings that cannot be used.
    pub(crate) const CODE: &'static str = "settings_invalid";

    /// What is said to who started the process: every problem in a line of its own, below the first one.
    pub(crate) fn detail(&self) -> String {
        format!("the settings cannot be used; to change:\n{self}")
    }

    /// The same behind the code.
    pub(crate) fn report(&self) -> String {
        format!("error[{}]: {}", Self::CODE, self.detail())
    }

    /// `Ok` when there are no problems.
    pub(crate) fn from_problems(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}
