//! Short forms: compile a pattern, judge an event, run a table.

use mailrail_filter::{Document, EvalError, Filter, FilterError};
use mailrail_types::{Attributes, FilterLanguage, FilterSource};

pub(crate) fn compile(pattern: &str) -> Result<Filter, FilterError> {
    Filter::compile(&FilterSource { language: FilterLanguage::Pattern, text: pattern.to_owned() })
}

pub(crate) fn filter(pattern: &str) -> Filter {
    compile(pattern).unwrap_or_else(|e| panic!("{pattern} is refused: {e}"))
}

pub(crate) fn judge(pattern: &str, body: &[u8]) -> Result<bool, EvalError> {
    filter(pattern).matches(&Document::new(&Attributes::default(), body))
}

/// Runs a table of (pattern, body, expected), and checks that every explanation gives the same verdict.
pub(crate) fn check(table: &[(&str, &str, bool)]) {
    for (pattern, body, expected) in table {
        let attributes = Attributes::default();
        let document = Document::new(&attributes, body.as_bytes());
        let filter = filter(pattern);
        assert_eq!(filter.matches(&document), Ok(*expected), "{pattern} on {body}");
        let explanation = filter.explain(&document);
        assert_eq!(explanation.matched, *expected, "explained: {pattern} on {body}");
        assert_eq!(
            explanation.alternatives.iter().any(|a| a.matched),
            *expected,
            "alternatives: {pattern} on {body}"
        );
    }
}
