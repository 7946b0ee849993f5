//! Truths → alternatives that an index can hold: conjunctions of clauses, of which one holds whenever the truth does.
//!
//! What does not fit, or would be too much, is left out on the safe side: the alternatives then accept more than was
//! meant ([`Alternatives::exact`] is false), and the rule that they were made from decides.

use crate::cesql::Reference;
use crate::ir::{Clause, ClauseId, Conjunction, Keys, Program, Subject, Wanted, next_id};
use crate::limits::LEADING_CLAUSES_MAX;
use crate::pattern::{describe_attribute, describe_body};
use crate::rule::Rule;

/// A disjunction of conjunctions. None at all: it never holds. An empty one: it always may.
#[derive(Debug, Clone)]
pub(crate) struct Alternatives {
    drafts: Vec<Vec<ClauseId>>,
    pub(crate) exact: bool,
}

impl Alternatives {
    /// Holds for every event.
    pub(crate) fn always() -> Self {
        Self { drafts: vec![Vec::new()], exact: true }
    }

    /// Holds for no event.
    pub(crate) fn never() -> Self {
        Self { drafts: Vec::new(), exact: true }
    }

    /// Nothing leads to it: every event must be tried.
    pub(crate) fn unknown() -> Self {
        Self::always().vague()
    }

    /// The same, but it accepts more than was meant.
    pub(crate) fn vague(self) -> Self {
        Self { exact: false, ..self }
    }

    fn longest(&self) -> usize {
        self.drafts.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Some conjunction is empty, so that nothing leads to it.
    fn is_open(&self) -> bool {
        self.drafts.iter().any(Vec::is_empty)
    }
}

/// What a truth can be, as alternatives.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    /// It is true, and there was no error.
    pub(crate) yes: Alternatives,
    /// It is false, and there was no error.
    pub(crate) no: Alternatives,
    /// There can be no error.
    pub(crate) errorless: bool,
    /// It is never unknown.
    pub(crate) sure: bool,
}

impl Truth {
    pub(crate) fn not(self) -> Self {
        Self { yes: self.no, no: self.yes, ..self }
    }

    /// Nothing is known of it.
    pub(crate) fn opaque(given: &Alternatives) -> Self {
        Self { yes: given.clone().vague(), no: given.clone().vague(), errorless: false, sure: false }
    }
}

/// Collects clauses.
#[derive(Debug)]
pub(crate) struct Drafting {
    conjunctions_max: usize,
    keys: Keys,
    clauses: Vec<Clause>,
}

impl Drafting {
    /// Nothing is collected yet. No alternatives are larger than `conjunctions_max`.
    pub(crate) fn new(conjunctions_max: usize) -> Self {
        Self { conjunctions_max, keys: Keys::default(), clauses: Vec::new() }
    }

    /// One clause.
    pub(crate) fn clause(&mut self, reference: &Reference, wanted: Wanted) -> Alternatives {
        let (subject, path) = match reference {
            Reference::Attribute(name) => (Subject::Attribute(name.clone()), describe_attribute(name)),
            Reference::Data(keys) => {
                (Subject::Body(keys.iter().map(|key| self.keys.id(key)).collect()), describe_body(keys))
            }
        };
        let id = next_id(self.clauses.len());
        self.clauses.push(Clause { subject, wanted, path: path.into(), text: Box::default() });
        Alternatives { drafts: vec![vec![id]], exact: true }
    }

    /// Both hold.
    pub(crate) fn and(&self, left: &Alternatives, right: &Alternatives) -> Alternatives {
        let exact = left.exact && right.exact;
        if left.drafts.len().saturating_mul(right.drafts.len()) > self.conjunctions_max {
            // One side alone accepts more; the one that leads better is kept.
            let right_is_better =
                left.is_open() || (!right.is_open() && right.drafts.len() < left.drafts.len());
            return if right_is_better { right.clone().vague() } else { left.clone().vague() };
        }
        let mut both = Alternatives { drafts: Vec::new(), exact };
        for left in &left.drafts {
            for right in &right.drafts {
                let mut draft = left.clone();
                draft.extend(right.iter().filter(|id| !left.contains(id)));
                if draft.len() > LEADING_CLAUSES_MAX {
                    draft.truncate(LEADING_CLAUSES_MAX);
                    both.exact = false;
                }
                both.drafts.push(draft);
            }
        }
        both
    }

    /// One of both holds.
    pub(crate) fn or(&self, left: Alternatives, right: Alternatives) -> Alternatives {
        let exact = left.exact && right.exact;
        if left.drafts.len() + right.drafts.len() > self.conjunctions_max {
            return Alternatives::unknown();
        }
        let mut drafts = left.drafts;
        drafts.extend(right.drafts);
        Alternatives { drafts, exact }
    }

    /// `left AND right`, with SQL's unknown, errors that stay, and a left side that may decide alone.
    pub(crate) fn and_then(&self, left: &Truth, right: &Truth) -> Truth {
        Truth {
            yes: self.and(&left.yes, &right.yes),
            no: self.either(left, &left.no, &left.yes, &right.no),
            errorless: left.errorless && right.errorless,
            sure: left.sure && right.sure,
        }
    }

    /// `left OR right`.
    pub(crate) fn or_else(&self, left: &Truth, right: &Truth) -> Truth {
        Truth {
            yes: self.either(left, &left.yes, &left.no, &right.yes),
            no: self.and(&left.no, &right.no),
            errorless: left.errorless && right.errorless,
            sure: left.sure && right.sure,
        }
    }

    /// `left XOR right`.
    pub(crate) fn xor(&self, left: &Truth, right: &Truth) -> Truth {
        Truth {
            yes: self.or(self.and(&left.yes, &right.no), self.and(&left.no, &right.yes)),
            no: self.or(self.and(&left.yes, &right.yes), self.and(&left.no, &right.no)),
            errorless: left.errorless && right.errorless,
            sure: left.sure && right.sure,
        }
    }

    /// The left side decides, or it does not and the right side does. An error on the left leaves nothing to decide.
    fn either(
        &self,
        left: &Truth,
        decides: &Alternatives,
        leaves_open: &Alternatives,
        right: &Alternatives,
    ) -> Alternatives {
        if left.errorless {
            return self.or(decides.clone(), right.clone());
        }
        if !left.sure || leaves_open.longest() >= LEADING_CLAUSES_MAX / 2 {
            return self.or(decides.clone(), right.clone()).vague();
        }
        self.or(decides.clone(), self.and(leaves_open, right))
    }

    /// The program of a rule that holds as `yes` says.
    pub(crate) fn finish(self, yes: &Alternatives, rule: Rule, text: Box<str>) -> Program {
        let Self { keys, clauses, .. } = self;
        let conjunctions: Vec<_> = yes.drafts.iter().map(|draft| Conjunction::of(draft, &clauses)).collect();
        // Clauses of a conjunction must hold within one element of a list, those of a rule need not.
        let exact = yes.exact && conjunctions.iter().all(|conjunction| conjunction.body.len() <= 1);
        Program { steps: keys.into_steps(), clauses, conjunctions, rule: Some(rule), exact, text }
    }
}
