//! Values, their casts, and what can go wrong.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::ir::{Scalar, is_integer};
use crate::number::Decimal;

/// An error of the specification: the expression has a value all the same, but the event does not pass a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    MissingAttribute,
    Cast,
    Math,
    MissingFunction,
    FunctionEvaluation,
}

impl Problem {
    /// The stable code, for explanations.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Problem::MissingAttribute => "missing_attribute",
            Problem::Cast => "cast",
            Problem::Math => "math",
            Problem::MissingFunction => "missing_function",
            Problem::FunctionEvaluation => "function_evaluation",
        }
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'v> {
    Boolean(bool),
    Integer(i32),
    Text(Cow<'v, str>),
    /// The text of an attribute that is not known to be anything else.
    Attribute(Cow<'v, str>),
    /// A leaf of the body, with its own type.
    Leaf(Scalar<'v>),
}

impl Value<'_> {
    /// As a text. `null` is none.
    pub(super) fn to_text(&self) -> Result<Cow<'_, str>, Problem> {
        Ok(match self {
            Value::Boolean(true) | Value::Leaf(Scalar::Bool(true)) => Cow::Borrowed("true"),
            Value::Boolean(false) | Value::Leaf(Scalar::Bool(false)) => Cow::Borrowed("false"),
            Value::Integer(number) => Cow::Owned(number.to_string()),
            Value::Text(text) | Value::Attribute(text) => Cow::Borrowed(text),
            Value::Leaf(Scalar::Text(text) | Scalar::Attribute(text) | Scalar::Number(text)) => {
                Cow::Borrowed(text)
            }
            Value::Leaf(Scalar::Null) => return Err(Problem::Cast),
        })
    }

    /// As a whole number of 32 bits.
    pub(super) fn to_integer(&self) -> Result<i32, Problem> {
        match self {
            Value::Boolean(truth) | Value::Leaf(Scalar::Bool(truth)) => Ok(i32::from(*truth)),
            Value::Integer(number) => Ok(*number),
            Value::Text(text) | Value::Attribute(text) => text.parse().map_err(|_| Problem::Cast),
            Value::Leaf(Scalar::Text(text) | Scalar::Attribute(text)) => {
                text.parse().map_err(|_| Problem::Cast)
            }
            Value::Leaf(Scalar::Number(text)) => Decimal::read(text).to_i32().ok_or(Problem::Cast),
            Value::Leaf(Scalar::Null) => Err(Problem::Cast),
        }
    }

    /// As a truth: texts in any case, numbers other than 0.
    pub(super) fn to_boolean(&self) -> Result<bool, Problem> {
        match self {
            Value::Boolean(truth) | Value::Leaf(Scalar::Bool(truth)) => Ok(*truth),
            Value::Text(text) | Value::Attribute(text) => read_boolean(text),
            Value::Leaf(Scalar::Text(text) | Scalar::Attribute(text)) => read_boolean(text),
            Value::Integer(_) | Value::Leaf(Scalar::Number(_)) => self.to_integer().map(|number| number != 0),
            Value::Leaf(Scalar::Null) => Err(Problem::Cast),
        }
    }

    /// `self = other`; the left side is cast to the type of the right one. Leaves of the body are not cast: other types
    /// are other values.
    pub(super) fn equals(&self, other: &Value<'_>) -> Result<bool, Problem> {
        match (self, other) {
            (Value::Leaf(leaf), other) | (other, Value::Leaf(leaf)) => Ok(is_leaf(leaf, other)),
            (left, Value::Boolean(right)) => Ok(left.to_boolean()? == *right),
            (left, Value::Integer(right)) => Ok(left.to_integer()? == *right),
            (left, Value::Text(right) | Value::Attribute(right)) => Ok(left.to_text()? == *right),
        }
    }

    /// The order of two numbers. `None`: a leaf of the body is on one side, and no numbers are on both.
    pub(super) fn compare(&self, other: &Value<'_>) -> Result<Option<Ordering>, Problem> {
        if !matches!(self, Value::Leaf(_)) && !matches!(other, Value::Leaf(_)) {
            return Ok(Some(self.to_integer()?.cmp(&other.to_integer()?)));
        }
        let (Some(left), Some(right)) = (self.number(), other.number()) else { return Ok(None) };
        Ok(Some(Decimal::read(&left).compare(&Decimal::read(&right))))
    }

    /// The text of the number that this is, beside a leaf of the body.
    fn number(&self) -> Option<Cow<'_, str>> {
        match self {
            Value::Leaf(Scalar::Number(text)) => Some(Cow::Borrowed(text)),
            Value::Integer(number) => Some(Cow::Owned(number.to_string())),
            Value::Attribute(text) if is_integer(text) => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }
}

fn read_boolean(text: &str) -> Result<bool, Problem> {
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(Problem::Cast)
    }
}

/// A leaf of the body equals a value. The text of an attribute is also the number or truth that it reads as.
fn is_leaf(leaf: &Scalar<'_>, other: &Value<'_>) -> bool {
    let same_number = |left: &str, right: &str| Decimal::read(left).compare(&Decimal::read(right)).is_eq();
    match (leaf, other) {
        (Scalar::Number(left), other) => other.number().is_some_and(|right| same_number(left, &right)),
        (Scalar::Text(left), Value::Text(right) | Value::Attribute(right)) => *left == *right,
        (Scalar::Text(left), Value::Leaf(Scalar::Text(right))) => left == right,
        (Scalar::Bool(left), Value::Boolean(right) | Value::Leaf(Scalar::Bool(right))) => left == right,
        (Scalar::Bool(left), Value::Attribute(right)) => *right == if *left { "true" } else { "false" },
        (Scalar::Null, Value::Leaf(Scalar::Null)) => true,
        _ => false,
    }
}

/// What an expression gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Values<'v> {
    /// An attribute that the event does not have: what needs it gives the zero value of its type.
    Missing,
    /// A path of the body without a value: nothing can be said, as with NULL in SQL.
    Unknown,
    One(Value<'v>),
    /// Of a path through lists: more than one.
    Many(Vec<Value<'v>>),
}

impl<'v> Values<'v> {
    pub(super) fn of(mut values: Vec<Value<'v>>) -> Self {
        if values.len() > 1 {
            return Values::Many(values);
        }
        values.pop().map_or(Values::Unknown, Values::One)
    }

    pub(super) fn truth(truth: bool) -> Self {
        Values::One(Value::Boolean(truth))
    }

    pub(super) fn as_slice(&self) -> &[Value<'v>] {
        match self {
            Values::Missing | Values::Unknown => &[],
            Values::One(value) => std::slice::from_ref(value),
            Values::Many(values) => values,
        }
    }
}
