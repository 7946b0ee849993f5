//! Short forms: compile a pattern, judge an event, run a table.

use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, Scratch};
use mailrail_filter::{Document, EvalError, Filter, FilterError};
use mailrail_types::{Attributes, FilterLanguage, FilterSource};

use crate::explained::agrees;

pub(crate) fn compile(pattern: &str) -> Result<Filter, FilterError> {
    Filter::compile(&FilterSource { language: FilterLanguage::Pattern, text: pattern.to_owned() })
}

pub(crate) fn filter(pattern: &str) -> Filter {
    compile(pattern).unwrap_or_else(|e| panic!("{pattern} is refused: {e}"))
}

pub(crate) fn judge(pattern: &str, body: &[u8]) -> Result<bool, EvalError> {
    let filter = filter(pattern);
    let verdict = filter.matches(&Document::new(&Attributes::default(), body));
    check_indexed(pattern, &filter, &Attributes::default(), body, verdict);
    verdict
}

/// An index of this one filter gives the same verdict; or one where the filter alone gives none.
pub(crate) fn check_indexed(
    pattern: &str,
    filter: &Filter,
    attributes: &Attributes,
    body: &[u8],
    verdict: Result<bool, EvalError>,
) {
    for prefilter in [true, false] {
        let mut index = Index::new(IndexOptions { prefilter });
        assert_eq!(index.apply(&[Change::Put(FilterId(3), filter)]), []);
        let mut scratch = Scratch::new();
        let snapshot = index.snapshot();
        let found = snapshot.matches(&mut scratch, attributes, body);
        match verdict {
            Ok(expected) => assert_eq!(
                (found.ids, found.failed),
                (if expected { &[FilterId(3)][..] } else { &[] }, &[][..]),
                "indexed: {pattern:.200} on {:.200}",
                String::from_utf8_lossy(body)
            ),
            Err(error) => assert!(found.failed.iter().all(|failed| *failed == (FilterId(3), error))),
        }
    }
}

/// Runs a table of (pattern, body, expected), and checks that every explanation gives the same verdict.
pub(crate) fn check(table: &[(&str, &str, bool)]) {
    for (pattern, body, expected) in table {
        let attributes = Attributes::default();
        let document = Document::new(&attributes, body.as_bytes());
        let filter = filter(pattern);
        assert_eq!(filter.matches(&document), Ok(*expected), "{pattern} on {body}");
        check_indexed(pattern, &filter, &attributes, body.as_bytes(), Ok(*expected));
        let explanation = agrees(&filter, &document, pattern);
        assert_eq!(explanation.matched, *expected, "explained: {pattern} on {body}");
    }
}
