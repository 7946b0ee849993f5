//! Explanations of rules: every comparison and test by itself, and what the event has there.

use super::{AttributeTest, Rule};
use crate::cesql::{Evaluator, Expr, Expression, Reference, keys_of};
use crate::document::Document;
use crate::evaluate::Budget;
use crate::explain::{AlternativeExplanation, ClauseExplanation, Seen};
use crate::json::quote;
use crate::leaves::leaves;
use crate::limits::{EXPLAIN_STEPS_MAX, EXPLAINED_VALUE_CHARS_MAX, EXPLAINED_VALUES_MAX, STEPS_MAX};
use crate::pattern::{describe_attribute, describe_body};

const COMBINED: &str =
    "the clauses are listed one by one, each on its own; the filter combines them as it is written";

/// Every clause of a rule, in written order.
pub(crate) fn explain_rule(rule: &Rule, matched: bool, document: &Document<'_>) -> AlternativeExplanation {
    let mut explaining =
        Explaining { document, budget: Budget::new(EXPLAIN_STEPS_MAX), clauses: Vec::new(), plain: true };
    explaining.rule(rule);
    let note = (!explaining.plain && explaining.clauses.len() > 1).then_some(COMBINED);
    AlternativeExplanation { matched, clauses: explaining.clauses, note }
}

struct Explaining<'x, 'd> {
    document: &'x Document<'d>,
    budget: Budget,
    clauses: Vec<ClauseExplanation>,
    /// All clauses must hold, and nothing else is meant.
    plain: bool,
}

impl Explaining<'_, '_> {
    fn rule(&mut self, rule: &Rule) {
        match rule {
            Rule::Sql(expression) => {
                self.plain &= expression.root.is_conjunction();
                self.expr(expression, &expression.root);
            }
            Rule::Attribute(test) => self.test(test),
            Rule::All(rules) => rules.iter().for_each(|rule| self.rule(rule)),
            Rule::Any(rules) => {
                self.plain &= rules.len() == 1;
                rules.iter().for_each(|rule| self.rule(rule));
            }
            Rule::Not(rule) => {
                self.plain = false;
                self.rule(rule);
            }
        }
    }

    fn expr(&mut self, expression: &Expression, expr: &Expr) {
        if expr.is_logic() {
            expr.children().for_each(|child| self.expr(expression, child));
            return;
        }
        let mut evaluator = Evaluator::new(self.document, &mut self.budget);
        let verdict = evaluator.passes(expr);
        let problem = match &verdict {
            Ok(_) => evaluator.problem.map(crate::cesql::Problem::code),
            Err(error) => Some(error.code()),
        };
        let (path, seen) = match expr.first_reference() {
            Some(reference) => (describe(reference), self.seen(reference)),
            None => ("$".to_owned(), Seen::Absent),
        };
        let clause = shortened(expression.text_of(&expr.at));
        self.clauses.push(ClauseExplanation { path, clause, seen, matched: verdict == Ok(true), problem });
    }

    fn test(&mut self, test: &AttributeTest) {
        let reference = Reference::Attribute(test.name.clone());
        let matched = self.document.attribute(&test.name).is_some_and(|text| test.accepts(&text));
        let clause = format!("{} {}", test.how.name(), quote(&test.operand, EXPLAINED_VALUE_CHARS_MAX));
        let seen = self.seen(&reference);
        self.clauses.push(ClauseExplanation {
            path: describe(&reference),
            clause,
            seen,
            matched,
            problem: None,
        });
    }

    fn seen(&self, reference: &Reference) -> Seen {
        let mut values = Vec::new();
        match reference {
            Reference::Attribute(name) => {
                values.extend(
                    self.document.attribute(name).map(|text| quote(&text, EXPLAINED_VALUE_CHARS_MAX)),
                );
            }
            Reference::Data(keys) => {
                if let Some(root) = self.document.root() {
                    // As far as the budget goes: the rest is not shown.
                    let _ = leaves(&keys_of(keys), root, &mut Budget::new(STEPS_MAX), |leaf| {
                        values.push(leaf.written(EXPLAINED_VALUE_CHARS_MAX));
                        values.len() < EXPLAINED_VALUES_MAX
                    });
                }
            }
        }
        if values.is_empty() { Seen::Absent } else { Seen::Values(values) }
    }
}

fn describe(reference: &Reference) -> String {
    match reference {
        Reference::Attribute(name) => describe_attribute(name),
        Reference::Data(keys) => describe_body(keys),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(EXPLAINED_VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
