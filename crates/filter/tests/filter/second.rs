//! A second evaluator of expressions, which shares no code with the crate: it walks the tree that a text was written from,
//! over `serde_json` values.

use mailrail_types::{AttributeValue, Attributes};
use serde_json::Value;

use crate::expressions::{Literal, Side, Tree};

/// A value of the second evaluator.
#[derive(Clone)]
pub(crate) enum Seen {
    Text(String),
    Integer(i32),
    Boolean(bool),
    Json(Value),
}

/// An error: the event does not pass, whatever else holds.
pub(crate) struct Failed;

pub(crate) type Truth = Result<Option<bool>, Failed>;

/// The event of the second evaluator. `body`: `None` when it is not JSON.
pub(crate) struct Event<'e> {
    attributes: &'e Attributes,
    body: Option<Value>,
}

impl<'e> Event<'e> {
    /// Reads the body with `serde_json`.
    pub(crate) fn new(attributes: &'e Attributes, body: &[u8]) -> Self {
        Self { attributes, body: serde_json::from_slice(body).ok() }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<Seen> {
        let text = |text: &str| Seen::Text(text.to_owned());
        match name {
            "type" => Some(text(&self.attributes.event_type)),
            "source" => Some(text(&self.attributes.source)),
            "subject" => self.attributes.subject.as_deref().map(text),
            _ => self.attributes.extension(name).map(|value| match value {
                AttributeValue::Boolean(truth) => Seen::Boolean(*truth),
                AttributeValue::Integer(number) => Seen::Integer(*number),
                AttributeValue::String(value) => text(value),
            }),
        }
    }

    /// Every value; `None` of an attribute that is missing.
    fn values(&self, side: &Side) -> Option<Vec<Seen>> {
        match side {
            Side::Attribute(name) => self.attribute(name).map(|value| vec![value]),
            Side::Data(keys) => {
                let mut found = Vec::new();
                if let Some(body) = &self.body {
                    collect(body, keys, &mut found);
                }
                Some(found)
            }
        }
    }
}

fn collect(value: &Value, keys: &[&str], found: &mut Vec<Seen>) {
    match (value, keys) {
        (Value::Array(list), _) => list.iter().for_each(|element| collect(element, keys, found)),
        (Value::Object(members), [key, rest @ ..]) => {
            if let Some(member) = members.get(*key) {
                collect(member, rest, found);
            }
        }
        (Value::Object(_), []) => {}
        (leaf, []) => found.push(Seen::Json(leaf.clone())),
        _ => {}
    }
}

pub(crate) fn text_of(seen: &Seen) -> Result<String, Failed> {
    match seen {
        Seen::Text(text) | Seen::Json(Value::String(text)) => Ok(text.clone()),
        Seen::Integer(number) => Ok(number.to_string()),
        Seen::Boolean(truth) | Seen::Json(Value::Bool(truth)) => Ok(truth.to_string()),
        Seen::Json(Value::Number(number)) => Ok(number.to_string()),
        Seen::Json(_) => Err(Failed),
    }
}

fn integer_of(seen: &Seen) -> Result<i32, Failed> {
    match seen {
        Seen::Text(text) => text.parse().map_err(|_| Failed),
        Seen::Integer(number) => Ok(*number),
        Seen::Boolean(truth) => Ok(i32::from(*truth)),
        Seen::Json(_) => Err(Failed),
    }
}

fn truth_of(seen: &Seen) -> Result<bool, Failed> {
    match seen {
        Seen::Text(text) | Seen::Json(Value::String(text)) => match text.to_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Failed),
        },
        Seen::Integer(number) => Ok(*number != 0),
        Seen::Boolean(truth) | Seen::Json(Value::Bool(truth)) => Ok(*truth),
        Seen::Json(Value::Number(number)) => {
            let number = number.as_f64().ok_or(Failed)?;
            let whole = number.fract() == 0.0 && number.abs() <= 2_147_483_647.0;
            if whole { Ok(number != 0.0) } else { Err(Failed) }
        }
        Seen::Json(_) => Err(Failed),
    }
}

fn seen(literal: &Literal) -> Seen {
    match literal {
        Literal::Text(text) => Seen::Text((*text).to_owned()),
        Literal::Integer(number) => Seen::Integer(*number),
        Literal::Boolean(truth) => Seen::Boolean(*truth),
    }
}

/// `left = right`, the left side cast to the type of the right one.
fn equal(left: &Seen, right: &Seen) -> Result<bool, Failed> {
    Ok(match (left, right) {
        (Seen::Json(json), other) | (other, Seen::Json(json)) => match (json, other) {
            (Value::String(left), Seen::Text(right)) => left == right,
            (Value::Bool(left), Seen::Boolean(right)) => left == right,
            (Value::Number(left), Seen::Integer(right)) => left.as_f64() == Some(f64::from(*right)),
            _ => false,
        },
        (left, Seen::Text(right)) => text_of(left)? == *right,
        (left, Seen::Integer(right)) => integer_of(left)? == *right,
        (left, Seen::Boolean(right)) => truth_of(left)? == *right,
    })
}

