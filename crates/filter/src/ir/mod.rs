//! The intermediate form that every filter language is lowered to, and that an index can be built on.
//!
//! A [`Program`] is a disjunction of [`Conjunction`]s (negation stays inside a clause, so this is a disjunctive
//! normal form); a conjunction is a set of clauses on different paths; a [`Clause`] says which values of one path are
//! wanted.

mod build;
mod values;

pub(crate) use build::{Keys, next_id};
pub(crate) use values::{ADDRESS_MAX_CHARS, Bound, Glob, Range, Scalar, TextTest, ValueSet, is_integer};

use crate::error::EvalError;
use crate::evaluate::Budget;
use crate::rule::Rule;

/// Names a clause: its place in [`Program::clauses`].
pub(crate) type ClauseId = u32;
/// Names a key: its place in [`Program::steps`]. Equal keys have equal ids.
pub(crate) type StepId = u32;

/// A compiled filter: it matches when one of its conjunctions does.
#[derive(Debug)]
pub(crate) struct Program {
    /// The keys that paths are made of, each once.
    pub(crate) steps: Vec<Box<str>>,
    /// The clauses in the order they were written, each once.
    pub(crate) clauses: Vec<Clause>,
    /// The alternatives.
    pub(crate) conjunctions: Vec<Conjunction>,
    /// What was written, when that was no pattern: for explanations, and to evaluate when [`Program::exact`] says so.
    pub(crate) rule: Option<Rule>,
    /// The alternatives accept what the filter accepts, and nothing else. When they accept more, they only lead to the
    /// filter, and its rule decides.
    pub(crate) exact: bool,
    /// The language and the text of a rule: equal ones are equal rules.
    pub(crate) text: Box<str>,
}

impl Program {
    /// The rule, when it must be asked.
    pub(crate) fn deciding_rule(&self) -> Option<&Rule> {
        self.rule.as_ref().filter(|_| !self.exact)
    }
}

/// Clauses that must all hold, those below one array within one element of it.
#[derive(Debug)]
pub(crate) struct Conjunction {
    /// Clauses on attributes.
    pub(crate) attributes: Box<[ClauseId]>,
    /// Clauses on the body, sorted by path, so that clauses below one key are neighbours and a prefix comes first.
    pub(crate) body: Box<[ClauseId]>,
    /// Some clause on the body accepts that its path is absent.
    pub(crate) takes_absence: bool,
}

/// What is wanted of one path.
#[derive(Debug)]
pub(crate) struct Clause {
    pub(crate) subject: Subject,
    pub(crate) wanted: Wanted,
    /// The path, for people.
    pub(crate) path: Box<str>,
    /// The list, as it was written.
    pub(crate) text: Box<str>,
}

/// Where a value stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A CloudEvents context attribute.
    Attribute(Box<str>),
    /// Keys from the root of the body; at least one.
    Body(Box<[StepId]>),
}

/// The values that a clause accepts: any of these.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// The path must be absent in the whole event.
    pub(crate) absent: bool,
    /// Any value will do.
    pub(crate) present: bool,
    /// A value that is in here.
    pub(crate) any_of: ValueSet,
    /// A value that is not in one of these (`anything-but`).
    pub(crate) other_than: Vec<ValueSet>,
    /// A list none of whose values is in one of these (`none-of`).
    pub(crate) none_of: Vec<ValueSet>,
    /// A list that has, for each of one of these, a value that is in it (`all-of`).
    pub(crate) all_of: Vec<Vec<ValueSet>>,
}

/// Clauses by their ids, however they are kept: in a program of one filter, or in an index of many.
pub(crate) trait Clauses {
    /// The name of the attribute, of a clause on one.
    fn attribute(&self, id: ClauseId) -> Option<&str>;
    /// The keys of a clause on the body.
    fn steps(&self, id: ClauseId) -> &[StepId];
    /// What is wanted there.
    fn wanted(&self, id: ClauseId) -> Want<'_>;
    /// The text of a key.
    fn key(&self, id: StepId) -> &str;
}

/// What a clause wants, borrowed from where it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Want<'w> {
    /// One string and nothing else: by far the most common.
    Text(&'w str),
    /// Anything.
    Full(&'w Wanted),
}

impl<'w> Want<'w> {
    /// The path must, or may, be absent.
    pub(crate) fn absent(self) -> bool {
        matches!(self, Want::Full(wanted) if wanted.absent)
    }

    /// The sets of `none-of`.
    pub(crate) fn none_of(self) -> &'w [ValueSet] {
        match self {
            Want::Text(_) => &[],
            Want::Full(wanted) => &wanted.none_of,
        }
    }

    /// The sets of `all-of`.
    pub(crate) fn all_of(self) -> &'w [Vec<ValueSet>] {
        match self {
            Want::Text(_) => &[],
            Want::Full(wanted) => &wanted.all_of,
        }
    }

    /// A present leaf is accepted.
    pub(crate) fn accepts(self, value: Scalar<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        match self {
            Want::Text(wanted) => {
                budget.spend(1)?;
                Ok(matches!(value, Scalar::Text(text) | Scalar::Attribute(text) if text == wanted))
            }
            Want::Full(wanted) => wanted.accepts(value, budget),
        }
    }
}

impl Clauses for Program {
    fn attribute(&self, id: ClauseId) -> Option<&str> {
        match &self.clauses[id as usize].subject {
            Subject::Attribute(name) => Some(name),
            Subject::Body(_) => None,
        }
    }

    fn steps(&self, id: ClauseId) -> &[StepId] {
        self.clauses[id as usize].steps()
    }

    fn wanted(&self, id: ClauseId) -> Want<'_> {
        Want::Full(&self.clauses[id as usize].wanted)
    }

    fn key(&self, id: StepId) -> &str {
        &self.steps[id as usize]
    }
}

impl Clause {
    /// The keys of a clause on the body; none for one on an attribute.
    pub(crate) fn steps(&self) -> &[StepId] {
        match &self.subject {
            Subject::Body(steps) => steps,
            Subject::Attribute(_) => &[],
        }
    }
}

impl Wanted {
    /// A present leaf is accepted.
    pub(crate) fn accepts(&self, value: Scalar<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        if self.present || self.any_of.contains(value, budget)? {
            return Ok(true);
        }
        for set in &self.other_than {
            if !set.contains(value, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
