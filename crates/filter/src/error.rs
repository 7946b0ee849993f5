//! What can go wrong: a filter that is refused, an evaluation that is stopped.

use thiserror::Error;

use crate::limits::STEPS_MAX;

/// Why a filter was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message} (at {path})")]
pub struct FilterError {
    /// Stable snake_case code; one of [`FilterError::CODES`].
    pub code: &'static str,
    /// JSON path of the place in the filter: `$.project.key[0].prefix`; `$` is the filter itself. Of a place in an expression
    /// the message tells line and column.
    pub path: String,
    /// What is wrong and what to change.
    pub message: String,
}

impl FilterError {
    /// Every code there is.
    pub const CODES: &'static [&'static str] = &[
        "filter_too_long",
        "filter_not_json",
        "filter_not_object",
        "filter_empty",
        "filter_duplicate_key",
        "filter_duplicate_path",
        "filter_too_deep",
        "filter_too_many_clauses",
        "filter_too_many_values",
        "filter_too_many_alternatives",
        "filter_invalid_value",
        "filter_invalid_or",
        "filter_invalid_attribute",
        "filter_unknown_operator",
        "filter_invalid_operand",
        "filter_unknown_language",
        "filter_not_eventbridge",
        "filter_not_list",
        "filter_syntax",
        "filter_unknown_function",
        "filter_not_boolean",
    ];

    pub(crate) fn new(
        code: &'static str,
        path: &(impl ToString + ?Sized),
        message: impl Into<String>,
    ) -> Self {
        debug_assert!(Self::CODES.contains(&code), "{code} is missing in CODES");
        Self { code, path: path.to_string(), message: message.into() }
    }
}

/// Why an evaluation gave no verdict. What to do then is the subscription's error policy (acceptance A08).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The event is too large for this filter.
    #[error(
        "the filter took more than {STEPS_MAX} steps on this event; use fewer clauses on long arrays or texts"
    )]
    TooManySteps,
}

impl EvalError {
    /// The stable code, for metrics and explanations.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            EvalError::TooManySteps => "too_many_steps",
        }
    }
}
