//! Evaluation of an expression, within a budget of steps.
//!
//! An error is noted and evaluation goes on, as the specification has it: its *complete evaluation mode*. The first error
//! is kept. A path into the body gives as many values as there are; an operator on several values holds when it holds for
//! one of them, and one on none says nothing.

use std::cmp::Ordering;

use super::expression::{Binary, Expr, Kind, Literal, Reference};
use super::value::{Problem, Value, Values};
use crate::document::Document;
use crate::error::EvalError;
use crate::evaluate::{Budget, as_scalar};
use crate::leaves::leaves;
use crate::limits::STEP_BYTES;

/// One run of expressions over one event.
pub(crate) struct Evaluator<'e, 'd, 'b> {
    document: &'e Document<'d>,
    pub(super) budget: &'b mut Budget,
    /// The first error.
    pub(crate) problem: Option<Problem>,
}

impl<'e, 'd, 'b> Evaluator<'e, 'd, 'b> {
    /// Nothing is evaluated yet.
    pub(crate) fn new(document: &'e Document<'d>, budget: &'b mut Budget) -> Self {
        Self { document, budget, problem: None }
    }

    /// The event passes the expression as a filter: it is true, and there was no error.
    pub(crate) fn passes(&mut self, expr: &'e Expr) -> Result<bool, EvalError> {
        Ok(self.truth_of(expr)? == Some(true) && self.problem.is_none())
    }

    /// The expression as a truth. `None`: nothing can be said.
    pub(crate) fn truth_of(&mut self, expr: &'e Expr) -> Result<Option<bool>, EvalError> {
        let values = self.values(expr)?;
        Ok(self.truth(&values))
    }

    pub(super) fn note(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }

    fn truth(&mut self, values: &Values<'_>) -> Option<bool> {
        if *values == Values::Missing {
            return Some(false);
        }
        let mut truth = None;
        for value in values.as_slice() {
            match value.to_boolean() {
                Ok(value) => truth = Some(truth.unwrap_or(false) || value),
                Err(problem) => self.note(problem),
            }
        }
        // What cannot be cast is false, beside the error.
        if values.as_slice().is_empty() { None } else { Some(truth.unwrap_or(false)) }
    }

