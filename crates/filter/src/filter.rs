//! The filter itself: compiled once per subscription version, shared by all events.

use mailrail_types::{FilterLanguage, FilterSource};

use crate::document::Document;
use crate::error::{EvalError, FilterError};
use crate::evaluate::evaluate;
use crate::explain::{Explanation, explain};
use crate::ir::Program;
use crate::pattern::{self, Dialect};

/// A compiled filter. Immutable, `Send` and `Sync`; share it in an `Arc`.
#[derive(Debug)]
pub struct Filter {
    pub(crate) program: Program,
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// [`FilterError`] when the text is not a filter of its language or is over one of the [limits](crate::limits):
    /// with a code, the place, and what to change.
    pub fn compile(source: &FilterSource) -> Result<Filter, FilterError> {
        let program = match source.language {
            FilterLanguage::Pattern => pattern::parse(&source.text, Dialect::Extended)?,
            other => {
                let message = format!(
                    "filters in the language '{}' cannot be evaluated here; use 'pattern'",
                    other.name()
                );
                return Err(FilterError::new("filter_unknown_language", "$", message));
            }
        };
        Ok(Filter { program })
    }

    /// Compiles a pattern of EventBridge, and refuses everything that is only ours: for patterns that are to work there, too.
    ///
    /// # Errors
    /// [`FilterError`], as of [`Filter::compile`]; the code `filter_not_eventbridge` for what is ours.
    pub fn compile_eventbridge(text: &str) -> Result<Filter, FilterError> {
        Ok(Filter { program: pattern::parse(text, Dialect::EventBridge)? })
    }

    /// The event is one that the subscription wants.
    ///
    /// # Errors
    /// [`EvalError`] when that took more than [`STEPS_MAX`](crate::limits::STEPS_MAX) steps.
    pub fn matches(&self, document: &Document<'_>) -> Result<bool, EvalError> {
        evaluate(&self.program, document)
    }

    /// Says, clause by clause, why the event matches or not. For dry runs: slower than [`Filter::matches`] and shows
    /// values of the body.
    #[must_use]
    pub fn explain(&self, document: &Document<'_>) -> Explanation {
        explain(&self.program, document)
    }

    /// No alternative asks for the body: the filter can run before the body is looked at.
    #[must_use]
    pub fn is_attribute_only(&self) -> bool {
        self.program.conjunctions.iter().all(|conjunction| conjunction.body.is_empty())
    }
}
