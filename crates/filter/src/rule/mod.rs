//! Rules: filters that are written as a combination of truths, and not as a shape of the event.
//!
//! A rule is evaluated as it is written. Beside it stand alternatives that lead to it from an index, and that replace it
//! where they say exactly the same.

mod alternatives;

pub(crate) use alternatives::{Alternatives, Drafting, Truth};

use crate::cesql::{self, Evaluator, Expression, Reference};
use crate::document::Document;
use crate::error::EvalError;
use crate::evaluate::Budget;
use crate::fold::Case;
use crate::ir::{Program, TextTest, ValueSet, Wanted};
use crate::limits::Limits;

/// A rule. Nesting is bounded by [`Limits::depth`].
#[derive(Debug)]
pub(crate) enum Rule {
    /// An expression is true, and has no error.
    Sql(Expression),
    /// An attribute is there and passes a test.
    Attribute(AttributeTest),
    /// All hold.
    All(Vec<Rule>),
    /// One holds.
    Any(Vec<Rule>),
    /// It does not hold.
    Not(Box<Rule>),
}

/// A test of an attribute's text.
#[derive(Debug)]
pub(crate) struct AttributeTest {
    pub(crate) name: Box<str>,
    pub(crate) how: How,
    pub(crate) operand: Box<str>,
}

/// How a text is compared. Every letter is itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Exact,
    Prefix,
    Suffix,
}

impl How {
    /// The name of the dialect.
    pub(crate) fn name(self) -> &'static str {
        match self {
            How::Exact => "exact",
            How::Prefix => "prefix",
            How::Suffix => "suffix",
        }
    }
}

impl Rule {
    /// The rule holds for an event.
    pub(crate) fn holds(&self, document: &Document<'_>, budget: &mut Budget) -> Result<bool, EvalError> {
        budget.spend(1)?;
        match self {
            Rule::Sql(expression) => Evaluator::new(document, budget).passes(&expression.root),
            Rule::Attribute(test) => {
                Ok(document.attribute(&test.name).is_some_and(|text| test.accepts(&text)))
            }
            Rule::All(rules) => {
                for rule in rules {
                    if !rule.holds(document, budget)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Rule::Any(rules) => {
                for rule in rules {
                    if rule.holds(document, budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Rule::Not(rule) => Ok(!rule.holds(document, budget)?),
        }
    }

    /// The rule with what leads to it. `text` is its language and text.
    pub(crate) fn compile(self, text: String, limits: &Limits) -> Program {
        let mut drafting = Drafting::new(limits.conjunctions);
        let truth = self.lower(&mut drafting);
        drafting.finish(&truth.yes, self, text.into())
    }

    fn lower(&self, drafting: &mut Drafting) -> Truth {
        match self {
            Rule::Sql(expression) => {
                let truth = cesql::lower(drafting, &expression.root);
                // An error or an unknown is no match, so that the opposite is one.
                let settled = truth.errorless && truth.sure;
                let no = if settled { truth.no } else { Alternatives::unknown() };
                Truth { yes: truth.yes, no, errorless: true, sure: true }
            }
            Rule::Attribute(test) => test.lower(drafting),
            Rule::All(rules) => {
                let all = Truth {
                    yes: Alternatives::always(),
                    no: Alternatives::never(),
                    errorless: true,
                    sure: true,
                };
                rules.iter().fold(all, |all, rule| {
                    let next = rule.lower(drafting);
                    drafting.and_then(&all, &next)
                })
            }
            Rule::Any(rules) => {
                let none = Truth {
                    yes: Alternatives::never(),
                    no: Alternatives::always(),
                    errorless: true,
                    sure: true,
                };
                rules.iter().fold(none, |any, rule| {
                    let next = rule.lower(drafting);
                    drafting.or_else(&any, &next)
                })
            }
            Rule::Not(rule) => rule.lower(drafting).not(),
        }
    }

    /// No part asks for the body.
    pub(crate) fn is_attribute_only(&self) -> bool {
        match self {
            Rule::Sql(expression) => !expression.root.asks_for_data(),
            Rule::Attribute(_) => true,
            Rule::All(rules) | Rule::Any(rules) => rules.iter().all(Rule::is_attribute_only),
            Rule::Not(rule) => rule.is_attribute_only(),
        }
    }
}

impl AttributeTest {
    /// The text of an attribute passes.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        match self.how {
            How::Exact => *text == *self.operand,
            How::Prefix => text.starts_with(&*self.operand),
            How::Suffix => text.ends_with(&*self.operand),
        }
    }

    fn lower(&self, drafting: &mut Drafting) -> Truth {
        let mut set = ValueSet::default();
        match self.how {
            How::Exact => set.add_string(&self.operand),
            How::Prefix => set.add_test(TextTest::Starts(Case::Sensitive, self.operand.clone())),
            How::Suffix => set.add_test(TextTest::Ends(Case::Sensitive, self.operand.clone())),
        }
        let attribute = Reference::Attribute(self.name.clone());
        let yes = drafting.clause(&attribute, Wanted { any_of: set.clone(), ..Wanted::default() });
        let other = Wanted { absent: true, other_than: vec![set], ..Wanted::default() };
        Truth { yes, no: drafting.clause(&attribute, other), errorless: true, sure: true }
    }
}