    /// What the expression gives.
    pub(crate) fn values(&mut self, expr: &'e Expr) -> Result<Values<'e>, EvalError> {
        self.budget.spend(1)?;
        match &expr.kind {
            Kind::Literal(literal) => Ok(Values::One(literal_value(literal))),
            Kind::Reference(reference) => self.reference(reference),
            Kind::Exists(reference) => self.exists(reference),
            Kind::Not(inner) => self.not(inner),
            Kind::Minus(inner) => self.minus(inner),
            Kind::Chain(first, rest) => {
                let mut left = self.values(first)?;
                for (op, operand) in rest {
                    left = if op.is_logic() {
                        self.logic(&left, *op, operand)?
                    } else {
                        let right = self.values(operand)?;
                        if op.is_comparison() {
                            self.comparison(&left, *op, &right)?
                        } else {
                            self.arithmetic(&left, *op, &right)?
                        }
                    };
                }
                Ok(left)
            }
            Kind::Like { value, like, negated } => {
                let values = self.values(value)?;
                self.predicate(&values, *negated, |this, value| {
                    let Value::Leaf(leaf) = value else {
                        let text = value.to_text();
                        return this.like(text.as_deref().map_err(|p| *p), like);
                    };
                    // Leaves of the body are not cast.
                    match leaf {
                        crate::ir::Scalar::Text(text) => this.like(Ok(text), like),
                        _ => Ok(Ok(false)),
                    }
                })
            }
            Kind::In { value, set, negated } => self.is_in(value, set, *negated),
            Kind::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    fn reference(&mut self, reference: &'e Reference) -> Result<Values<'e>, EvalError> {
        match reference {
            Reference::Attribute(name) => {
                let Some(value) = self.document.typed_attribute(name) else {
                    self.note(Problem::MissingAttribute);
                    return Ok(Values::Missing);
                };
                Ok(Values::One(value))
            }
            Reference::Data(keys) => {
                let Some(root) = self.document.root() else { return Ok(Values::Unknown) };
                let mut found = Vec::new();
                leaves(&keys_of(keys), root, self.budget, |leaf| {
                    found.extend(as_scalar(leaf.view()).map(Value::Leaf));
                    true
                })?;
                Ok(Values::of(found))
            }
        }
    }

    fn exists(&mut self, reference: &Reference) -> Result<Values<'e>, EvalError> {
        match reference {
            Reference::Attribute(name) => Ok(Values::truth(self.document.attribute(name).is_some())),
            Reference::Data(keys) => {
                let Some(root) = self.document.root() else { return Ok(Values::Unknown) };
                let mut exists = false;
                leaves(&keys_of(keys), root, self.budget, |_| {
                    exists = true;
                    false
                })?;
                Ok(Values::truth(exists))
            }
        }
    }

    fn not(&mut self, inner: &'e Expr) -> Result<Values<'e>, EvalError> {
        let values = self.values(inner)?;
        if values == Values::Missing {
            return Ok(Values::truth(false));
        }
        // The conformance tests have no cast from an integer here, though `BOOL` has one.
        if let Values::One(Value::Integer(_)) = values {
            self.note(Problem::Cast);
            return Ok(Values::truth(true));
        }
        Ok(self.truth(&values).map_or(Values::Unknown, |truth| Values::truth(!truth)))
    }

    fn minus(&mut self, inner: &'e Expr) -> Result<Values<'e>, EvalError> {
        let values = self.values(inner)?;
        if values == Values::Missing {
            return Ok(Values::One(Value::Integer(0)));
        }
        let mut results = Vec::with_capacity(values.as_slice().len());
        for value in values.as_slice() {
            let number = self.integer(value);
            results.push(Value::Integer(self.checked(number.checked_neg())));
        }
        Ok(Values::of(results))
    }

    fn integer(&mut self, value: &Value<'_>) -> i32 {
        value.to_integer().unwrap_or_else(|problem| {
            self.note(problem);
            0
        })
    }

    fn checked(&mut self, result: Option<i32>) -> i32 {
        result.unwrap_or_else(|| {
            self.note(Problem::Math);
            0
        })
    }

    /// AND and OR do not look at the right side when the left one decides.
    fn logic(&mut self, left: &Values<'e>, op: Binary, right: &'e Expr) -> Result<Values<'e>, EvalError> {
        let missing = *left == Values::Missing;
        let left = self.truth(left);
        match (op, left) {
            (Binary::And, Some(false)) => return Ok(Values::truth(false)),
            (Binary::Or, Some(true)) => return Ok(Values::truth(true)),
            _ => {}
        }
        let right = self.values(right)?;
        if missing || right == Values::Missing {
            return Ok(Values::truth(false));
        }
        let right = self.truth(&right);
        let truth = match (op, left, right) {
            (Binary::And, Some(left), Some(right)) => Some(left && right),
            (Binary::And, _, Some(false)) => Some(false),
            (Binary::Or, Some(left), Some(right)) => Some(left || right),
            (Binary::Or, _, Some(true)) => Some(true),
            (Binary::Xor, Some(left), Some(right)) => Some(left != right),
            _ => None,
        };
        Ok(truth.map_or(Values::Unknown, Values::truth))
    }

    fn comparison(
        &mut self,
        left: &Values<'e>,
        op: Binary,
        right: &Values<'e>,
    ) -> Result<Values<'e>, EvalError> {
        // With an error in an operand there is nothing to compare: the zero value.
        if self.problem.is_some() {
            return Ok(Values::truth(false));
        }
        let mut holds = None;
        let mut failed = false;
        for left in left.as_slice() {
            for right in right.as_slice() {
                self.budget.spend(1 + cost(left) + cost(right))?;
                match compare(left, op, right) {
                    Ok(truth) => holds = Some(holds.unwrap_or(false) || truth),
                    Err(problem) => {
                        self.note(problem);
                        failed = true;
                    }
                }
            }
        }
        if failed {
            return Ok(Values::truth(false));
        }
        let holds = if op == Binary::NotEqual { holds.map(|equal| !equal) } else { holds };
        Ok(holds.map_or(Values::Unknown, Values::truth))
    }

    fn arithmetic(
        &mut self,
        left: &Values<'e>,
        op: Binary,
        right: &Values<'e>,
    ) -> Result<Values<'e>, EvalError> {
        if *left == Values::Missing || *right == Values::Missing {
            return Ok(Values::One(Value::Integer(0)));
        }
        let mut results = Vec::new();
        for left in left.as_slice() {
            for right in right.as_slice() {
                self.budget.spend(1)?;
                let (left, right) = (self.integer(left), self.integer(right));
                let result = match op {
                    Binary::Multiply => left.checked_mul(right),
                    Binary::Divide => left.checked_div(right),
                    Binary::Remainder if right == -1 => Some(0),
                    Binary::Remainder => left.checked_rem(right),
                    Binary::Subtract => left.checked_sub(right),
                    _ => left.checked_add(right),
                };
                results.push(Value::Integer(self.checked(result)));
            }
        }
        Ok(Values::of(results))
    }

    /// Some value passes the test.
    fn predicate(
        &mut self,
        values: &Values<'e>,
        negated: bool,
        mut test: impl FnMut(&mut Self, &Value<'e>) -> Result<Result<bool, Problem>, EvalError>,
    ) -> Result<Values<'e>, EvalError> {
        if *values == Values::Missing {
            return Ok(Values::truth(false));
        }
        let mut holds = None;
        for value in values.as_slice() {
            match test(self, value)? {
                Ok(truth) => holds = Some(holds.unwrap_or(false) || truth),
                Err(problem) => {
                    self.note(problem);
                    return Ok(Values::truth(false));
                }
            }
        }
        Ok(holds.map_or(Values::Unknown, |holds| Values::truth(holds != negated)))
    }

    fn like(
        &mut self,
        text: Result<&str, Problem>,
        like: &super::like::Like,
    ) -> Result<Result<bool, Problem>, EvalError> {
        let text = match text {
            Ok(text) => text,
            Err(problem) => return Ok(Err(problem)),
        };
        self.budget.spend(1 + like.cost(text.len()) / STEP_BYTES)?;
        Ok(Ok(like.accepts(text)))
    }

    /// Elements are looked at one after the other until one is equal; each is cast to the type of `value`.
    fn is_in(&mut self, value: &'e Expr, set: &'e [Expr], negated: bool) -> Result<Values<'e>, EvalError> {
        let values = self.values(value)?;
        if values == Values::Missing {
            return Ok(Values::truth(false));
        }
        let mut holds = None;
        for element in set {
            let element = self.values(element)?;
            if element == Values::Missing {
                return Ok(Values::truth(false));
            }
            for value in values.as_slice() {
                for element in element.as_slice() {
                    self.budget.spend(1 + cost(value) + cost(element))?;
                    match element.equals(value) {
                        Ok(true) => return Ok(Values::truth(!negated)),
                        Ok(false) => holds = Some(false),
                        Err(problem) => {
                            self.note(problem);
                            return Ok(Values::truth(false));
                        }
                    }
                }
            }
        }
        Ok(holds.map_or(Values::Unknown, |holds: bool| Values::truth(holds != negated)))
    }
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Boolean(truth) => Value::Boolean(*truth),
        Literal::Integer(number) => Value::Integer(*number),
        Literal::Text(text) => Value::Text((&**text).into()),
    }
}

/// Steps for the bytes of a value.
pub(super) fn cost(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) | Value::Attribute(text) => text.len() / STEP_BYTES,
        Value::Leaf(leaf) => leaf.bytes() / STEP_BYTES,
        Value::Boolean(_) | Value::Integer(_) => 0,
    }
}

/// The comparison holds; `!=` is answered as `=`.
fn compare(left: &Value<'_>, op: Binary, right: &Value<'_>) -> Result<bool, Problem> {
    let wanted: &[Ordering] = match op {
        Binary::Less => &[Ordering::Less],
        Binary::LessOrEqual => &[Ordering::Less, Ordering::Equal],
        Binary::Greater => &[Ordering::Greater],
        Binary::GreaterOrEqual => &[Ordering::Greater, Ordering::Equal],
        _ => return left.equals(right),
    };
    Ok(left.compare(right)?.is_some_and(|order| wanted.contains(&order)))
}

/// The keys of a path, borrowed.
pub(crate) fn keys_of(keys: &[Box<str>]) -> Vec<&str> {
    keys.iter().map(|key| &**key).collect()
}
