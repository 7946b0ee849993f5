//! Patterns: alternatives of clauses that must hold together.

use super::{ClauseExplanation, Part, Room, What, seen_attribute, seen_in_body};
use crate::document::Document;
use crate::error::EvalError;
use crate::evaluate::Evaluation;
use crate::ir::{ClauseId, Conjunction, Program, Subject};
use crate::limits::{EXPLAIN_STEPS_MAX, EXPLAINED_ALTERNATIVES_MAX, STEPS_MAX};

const NOT_TOGETHER: &str = "every clause holds on its own, but not within one element of the same list";
const NOT_KNOWN: &str = "the event is too large to try every clause";

/// Explains the alternatives of a pattern.
pub(super) fn explain(
    program: &Program,
    document: &Document<'_>,
    verdict: Result<bool, EvalError>,
    room: &mut Room,
) -> Part {
    let mut explaining = Explaining {
        program,
        document,
        together: Evaluation::new(program, document, STEPS_MAX),
        alone: Evaluation::new(program, document, EXPLAIN_STEPS_MAX),
        known: vec![None; program.clauses.len()],
    };
    let listed = program.conjunctions.iter().take(EXPLAINED_ALTERNATIVES_MAX);
    let mut decided = false;
    let mut alternatives: Vec<Part> = Vec::with_capacity(listed.len());
    for conjunction in listed {
        let (held, part) = explaining.alternative(conjunction, !decided, room);
        decided |= held != Some(false);
        alternatives.extend(part);
    }
    room.left_out += program.conjunctions.len().saturating_sub(EXPLAINED_ALTERNATIVES_MAX);
    match alternatives.pop() {
        Some(only) if program.conjunctions.len() == 1 => only,
        last => {
            alternatives.extend(last);
            Part { what: What::Any(alternatives), held: verdict.ok(), evaluated: true, note: None }
        }
    }
}

struct Explaining<'x, 'd> {
    program: &'x Program,
    document: &'x Document<'d>,
    /// As the filter is evaluated.
    together: Evaluation<'x, 'd, Program>,
    /// Clause by clause.
    alone: Evaluation<'x, 'd, Program>,
    /// A clause may stand in many alternatives and is tried once.
    known: Vec<Option<Result<bool, EvalError>>>,
}

impl Explaining<'_, '_> {
    /// Whether it holds, and how it is shown. One of clauses that all are left out is not shown: an alternative of no clauses
    /// is another one, and passes every event.
    fn alternative(
        &mut self,
        conjunction: &Conjunction,
        evaluated: bool,
        room: &mut Room,
    ) -> (Option<bool>, Option<Part>) {
        let Conjunction { attributes, body, takes_absence } = conjunction;
        let held = self.together.conjunction(attributes, body, *takes_absence).ok();
        // Attributes come first, one after the other; clauses on the body are looked at together.
        let stop = attributes.iter().position(|id| self.alone(*id) != Ok(true));
        let reached = |id: &ClauseId| match stop {
            Some(stop) => attributes.iter().take(stop + 1).any(|reached| reached == id),
            None => true,
        };
        let mut ids: Vec<ClauseId> = attributes.iter().chain(body).copied().collect();
        // As they were written.
        ids.sort_unstable();
        let all: Vec<_> = ids.iter().map(|id| self.alone(*id)).collect();
        let note = match held {
            None => Some(NOT_KNOWN),
            Some(false) if all.iter().all(|held| *held == Ok(true)) => Some(NOT_TOGETHER),
            Some(_) => None,
        };
        let shown = ids.iter().filter(|_| room.take(0));
        let clauses: Vec<Part> = shown.map(|id| self.clause(*id, evaluated && reached(id))).collect();
        let is_hidden = clauses.is_empty() && !ids.is_empty();
        (held, (!is_hidden).then_some(Part { what: What::All(clauses), held, evaluated, note }))
    }

    fn alone(&mut self, id: ClauseId) -> Result<bool, EvalError> {
        let Self { alone, known, .. } = self;
        *known[id as usize].get_or_insert_with(|| alone.alone(id))
    }

    fn clause(&mut self, id: ClauseId, evaluated: bool) -> Part {
        let held = self.alone(id);
        let clause = &self.program.clauses[id as usize];
        let path = clause.path.to_string();
        let seen = match &clause.subject {
            Subject::Attribute(name) => seen_attribute(self.document, path, name),
            Subject::Body(steps) => {
                let keys: Vec<&str> = steps.iter().map(|step| &*self.program.steps[*step as usize]).collect();
                seen_in_body(self.document, path, &keys)
            }
        };
        let explanation = ClauseExplanation {
            text: format!("{} {}", clause.path, clause.text),
            seen: vec![seen],
            problem: held.err().map(EvalError::code),
        };
        Part { what: What::Clause(explanation), held: held.ok(), evaluated, note: None }
    }
}
