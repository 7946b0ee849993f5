//! The functions of the specification.

use super::expression::Type;
use super::value::{Problem, Value};

/// A built-in function, as it is called with a certain number of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Length,
    Concat,
    ConcatWs,
    Lower,
    Upper,
    Trim,
    Left,
    Right,
    SubstringFrom,
    Substring,
    Abs,
    Int,
    Bool,
    String,
}

/// What there is, for error texts.
pub(super) const SIGNATURES: &str = "LENGTH(x), CONCAT(x, …), CONCAT_WS(delimiter, x, …), LOWER(x), UPPER(x), TRIM(x), \
                                     LEFT(x, n), RIGHT(x, n), SUBSTRING(x, from), SUBSTRING(x, from, length), ABS(x), \
                                     INT(x), BOOL(x), STRING(x)";

impl Function {
    /// The function with this name, in any case, that takes so many arguments.
    pub(super) fn find(name: &str, arguments: usize) -> Option<Self> {
        Some(match (name.to_ascii_uppercase().as_str(), arguments) {
            ("LENGTH", 1) => Function::Length,
            ("CONCAT", _) => Function::Concat,
            ("CONCAT_WS", 1..) => Function::ConcatWs,
            ("LOWER", 1) => Function::Lower,
            ("UPPER", 1) => Function::Upper,
            ("TRIM", 1) => Function::Trim,
            ("LEFT", 2) => Function::Left,
            ("RIGHT", 2) => Function::Right,
            ("SUBSTRING", 2) => Function::SubstringFrom,
            ("SUBSTRING", 3) => Function::Substring,
            ("ABS", 1) => Function::Abs,
            ("INT", 1) => Function::Int,
            ("BOOL", 1) => Function::Bool,
            ("STRING", 1) => Function::String,
            _ => return None,
        })
    }

    /// The type of what it gives.
    pub(crate) fn result(self) -> Type {
        match self {
            Function::Length | Function::Abs | Function::Int => Type::Integer,
            Function::Bool => Type::Boolean,
            _ => Type::Text,
        }
    }

    /// Calls it. There are as many arguments as it takes. With an error there is a value, too.
    pub(super) fn call(self, arguments: &[&Value<'_>]) -> (Value<'static>, Option<Problem>) {
        let mut problem = None;
        let value = self.value(arguments, &mut problem);
        (value, problem)
    }

    fn value(self, arguments: &[&Value<'_>], problem: &mut Option<Problem>) -> Value<'static> {
        let mut note = |found: Problem| {
            problem.get_or_insert(found);
        };
        let (Some(first), rest) = (arguments.first(), arguments.get(1..).unwrap_or_default()) else {
            return text(String::new());
        };
        match self {
            Function::Int => {
                return Value::Integer(first.to_integer().unwrap_or_else(|p| zero(p, &mut note)));
            }
            Function::Bool => {
                return Value::Boolean(first.to_boolean().unwrap_or_else(|p| zero(p, &mut note)));
            }
            Function::Abs => {
                let number = first.to_integer().unwrap_or_else(|p| zero(p, &mut note));
                return Value::Integer(number.checked_abs().unwrap_or_else(|| {
                    note(Problem::Math);
                    i32::MAX
                }));
            }
            _ => {}
        }
        let x = first.to_text().unwrap_or_else(|p| zero(p, &mut note));
        let mut number =
            |at: usize| rest.get(at).map_or(0, |v| v.to_integer().unwrap_or_else(|p| zero(p, &mut note)));
        match self {
            Function::Length => Value::Integer(i32::try_from(x.chars().count()).unwrap_or(i32::MAX)),
            Function::Lower => text(x.to_lowercase()),
            Function::Upper => text(x.to_uppercase()),
            Function::Trim => text(x.trim().to_owned()),
            Function::Left => {
                let (kept, wrong) = left(&x, number(0));
                text(noted(kept, wrong, &mut note))
            }
            Function::Right => {
                let (kept, wrong) = right(&x, number(0));
                text(noted(kept, wrong, &mut note))
            }
            Function::SubstringFrom => {
                let (kept, wrong) = substring(&x, number(0), i32::MAX);
                text(noted(kept, wrong, &mut note))
            }
            Function::Substring => {
                let (kept, wrong) = substring(&x, number(0), number(1));
                text(noted(kept, wrong, &mut note))
            }
            Function::ConcatWs => {
                let mut parts = Vec::with_capacity(rest.len());
                for value in rest {
                    parts.push(value.to_text().unwrap_or_else(|p| zero(p, &mut note)));
                }
                text(parts.join(&*x))
            }
            _ => {
                let mut joined = x.into_owned();
                for value in rest {
                    joined.push_str(&value.to_text().unwrap_or_else(|p| zero(p, &mut note)));
                }
                text(joined)
            }
        }
    }
}

fn text(text: String) -> Value<'static> {
    Value::Text(text.into())
}

fn zero<T: Default>(problem: Problem, note: &mut impl FnMut(Problem)) -> T {
    note(problem);
    T::default()
}

fn noted(kept: &str, wrong: bool, note: &mut impl FnMut(Problem)) -> String {
    if wrong {
        note(Problem::FunctionEvaluation);
    }
    kept.to_owned()
}

/// The byte at which the character of this number begins, or the end.
fn offset(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

/// The first characters, and whether the number of them is wrong.
fn left(text: &str, count: i32) -> (&str, bool) {
    match usize::try_from(count) {
        Ok(count) => (&text[..offset(text, count)], false),
        Err(_) => (text, true),
    }
}

fn right(text: &str, count: i32) -> (&str, bool) {
    match usize::try_from(count) {
        Ok(count) => (&text[offset(text, text.chars().count().saturating_sub(count))..], false),
        Err(_) => (text, true),
    }
}

/// Counts from 1, or from the end when `from` is negative; nothing stands at 0.
fn substring(text: &str, from: i32, length: i32) -> (&str, bool) {
    let chars = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let from = i64::from(from);
    let Ok(length) = usize::try_from(length) else { return ("", true) };
    if from.abs() > chars {
        return ("", true);
    }
    if from == 0 {
        return ("", false);
    }
    let skipped = if from > 0 { from - 1 } else { chars + from };
    let rest = &text[offset(text, usize::try_from(skipped).unwrap_or(usize::MAX))..];
    (&rest[..offset(rest, length)], false)
}
