//! Explanations: why a filter matched an event or not, part by part, for people.
//!
//! A filter is shown as it combines its clauses: a pattern as the alternatives that `$or` stands for, an expression and a list
//! of CloudEvents filters as they are written. What evaluation does not come to, because what stands before decided, is shown
//! with what it would have said.

mod pattern;
mod rule;

use serde::Serialize;

use crate::document::{BodyState, Document};
use crate::evaluate::{Budget, evaluate};
use crate::ir::Program;
use crate::json::quote;
use crate::leaves::leaves;
use crate::limits::{
    EXPLAINED_CLAUSES_MAX, EXPLAINED_DEPTH_MAX, EXPLAINED_VALUE_CHARS_MAX, EXPLAINED_VALUES_MAX, STEPS_MAX,
};

/// Why an event matches a filter or not. It shows values of the body: give it to the event's tenant only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The verdict, the same as [`Filter::matches`](crate::Filter::matches) gives; false when there is none.
    pub matched: bool,
    /// Code of the [`EvalError`](crate::EvalError) when there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// Whether the body could be read.
    pub body: BodyState,
    /// The whole filter.
    pub root: Part,
    /// How many parts are not shown: there are more clauses than [`EXPLAINED_CLAUSES_MAX`], more alternatives than
    /// [`EXPLAINED_ALTERNATIVES_MAX`](crate::limits::EXPLAINED_ALTERNATIVES_MAX), or they are nested deeper than
    /// [`EXPLAINED_DEPTH_MAX`]. What is around them is judged with them all the same.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// A part of a filter, and what it came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is.
    #[serde(flatten)]
    pub what: What,
    /// Whether it holds. `None`: nothing can be said of it, because a path of an expression has no value or the event is too
    /// large to try it.
    pub held: Option<bool>,
    /// False: evaluation does not come to it, because what stands before it decided.
    pub evaluated: bool,
    /// What its parts one by one do not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// What a part of a filter is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A condition that is not made of others.
    Clause(ClauseExplanation),
    /// Holds when all of these do. Of none: every event passes, unless a note says that they are not shown.
    All(Vec<Part>),
    /// Holds when one of these does.
    Any(Vec<Part>),
    /// Holds when an odd number of these does.
    Xor(Vec<Part>),
    /// Holds when this does not.
    Not(Box<Part>),
    /// An expression: passes when it is true, and no clause that was evaluated met an error.
    Expression(Box<Part>),
}

/// One clause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClauseExplanation {
    /// What is asked, as it was written, behind its path where it was not written as one text: `$.project.key ["FOO"]`,
    /// `data.priority = 'Critical'`, `$attributes.type exact "a"`. Of a long one the beginning.
    pub text: String,
    /// What the event has at the paths that it asks for, the first
    /// [`EXPLAINED_PATHS_MAX`](crate::limits::EXPLAINED_PATHS_MAX).
    pub seen: Vec<Seen>,
    /// Code of the error that evaluating it met: `missing_attribute`, `cast`, `math`, `function_evaluation` of an
    /// expression, or `too_many_steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<&'static str>,
}

/// What an event has at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The path: `$.project.key`, `$attributes.type`.
    pub path: String,
    /// Its values, written as JSON, the first [`EXPLAINED_VALUES_MAX`](crate::limits::EXPLAINED_VALUES_MAX); of long ones the
    /// beginning. Empty: there is none; no such key, an object, or an empty list.
    pub values: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Explains.
pub(crate) fn explain(program: &Program, document: &Document<'_>) -> Explanation {
    let verdict = evaluate(program, document);
    let mut room = Room { clauses: EXPLAINED_CLAUSES_MAX, left_out: 0 };
    let root = match &program.rule {
        Some(rule) => rule::explain(rule, document, &mut room),
        None => pattern::explain(program, document, verdict, &mut room),
    };
    Explanation {
        matched: verdict.unwrap_or(false),
        error: verdict.err().map(crate::EvalError::code),
        body: document.body_state(),
        root,
        left_out: room.left_out,
    }
}

/// What may still be shown.
struct Room {
    clauses: usize,
    left_out: usize,
}

impl Room {
    /// Takes the room of a clause at this depth, or counts it as left out.
    fn take(&mut self, depth: usize) -> bool {
        let there_is = self.clauses > 0 && depth <= EXPLAINED_DEPTH_MAX;
        if there_is {
            self.clauses -= 1;
        } else {
            self.left_out += 1;
        }
        there_is
    }
}

/// An attribute of the event, as an explanation shows it.
fn seen_attribute(document: &Document<'_>, path: String, name: &str) -> Seen {
    let value = document.attribute(name).map(|text| quote(&text, EXPLAINED_VALUE_CHARS_MAX));
    Seen { path, values: value.into_iter().collect() }
}

/// The first values at a path of the body, looking at no more than [`STEPS_MAX`] values.
fn seen_in_body(document: &Document<'_>, path: String, keys: &[&str]) -> Seen {
    let mut values = Vec::new();
    if let Some(root) = document.root() {
        // As far as the budget goes: the rest is not shown.
        let _ = leaves(keys, root, &mut Budget::new(STEPS_MAX), |leaf| {
            values.push(leaf.written(EXPLAINED_VALUE_CHARS_MAX));
            values.len() < EXPLAINED_VALUES_MAX
        });
    }
    Seen { path, values }
}
