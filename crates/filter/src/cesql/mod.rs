//! The `cesql` language: CloudEvents SQL 1.0 on the attributes of an event, and the **data extension**: paths into its
//! body.
//!
//! ```text
//! type = 'com.example.issue.updated' AND data.project.key = 'FOO' AND data.priority = 'Critical'
//! ```
//!
//! On attributes everything is as the specification has it: the conformance tests pass. So an attribute that the event
//! does not have is an error, an error anywhere means that the event does not pass, AND, OR and XOR bind equally tight
//! (from left to right), NOT binds tighter than `=`, and integers have 32 bits. Attributes are also cast to a truth when
//! they stand alone (`urgent AND type = 'x'`), so that it does not matter whether a header or JSON brought them.
//!
//! # The data extension
//!
//! `data.a.b` is the value of `b` in `a` in the JSON body; keys other than letters, digits, `_`, `$` and `@` are written
//! `data.a['the key']`. Keys are case-sensitive.
//!
//! - Types are told apart, and nothing is cast when a path is compared: `data.n = 5` is not true of `"5"`; write
//!   `INT(data.n) = 5`. Numbers are exact decimals: `data.price < 9` is true of 8.99. `LIKE` is about strings only.
//! - A path goes through lists, and a comparison holds when one value satisfies it: `data.tags = 'x'`. `!=` and `NOT`
//!   are the opposite of that: no value is `'x'`. Two comparisons may be satisfied by two elements; to want them in one,
//!   use the language `pattern`.
//! - Of a path without a value (absent, an object, an empty list, a body that is not JSON) nothing can be said, as of
//!   NULL in SQL: neither `data.a = 'x'` nor `NOT (data.a = 'x')` passes, but `data.a = 'x' OR type = 'y'` may.
//!   `EXISTS data.a` asks for it. `null` is a value, and equal to nothing that can be written.

mod call;
mod evaluate;
mod expression;
mod functions;
mod lex;
mod like;
mod lower;
mod parse;
#[cfg(test)]
mod tck;
#[cfg(test)]
mod tests;
mod value;

use std::ops::Range;

pub(crate) use evaluate::{Evaluator, keys_of};
pub(crate) use expression::{Binary, Expr, Kind, Reference, Type};
pub(crate) use lower::lower;
pub(crate) use value::Value;

use crate::error::FilterError;
use crate::limits::Limits;

/// A compiled expression with its text.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) text: Box<str>,
    pub(crate) root: Expr,
}

impl Expression {
    /// Parses a text of permitted length. What the specification finds only when it evaluates is taken.
    pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Self, FilterError> {
        Ok(Self { text: text.into(), root: parse::parse(text, limits)? })
    }

    /// Parses a filter: an expression that can be true.
    pub(crate) fn filter(text: &str, limits: &Limits) -> Result<Self, FilterError> {
        let expression = Self::parse(text, limits)?;
        expression.check_calls(&expression.root)?;
        let found = match expression.root.known_type() {
            Some(Type::Integer) => "a number",
            Some(Type::Text) => "a string",
            _ => return Ok(expression),
        };
        let message =
            format!("the expression gives {found}, not true or false; compare it with something, it begins");
        Err(lex::error_at("filter_not_boolean", text, expression.root.at.start, &message))
    }

    fn check_calls(&self, expr: &Expr) -> Result<(), FilterError> {
        if let Kind::Call(None, _) = &expr.kind {
            let message = format!(
                "there is no function of this name with so many arguments; there are {}; it stands",
                functions::SIGNATURES
            );
            return Err(lex::error_at("filter_unknown_function", &self.text, expr.at.start, &message));
        }
        expr.children().try_for_each(|child| self.check_calls(child))
    }

    /// The text of a part.
    pub(crate) fn text_of(&self, at: &Range<usize>) -> &str {
        self.text.get(at.clone()).unwrap_or(&self.text)
    }
}
