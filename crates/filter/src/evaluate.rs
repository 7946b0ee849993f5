//! Evaluation: one filter against one event, within a budget of steps.
//!
//! Array consistency: clauses below one array must hold within one element of it. Because a conjunction's clauses are
//! sorted by path, those below one key are one slice, and "some element satisfies the whole slice" is exactly that
//! rule. Every pair of slice and value is visited at most once, so the work is linear in the event.

use std::collections::BTreeMap;

use crate::document::Document;
use crate::error::EvalError;
use crate::ir::{ClauseId, Clauses, Program, Scalar, StepId, ValueSet, Want};
use crate::json::{Node, View};
use crate::limits::STEPS_MAX;

/// The steps that are left.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u32,
}

impl Budget {
    /// A budget of `steps`.
    pub(crate) fn new(steps: u32) -> Self {
        Self { left: steps }
    }

    /// The steps that are left.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Takes steps out.
    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), EvalError> {
        let left = u32::try_from(steps).ok().and_then(|steps| self.left.checked_sub(steps));
        self.left = left.unwrap_or(0);
        if left.is_some() { Ok(()) } else { Err(EvalError::TooManySteps) }
    }
}

/// The event matches one of the program's conjunctions, or its rule where that decides.
pub(crate) fn evaluate(program: &Program, document: &Document<'_>) -> Result<bool, EvalError> {
    if let Some(rule) = program.deciding_rule() {
        return rule.holds(document, &mut Budget::new(STEPS_MAX));
    }
    let mut evaluation = Evaluation::new(program, document, STEPS_MAX);
    for conjunction in &program.conjunctions {
        if evaluation.conjunction(&conjunction.attributes, &conjunction.body, conjunction.takes_absence)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One run, over one filter or over candidates of an index.
pub(crate) struct Evaluation<'e, 'd, C> {
    clauses: &'e C,
    document: &'e Document<'d>,
    pub(crate) budget: Budget,
    /// By clause: its path has a leaf in the event. Filled in for clauses that accept absence, when they are met.
    present: BTreeMap<ClauseId, bool>,
}

impl<'e, 'd, C: Clauses> Evaluation<'e, 'd, C> {
    /// Nothing is evaluated yet.
    pub(crate) fn new(clauses: &'e C, document: &'e Document<'d>, steps: u32) -> Self {
        Self { clauses, document, budget: Budget::new(steps), present: BTreeMap::new() }
    }

    /// All clauses of a conjunction hold together. `body` is sorted by path.
    pub(crate) fn conjunction(
        &mut self,
        attributes: &[ClauseId],
        body: &[ClauseId],
        takes_absence: bool,
    ) -> Result<bool, EvalError> {
        for id in attributes {
            if !self.attribute(*id)? {
                return Ok(false);
            }
        }
        self.body(body, takes_absence)
    }

    /// One clause holds on its own.
    pub(crate) fn alone(&mut self, id: ClauseId) -> Result<bool, EvalError> {
        if self.clauses.attribute(id).is_some() {
            return self.attribute(id);
        }
        self.body(&[id], self.clauses.wanted(id).absent())
    }

    fn attribute(&mut self, id: ClauseId) -> Result<bool, EvalError> {
        self.budget.spend(1)?;
        let Some(name) = self.clauses.attribute(id) else { return Ok(false) };
        let wanted = self.clauses.wanted(id);
        let Some(text) = self.document.attribute(name) else { return Ok(wanted.absent()) };
        let value = Scalar::Attribute(&text);
        if wanted.accepts(value, &mut self.budget)? {
            return Ok(true);
        }
        for set in wanted.none_of() {
            if !set.contains(value, &mut self.budget)? {
                return Ok(true);
            }
        }
        for sets in wanted.all_of() {
            let mut all = true;
            for set in sets {
                all = all && set.contains(value, &mut self.budget)?;
            }
            if all {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn body(&mut self, clauses: &[ClauseId], takes_absence: bool) -> Result<bool, EvalError> {
        if clauses.is_empty() {
            return Ok(true);
        }
        let Some(root) = self.document.root() else { return Ok(false) };
        if !takes_absence {
            return self.enter(clauses, 0, root);
        }
        // Absence is a fact of the whole event, not of an element: clauses that it satisfies ask for nothing more.
        let mut left = Vec::with_capacity(clauses.len());
        for id in clauses {
            if !self.clauses.wanted(*id).absent() || self.is_present(*id, root)? {
                left.push(*id);
            }
        }
        self.enter(&left, 0, root)
    }

    /// The clauses hold below `value`, which stands at the first `depth` keys of all their paths.
    fn enter(&mut self, clauses: &[ClauseId], depth: usize, value: Node<'e>) -> Result<bool, EvalError> {
        let mut clauses = clauses;
        if let Some((first, below)) = clauses.split_first()
            && self.clauses.steps(*first).len() == depth
            && self.whole_list_holds(self.clauses.wanted(*first), value)?
        {
            clauses = below;
        }
        if clauses.is_empty() { Ok(true) } else { self.choose(clauses, depth, value) }
    }

    /// As [`Evaluation::enter`], within `value` or one of its elements.
    fn choose(&mut self, clauses: &[ClauseId], depth: usize, value: Node<'e>) -> Result<bool, EvalError> {
        self.budget.spend(1)?;
        let scalar = match value.view() {
            View::Array => {
                for element in value.elements() {
                    if self.choose(clauses, depth, element)? {
                        return Ok(true);
                    }
                }
                return Ok(false);
            }
            View::Object => return self.members(clauses, depth, value),
            scalar => scalar,
        };
        match (clauses, as_scalar(scalar)) {
            ([only], Some(scalar)) if self.clauses.steps(*only).len() == depth => {
                self.clauses.wanted(*only).accepts(scalar, &mut self.budget)
            }
            _ => Ok(false),
        }
    }

    /// Every clause holds in this object.
    fn members(&mut self, clauses: &[ClauseId], depth: usize, value: Node<'e>) -> Result<bool, EvalError> {
        let mut rest = clauses;
        while let Some(first) = rest.first() {
            // A clause that ends here wants a leaf, and an object is none.
            let Some(key) = self.clauses.steps(*first).get(depth).copied() else { return Ok(false) };
            let below =
                rest.iter().take_while(|id| self.clauses.steps(**id).get(depth) == Some(&key)).count();
            let (group, others) = rest.split_at(below);
            self.budget.spend(1)?;
            let Some(member) = value.get(self.clauses.key(key)) else { return Ok(false) };
            if !self.enter(group, depth + 1, member)? {
                return Ok(false);
            }
            rest = others;
        }
        Ok(true)
    }

    /// One of the conditions on the whole list at a path holds.
    fn whole_list_holds(&mut self, wanted: Want<'_>, value: Node<'e>) -> Result<bool, EvalError> {
        for set in wanted.none_of() {
            if self.count_leaves_outside(set, value)?.is_some_and(|leaves| leaves > 0) {
                return Ok(true);
            }
        }
        for sets in wanted.all_of() {
            let mut all = true;
            for set in sets {
                all = all && self.has_leaf_in(set, value)?;
            }
            if all {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Some leaf of `value` or its elements is in the set.
    fn has_leaf_in(&mut self, set: &ValueSet, value: Node<'e>) -> Result<bool, EvalError> {
        self.budget.spend(1)?;
        if let Some(scalar) = as_scalar(value.view()) {
            return set.contains(scalar, &mut self.budget);
        }
        for element in value.elements() {
            if self.has_leaf_in(set, element)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many leaves `value` and its elements have; `None` when one of them is in the set.
    fn count_leaves_outside(&mut self, set: &ValueSet, value: Node<'e>) -> Result<Option<usize>, EvalError> {
        self.budget.spend(1)?;
        if let Some(scalar) = as_scalar(value.view()) {
            return Ok((!set.contains(scalar, &mut self.budget)?).then_some(1));
        }
        let mut leaves = 0;
        for element in value.elements() {
            match self.count_leaves_outside(set, element)? {
                Some(more) => leaves += more,
                None => return Ok(None),
            }
        }
        Ok(Some(leaves))
    }

    fn is_present(&mut self, id: ClauseId, root: Node<'e>) -> Result<bool, EvalError> {
        if let Some(known) = self.present.get(&id) {
            return Ok(*known);
        }
        let found = self.any_leaf(self.clauses.steps(id), root)?;
        self.present.insert(id, found);
        Ok(found)
    }

    /// A leaf stands at `steps` below `value`, whatever elements lie between.
    fn any_leaf(&mut self, steps: &[StepId], value: Node<'e>) -> Result<bool, EvalError> {
        self.budget.spend(1)?;
        match (value.view(), steps.split_first()) {
            (View::Array, _) => {
                for element in value.elements() {
                    if self.any_leaf(steps, element)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (View::Object, Some((key, below))) => match value.get(self.clauses.key(*key)) {
                Some(member) => self.any_leaf(below, member),
                None => Ok(false),
            },
            (View::Object, None) => Ok(false),
            (_, below) => Ok(below.is_none()),
        }
    }
}

/// The leaf, when it is one.
pub(crate) fn as_scalar(view: View<'_>) -> Option<Scalar<'_>> {
    match view {
        View::Null => Some(Scalar::Null),
        View::Bool(value) => Some(Scalar::Bool(value)),
        View::Number(text) => Some(Scalar::Number(text)),
        View::Text(text) => Some(Scalar::Text(text)),
        View::Array | View::Object => None,
    }
}
