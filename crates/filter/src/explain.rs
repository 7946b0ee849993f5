//! Explanations: why a filter matched an event or not, clause by clause, for people.

use serde::Serialize;

use crate::document::{BodyState, Document};
use crate::evaluate::{Budget, Evaluation, evaluate};
use crate::ir::{Clause, ClauseId, Conjunction, Program, StepId, Subject};
use crate::json::{Node, quote};
use crate::leaves::leaves;
use crate::limits::{
    EXPLAIN_STEPS_MAX, EXPLAINED_ALTERNATIVES_MAX, EXPLAINED_VALUE_CHARS_MAX, EXPLAINED_VALUES_MAX, STEPS_MAX,
};
use crate::rule::explain_rule;

/// Why an event matches a filter or not. It shows values of the body: give it to the event's tenant only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The verdict, the same as [`Filter::matches`](crate::Filter::matches) gives.
    pub matched: bool,
    /// Code of the [`EvalError`](crate::EvalError) when there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// Whether the body could be read.
    pub body: BodyState,
    /// The alternatives that `$or` stands for, one without it; the filter matches when one of them does. Of an expression
    /// or a list of CloudEvents filters there is one, with all of its comparisons.
    pub alternatives: Vec<AlternativeExplanation>,
    /// How many alternatives are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub alternatives_left_out: usize,
}

/// Why one alternative matches or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlternativeExplanation {
    /// All clauses hold together.
    pub matched: bool,
    /// Its clauses, in the order they were written.
    pub clauses: Vec<ClauseExplanation>,
    /// What the clauses one by one do not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// Why one clause holds or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClauseExplanation {
    /// Its path: `$.project.key`, `$attributes.type`.
    pub path: String,
    /// What the filter wants there, as it was written.
    pub clause: String,
    /// What the event has there.
    pub seen: Seen,
    /// It holds on its own.
    pub matched: bool,
    /// Code of the error that evaluating it met: `missing_attribute`, `cast`, `math`, `function_evaluation` of an
    /// expression, or `too_many_steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<&'static str>,
}

/// What an event has at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// No value: no such key, an object, or an empty list.
    Absent,
    /// Its values, written as JSON, the first [`EXPLAINED_VALUES_MAX`]; of long ones the beginning.
    Values(Vec<String>),
}

const NOT_TOGETHER: &str = "every clause holds on its own, but not within one element of the same list";
const NOT_KNOWN: &str =
    "the event is too large to explain every clause; clauses that were not reached are shown as not matched";

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Explains.
pub(crate) fn explain(program: &Program, document: &Document<'_>) -> Explanation {
    let verdict = evaluate(program, document);
    if let Some(rule) = &program.rule {
        return Explanation {
            matched: verdict.unwrap_or(false),
            error: verdict.err().map(crate::EvalError::code),
            body: document.body_state(),
            alternatives: vec![explain_rule(rule, verdict.unwrap_or(false), document)],
            alternatives_left_out: 0,
        };
    }
    let mut together = Evaluation::new(program, document, STEPS_MAX);
    let mut alone = Evaluation::new(program, document, EXPLAIN_STEPS_MAX);
    // A clause may stand in many alternatives and is tried once.
    let mut known: Vec<Option<Result<bool, ()>>> = vec![None; program.clauses.len()];
    let listed = program.conjunctions.iter().take(EXPLAINED_ALTERNATIVES_MAX);
    let alternatives: Vec<_> = listed
        .map(|conjunction| {
            let Conjunction { attributes, body, takes_absence } = conjunction;
            let matched = together.conjunction(attributes, body, *takes_absence);
            let mut complete = matched.is_ok();
            let clauses: Vec<_> = in_written_order(conjunction)
                .into_iter()
                .map(|id| {
                    let held = *known[id as usize].get_or_insert_with(|| alone.alone(id).map_err(|_| ()));
                    complete &= held.is_ok();
                    explain_clause(program, document, &program.clauses[id as usize], held.unwrap_or(false))
                })
                .collect();
            let matched = matched.unwrap_or(false);
            let note = match (complete, matched) {
                (false, _) => Some(NOT_KNOWN),
                (true, false) if clauses.iter().all(|clause| clause.matched) => Some(NOT_TOGETHER),
                (true, _) => None,
            };
            AlternativeExplanation { matched, clauses, note }
        })
        .collect();
    Explanation {
        matched: verdict.unwrap_or(false),
        error: verdict.err().map(crate::EvalError::code),
        body: document.body_state(),
        alternatives_left_out: program.conjunctions.len() - alternatives.len(),
        alternatives,
    }
}

fn in_written_order(conjunction: &Conjunction) -> Vec<ClauseId> {
    let mut ids: Vec<ClauseId> = conjunction.attributes.iter().chain(&conjunction.body).copied().collect();
    ids.sort_unstable();
    ids
}

fn explain_clause(
    program: &Program,
    document: &Document<'_>,
    clause: &Clause,
    matched: bool,
) -> ClauseExplanation {
    let mut values = Vec::new();
    match &clause.subject {
        Subject::Attribute(name) => {
            values.extend(document.attribute(name).map(|text| quote(&text, EXPLAINED_VALUE_CHARS_MAX)));
        }
        Subject::Body(steps) => {
            if let Some(root) = document.root() {
                values = first_leaves(program, steps, root);
            }
        }
    }
    let seen = if values.is_empty() { Seen::Absent } else { Seen::Values(values) };
    ClauseExplanation {
        path: clause.path.to_string(),
        clause: clause.text.to_string(),
        seen,
        matched,
        problem: None,
    }
}

/// The first leaves at a path, looking at no more than [`STEPS_MAX`] values.
fn first_leaves(program: &Program, steps: &[StepId], root: Node<'_>) -> Vec<String> {
    let keys: Vec<&str> = steps.iter().map(|step| &*program.steps[*step as usize]).collect();
    let mut found = Vec::new();
    // As far as the budget goes: the rest is not shown.
    let _ = leaves(&keys, root, &mut Budget::new(STEPS_MAX), |leaf| {
        found.push(leaf.written(EXPLAINED_VALUE_CHARS_MAX));
        found.len() < EXPLAINED_VALUES_MAX
    });
    found
}