fn ordered(left: &Seen, op: &str, right: &Seen) -> Result<bool, Failed> {
    let (left, right) = match (left, right) {
        (Seen::Json(Value::Number(left)), Seen::Integer(right)) => (left.as_f64(), Some(f64::from(*right))),
        (Seen::Integer(left), Seen::Json(Value::Number(right))) => (Some(f64::from(*left)), right.as_f64()),
        (Seen::Json(_), _) | (_, Seen::Json(_)) => return Ok(false),
        (left, right) => (Some(f64::from(integer_of(left)?)), Some(f64::from(integer_of(right)?))),
    };
    let (Some(left), Some(right)) = (left, right) else { return Ok(false) };
    Ok(match op {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

fn like(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('%', rest)) => (0..=text.len()).any(|skipped| like(rest, &text[skipped..])),
        Some(('_', rest)) => !text.is_empty() && like(rest, &text[1..]),
        Some((c, rest)) => text.first() == Some(c) && like(rest, &text[1..]),
    }
}

/// Some value holds; nothing is said when there is none.
fn some(values: &[Seen], mut holds: impl FnMut(&Seen) -> Result<bool, Failed>) -> Truth {
    let mut any = None;
    for value in values {
        any = Some(any.unwrap_or(false) | holds(value)?);
    }
    Ok(any)
}

impl Tree {
    fn is_integer(&self, event: &Event<'_>) -> bool {
        let Tree::Truth(Side::Attribute(name)) = self else { return false };
        matches!(event.attribute(name), Some(Seen::Integer(_)))
    }

    pub(crate) fn truth(&self, event: &Event<'_>) -> Truth {
        let negate = |truth: Option<bool>, negated: bool| truth.map(|truth| truth != negated);
        match self {
            Tree::Compare(side, op, literal, first) => {
                let literal = seen(literal);
                let holds = |value: &Seen| {
                    let (left, right) = if *first { (&literal, value) } else { (value, &literal) };
                    if matches!(*op, "=" | "!=") { equal(left, right) } else { ordered(left, op, right) }
                };
                Ok(negate(some(&event.values(side).ok_or(Failed)?, holds)?, *op == "!="))
            }
            Tree::Like(side, pattern, negated) => {
                let pattern: Vec<char> = pattern.chars().collect();
                let holds = |value: &Seen| match value {
                    Seen::Json(Value::String(text)) => Ok(like(&pattern, &text.chars().collect::<Vec<_>>())),
                    Seen::Json(_) => Ok(false),
                    other => Ok(like(&pattern, &text_of(other)?.chars().collect::<Vec<_>>())),
                };
                Ok(negate(some(&event.values(side).ok_or(Failed)?, holds)?, *negated))
            }
            Tree::In(side, set, negated) => {
                let values = event.values(side).ok_or(Failed)?;
                for literal in set {
                    for value in &values {
                        if equal(&seen(literal), value)? {
                            return Ok(Some(!negated));
                        }
                    }
                }
                Ok((!values.is_empty()).then_some(*negated))
            }
            Tree::Exists(Side::Attribute(name)) => Ok(Some(event.attribute(name).is_some())),
            Tree::Exists(side) => {
                let found = event.values(side).is_some_and(|values| !values.is_empty());
                Ok(event.body.is_some().then_some(found))
            }
            Tree::LowerIs(side, text) => {
                let values = event.values(side).ok_or(Failed)?;
                some(&values, |value| Ok(text_of(value)?.to_lowercase() == *text))
            }
            Tree::Truth(side) => some(&event.values(side).ok_or(Failed)?, truth_of),
            // The conformance tests have it so: NOT does not cast integers.
            Tree::Not(inner) if inner.is_integer(event) => Err(Failed),
            Tree::Not(inner) => Ok(inner.truth(event)?.map(|truth| !truth)),
            Tree::Join(left, op, right) => {
                let left = left.truth(event)?;
                match (*op, left) {
                    ("AND", Some(false)) => return Ok(Some(false)),
                    ("OR", Some(true)) => return Ok(Some(true)),
                    _ => {}
                }
                let right = right.truth(event)?;
                Ok(match (*op, left, right) {
                    ("AND", _, Some(false)) => Some(false),
                    ("OR", _, Some(true)) => Some(true),
                    ("AND", Some(true), right) => right,
                    ("OR", Some(false), right) => right,
                    ("XOR", Some(left), Some(right)) => Some(left != right),
                    _ => None,
                })
            }
        }
    }
}
