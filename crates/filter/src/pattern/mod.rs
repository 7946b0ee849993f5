//! The `pattern` language: EventBridge patterns on the JSON body, and a few more operators.
//!
//! A pattern is a JSON object that looks like the events it matches. Objects are fields to go into, lists say which
//! values are wanted there: all fields must match (and), one value of a list must (or).
//!
//! ```json
//! {
//!   "project": { "key": ["FOO"] },
//!   "priority": ["Critical", { "prefix": "High" }],
//!   "$attributes": { "source": [{ "suffix": "/issues" }] }
//! }
//! ```
//!
//! # Values
//!
//! A list holds strings, numbers, `true`, `false`, `null`, and operators. A single value may stand without its list.
//! Types are told apart: `["5"]` and `[5]` differ. Numbers are compared as exact decimals: `[1]` is `1.0` and
//! `10e-1`, and 9007199254740993 is not 9007199254740992.
//!
//! | operator | accepts |
//! |---|---|
//! | `{"prefix": "a"}`, `{"suffix": "a"}` | strings that start or end so |
//! | `{"equals-ignore-case": "a"}` | the string in any case: Unicode simple case folding, so `ß` is not `SS` |
//! | `{"equals-ignore-ascii-case": "a"}` | the same for `A-Z` only |
//! | `{"prefix": {"equals-ignore-case": "a"}}` | both together; also for `suffix` and with `equals-ignore-ascii-case` |
//! | `{"wildcard": "a*b"}` | `*` stands for any text; write `\*` and `\\` for the characters |
//! | `{"exactly": "a"}` | the string itself |
//! | `{"numeric": [">", 0, "<=", 5]}` | numbers in a range: one or two of `= < <= > >=` |
//! | `{"cidr": "10.0.0.0/8"}` | strings that are an IP address of the network |
//! | `{"exists": true}` | any value, `null` too |
//! | `{"exists": false}` | the path has no value anywhere in the event |
//! | `{"anything-but": X}` | a value other than X: a value, a list, or a text operator with a string or a list of strings |
//! | `{"none-of": X}` | as `anything-but`, and in a list of values every one must be other than X |
//!
//! # Arrays, absence, alternatives
//!
//! - A path goes through arrays: one element must match. Fields below the same array must match within one element of
//!   it. `anything-but` is satisfied by one other element, as in EventBridge; `none-of` looks at the whole list.
//! - Only leaves exist: an object, an empty object and an empty list are absent. Absence is a fact of the whole
//!   event: a field that one element has and another has not is present.
//! - `"$or": [{…}, {…}]` beside other fields: one of at least two objects must match. The other fields are added to
//!   each of them; a path may be wanted only once in the result.
//! - A key is a key: `"a.b"` is not `a` in `b`. Strings are not normalised (NFC and NFD differ).
//! - A body that is not JSON matches no clause on the body, `exists: false` neither.
//!
//! # Attributes
//!
//! `"$attributes": {…}` at the root, or at the root of an alternative, holds lists for CloudEvents context attributes
//! by name (`type`, `source`, `subject`, `id`, `time`, `datacontenttype`, `dataschema`, extensions). An attribute is
//! matched by its canonical text, and also as the boolean or integer which that text reads as, because HTTP headers
//! carry no types. This key is ours and not part of EventBridge, as are `none-of`, `equals-ignore-ascii-case` and
//! single values without a list: the strict dialect ([`Filter::compile_eventbridge`](crate::Filter::compile_eventbridge))
//! refuses them, so that a pattern which it takes can be moved to EventBridge and back.

mod fields;
mod operators;
mod place;

use crate::error::FilterError;
use crate::ir::Program;
use crate::json::{ScanError, View, scan};
use crate::limits::TEXT_MAX_CHARS;
use place::Place;

/// Which patterns are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    /// All of this page.
    #[default]
    Extended,
    /// What EventBridge takes, too: nothing that is ours.
    EventBridge,
}

/// Compiles a pattern.
pub(crate) fn parse(text: &str, dialect: Dialect) -> Result<Program, FilterError> {
    // Counting stops at the limit: the text may be anything.
    if text.chars().nth(TEXT_MAX_CHARS).is_some() {
        let message = format!(
            "the filter is longer than {TEXT_MAX_CHARS} characters; shorten it or split the subscription"
        );
        return Err(FilterError::new("filter_too_long", "$", message));
    }
    let tape = scan(text.as_bytes()).map_err(|e| not_json(text, e))?;
    let root = tape.root();
    if root.view() != View::Object {
        let message = "a pattern is a JSON object; write {\"field\": [\"value\"]}";
        return Err(FilterError::new("filter_not_object", "$", message));
    }
    fields::lower(root, &Place::Root, dialect)
}

fn not_json(text: &str, error: ScanError) -> FilterError {
    let before = text.get(..error.offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let message = format!("the filter is not JSON: {} at line {line} column {column}", error.problem);
    FilterError::new("filter_not_json", "$", message)
}
