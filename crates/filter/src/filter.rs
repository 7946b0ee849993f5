//! The filter itself: compiled once per subscription version, shared by all events.

use std::sync::Arc;

use mailrail_types::{FilterLanguage, FilterSource};

use crate::cesql::Expression;
use crate::cloudevents;
use crate::document::Document;
use crate::error::{EvalError, FilterError};
use crate::evaluate::evaluate;
use crate::explain::{Explanation, explain};
use crate::ir::Program;
use crate::limits::Limits;
use crate::pattern::{self, Dialect};
use crate::rule::Rule;

/// A compiled filter. Immutable, `Send` and `Sync`; share it in an `Arc`.
#[derive(Debug)]
pub struct Filter {
    pub(crate) program: Arc<Program>,
}

impl Filter {
    /// Compiles a filter of any language: the text is a JSON object for `pattern` and `eventbridge`, a JSON list for
    /// `cloudevents`, an expression for `cesql`.
    ///
    /// # Errors
    /// [`FilterError`] when the text is not a filter of its language or is over one of the limits: with a code, the
    /// place, and what to change.
    pub fn parse(language: FilterLanguage, text: &str, limits: &Limits) -> Result<Filter, FilterError> {
        let limits = &limits.clamped();
        // Counting stops at the limit: the text may be anything.
        if text.chars().nth(limits.text_chars).is_some() {
            let message = format!(
                "the filter is longer than {} characters; shorten it or split the subscription",
                limits.text_chars
            );
            return Err(FilterError::new("filter_too_long", "$", message));
        }
        let program = match language {
            FilterLanguage::Pattern => pattern::parse(text, Dialect::Extended, limits)?,
            FilterLanguage::EventBridge => pattern::parse(text, Dialect::EventBridge, limits)?,
            FilterLanguage::Cesql => {
                Rule::Sql(Expression::filter(text, limits)?).compile(named(language, text), limits)
            }
            FilterLanguage::CloudEvents => {
                cloudevents::parse(text, limits)?.compile(named(language, text), limits)
            }
            other => {
                let known: Vec<_> = FilterLanguage::ALL.iter().map(|language| language.name()).collect();
                let message = format!(
                    "filters in the language '{}' cannot be evaluated here; use one of {}",
                    other.name(),
                    known.join(", ")
                );
                return Err(FilterError::new("filter_unknown_language", "$", message));
            }
        };
        Ok(Filter { program: Arc::new(program) })
    }

    /// Compiles a filter within the limits of this crate.
    ///
    /// # Errors
    /// As of [`Filter::parse`].
    pub fn compile(source: &FilterSource) -> Result<Filter, FilterError> {
        Self::parse(source.language, &source.text, &Limits::default())
    }

    /// Compiles a pattern of EventBridge, and refuses everything that is only ours: for patterns that are to work there, too.
    ///
    /// # Errors
    /// [`FilterError`], as of [`Filter::parse`]; the code `filter_not_eventbridge` for what is ours.
    pub fn compile_eventbridge(text: &str) -> Result<Filter, FilterError> {
        Self::parse(FilterLanguage::EventBridge, text, &Limits::default())
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
        match &self.program.rule {
            Some(rule) => rule.is_attribute_only(),
            None => self.program.conjunctions.iter().all(|conjunction| conjunction.body.is_empty()),
        }
    }
}

fn named(language: FilterLanguage, text: &str) -> String {
    format!("{} {text}", language.name())
}
