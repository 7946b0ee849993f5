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
//! | `{"wildcard": {"equals-ignore-case": "a*b"}}` | the same in any case; also with `equals-ignore-ascii-case` |
//! | `{"exactly": "a"}` | the string itself |
//! | `{"numeric": [">", 0, "<=", 5]}` | numbers in a range: one or two of `= < <= > >=` |
//! | `{"date": [">=", "2026-01-01T00:00:00Z"]}` | strings that are an RFC 3339 timestamp in a time: one or two of `= < <= > >=` |
//! | `{"cidr": "10.0.0.0/8"}` | strings that are an IP address of the network |
//! | `{"exists": true}` | any value, `null` too |
//! | `{"exists": false}` | the path has no value anywhere in the event |
//! | `{"anything-but": X}` | a value other than X: a value, a list, or a text operator with a string or a list of strings |
//! | `{"none-of": X}` | as `anything-but`, and in a list of values every one must be other than X |
//! | `{"all-of": [X, Y]}` | a list of values that has every one of these: values or operators on values |
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
//! carry no types.
//!
//! # EventBridge
//!
//! Ours, and not part of EventBridge, are `$attributes`, `none-of`, `all-of`, `date`, `equals-ignore-ascii-case`, wildcards
//! in any case, and single values without a list. The language `eventbridge` is the same without them, so that a pattern
//! which it takes can be moved to EventBridge and back.

mod fields;
mod operators;
mod place;
mod texts;

pub(crate) use fields::{check_attribute_name, describe_attribute, describe_body};
pub(crate) use place::Place;

use crate::error::FilterError;
use crate::ir::Program;
use crate::json::{ScanError, Tape, View, scan};
use crate::limits::Limits;

/// Which patterns are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    /// All of this page.
    #[default]
    Extended,
    /// What EventBridge takes, too: nothing that is ours.
    EventBridge,
}

/// Compiles a pattern of permitted length.
pub(crate) fn parse(text: &str, dialect: Dialect, limits: &Limits) -> Result<Program, FilterError> {
    let tape = read(text)?;
    let root = tape.root();
    if root.view() != View::Object {
        let message = "a pattern is a JSON object; write {\"field\": [\"value\"]}";
        return Err(FilterError::new("filter_not_object", "$", message));
    }
    fields::lower(root, &Place::Root, dialect, limits)
}

/// Reads a filter that is written in JSON.
pub(crate) fn read(text: &str) -> Result<Tape<'_>, FilterError> {
    scan(text.as_bytes()).map_err(|e| not_json(text, e))
}

fn not_json(text: &str, error: ScanError) -> FilterError {
    let before = text.get(..error.offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let message = format!("the filter is not JSON: {} at line {line} column {column}", error.problem);
    FilterError::new("filter_not_json", "$", message)
}
