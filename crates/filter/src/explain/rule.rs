//! Rules: expressions and lists of CloudEvents filters, as they are written.
//!
//! Every clause is tried on its own, and what is around it follows from that, independently of the evaluator: tests hold
//! the two against each other.

use super::{ClauseExplanation, Part, Room, Seen, What, seen_attribute, seen_in_body};
use crate::cesql::{Binary, Evaluator, Expr, Expression, Kind, Reference, keys_of};
use crate::document::Document;
use crate::evaluate::Budget;
use crate::json::quote;
use crate::limits::{EXPLAIN_STEPS_MAX, EXPLAINED_PATHS_MAX, EXPLAINED_VALUE_CHARS_MAX};
use crate::pattern::{describe_attribute, describe_body};
use crate::rule::{AttributeTest, Rule};

const MET_AN_ERROR: &str = "a clause met an error, so the expression does not pass, whatever the others say";
const TOO_DEEP: &str = "nested too deep to be shown";

/// Explains a rule.
pub(super) fn explain(rule: &Rule, document: &Document<'_>, room: &mut Room) -> Part {
    let budget = Budget::new(EXPLAIN_STEPS_MAX);
    let mut explaining = Explaining { document, budget, room, has_problem: false };
    let came = explaining.rule(rule, 0, true);
    let none_shown = What::All(Vec::new());
    came.part.unwrap_or(Part { what: none_shown, held: came.held, evaluated: true, note: Some(TOO_DEEP) })
}

struct Explaining<'x, 'd> {
    document: &'x Document<'d>,
    budget: Budget,
    room: &'x mut Room,
    /// A clause of the expression met an error when it was evaluated.
    has_problem: bool,
}

/// What a part came to, and how it is shown, if it is.
struct Came {
    held: Option<bool>,
    part: Option<Part>,
}

/// How parts are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    All,
    Any,
    Xor,
}

impl Join {
    fn of(op: Binary) -> Self {
        match op {
            Binary::And => Join::All,
            Binary::Or => Join::Any,
            _ => Join::Xor,
        }
    }

    /// What a join of nothing comes to.
    fn empty(self) -> bool {
        self == Join::All
    }

    /// Whether what follows does not matter.
    fn is_decided(self, so_far: Option<bool>) -> bool {
        match self {
            Join::All => so_far == Some(false),
            Join::Any => so_far == Some(true),
            Join::Xor => false,
        }
    }

    fn of_two(self, a: Option<bool>, b: Option<bool>) -> Option<bool> {
        match (self, a, b) {
            (Join::All, Some(false), _) | (Join::All, _, Some(false)) => Some(false),
            (Join::Any, Some(true), _) | (Join::Any, _, Some(true)) => Some(true),
            (_, None, _) | (_, _, None) => None,
            (Join::All, Some(a), Some(b)) => Some(a && b),
            (Join::Any, Some(a), Some(b)) => Some(a || b),
            (Join::Xor, Some(a), Some(b)) => Some(a != b),
        }
    }

    fn what(self, parts: Vec<Part>) -> What {
        match self {
            Join::All => What::All(parts),
            Join::Any => What::Any(parts),
            Join::Xor => What::Xor(parts),
        }
    }
}

/// Parts that were joined so far.
struct Joined {
    join: Join,
    held: Option<bool>,
    parts: Vec<Part>,
    evaluated: bool,
    /// There are parts, and none of them is shown.
    is_hidden: bool,
}

impl Joined {
    fn new(join: Join, evaluated: bool) -> Self {
        Self { join, held: Some(join.empty()), parts: Vec::new(), evaluated, is_hidden: false }
    }

    /// Whether evaluation comes to the next part.
    fn comes_to_next(&self) -> bool {
        self.evaluated && !self.join.is_decided(self.held)
    }

    fn add(&mut self, next: Came) {
        self.held = self.join.of_two(self.held, next.held);
        self.parts.extend(next.part);
        self.is_hidden = self.parts.is_empty();
    }

    fn finish(self) -> Came {
        let Self { join, held, parts, evaluated, is_hidden } = self;
        let part = (!is_hidden).then(|| Part { what: join.what(parts), held, evaluated, note: None });
        Came { held, part }
    }
}

impl Explaining<'_, '_> {
    fn rule(&mut self, rule: &Rule, depth: usize, evaluated: bool) -> Came {
        match rule {
            Rule::Sql(expression) => self.expression(expression, depth, evaluated),
            Rule::Attribute(test) => self.test(test, depth, evaluated),
            Rule::All(rules) => self.list(Join::All, rules, depth, evaluated),
            Rule::Any(rules) => self.list(Join::Any, rules, depth, evaluated),
            Rule::Not(rule) => negated(self.rule(rule, depth + 1, evaluated), evaluated),
        }
    }

    fn list(&mut self, join: Join, rules: &[Rule], depth: usize, evaluated: bool) -> Came {
        let mut joined = Joined::new(join, evaluated);
        for rule in rules {
            let came = self.rule(rule, depth + 1, joined.comes_to_next());
            joined.add(came);
        }
        joined.finish()
    }

    fn expression(&mut self, expression: &Expression, depth: usize, evaluated: bool) -> Came {
        let around = std::mem::take(&mut self.has_problem);
        // As it is evaluated by itself: what stands before an expression of a list has no part in it.
        let Came { held, part } = self.expr(expression, &expression.root, depth + 1, true);
        let has_problem = std::mem::replace(&mut self.has_problem, around);
        // Out of steps nothing is known; that nothing can be said of a value is no match.
        let known = self.budget.left() > 0;
        let passes = if has_problem { Some(false) } else { held.or_else(|| known.then_some(false)) };
        let part = part.map(|part| {
            let note = has_problem.then_some(MET_AN_ERROR);
            let mut whole = Part { what: What::Expression(Box::new(part)), held: passes, evaluated, note };
            if !evaluated {
                whole.set_not_evaluated();
            }
            whole
        });
        Came { held: passes, part }
    }

    fn expr(&mut self, expression: &Expression, expr: &Expr, depth: usize, evaluated: bool) -> Came {
        match &expr.kind {
            Kind::Not(inner) if expr.is_logic() => {
                negated(self.expr(expression, inner, depth + 1, evaluated), evaluated)
            }
            Kind::Chain(first, rest) if expr.is_logic() => {
                self.chain(expression, first, rest, depth, evaluated)
            }
            _ => self.comparison(expression, expr, depth, evaluated),
        }
    }

    /// AND, OR and XOR bind equally tight, from left to right: `a AND b OR c` is any of (all of `a`, `b`) and `c`.
    fn chain(
        &mut self,
        expression: &Expression,
        first: &Expr,
        rest: &[(Binary, Expr)],
        depth: usize,
        evaluated: bool,
    ) -> Came {
        let mut joins = rest.iter().map(|(op, _)| Join::of(*op));
        let Some(mut join) = joins.next() else { return self.expr(expression, first, depth, evaluated) };
        let changes = rest.windows(2).filter(|two| two[0].0 != two[1].0).count();
        // What stands first is nested deepest.
        let mut depth = depth + changes;
        let mut joined = Joined::new(join, evaluated);
        // The first one is what it is, also for XOR: false differs from what it is when that is true.
        let came = self.expr(expression, first, depth + 1, evaluated);
        joined.add(came);
        for (op, operand) in rest {
            if Join::of(*op) != join {
                join = Join::of(*op);
                depth -= 1;
                let before = joined.finish();
                joined = Joined::new(join, evaluated);
                joined.add(before);
            }
            let came = self.expr(expression, operand, depth + 1, joined.comes_to_next());
            joined.add(came);
        }
        joined.finish()
    }

    fn comparison(&mut self, expression: &Expression, expr: &Expr, depth: usize, evaluated: bool) -> Came {
        let mut evaluator = Evaluator::new(self.document, &mut self.budget);
        let (held, problem) = match evaluator.truth_of(expr) {
            Ok(truth) => match evaluator.problem {
                Some(problem) => (Some(false), Some(problem.code())),
                None => (truth, None),
            },
            Err(error) => (None, Some(error.code())),
        };
        self.has_problem |= evaluated && held.is_some() && problem.is_some();
        let part = self.room.take(depth).then(|| {
            let mut references = Vec::new();
            note_references(expr, &mut references);
            let seen = references.into_iter().map(|reference| self.seen(reference)).collect();
            let text = shortened(expression.text_of(&expr.at));
            let what = What::Clause(ClauseExplanation { text, seen, problem });
            Part { what, held, evaluated, note: None }
        });
        Came { held, part }
    }

    fn test(&mut self, test: &AttributeTest, depth: usize, evaluated: bool) -> Came {
        let held = Some(self.document.attribute(&test.name).is_some_and(|text| test.accepts(&text)));
        let part = self.room.take(depth).then(|| {
            let path = describe_attribute(&test.name);
            let wanted = quote(&test.operand, EXPLAINED_VALUE_CHARS_MAX);
            let text = format!("{path} {} {wanted}", test.how.name());
            let seen = vec![seen_attribute(self.document, path, &test.name)];
            let what = What::Clause(ClauseExplanation { text, seen, problem: None });
            Part { what, held, evaluated, note: None }
        });
        Came { held, part }
    }

    fn seen(&self, reference: &Reference) -> Seen {
        match reference {
            Reference::Attribute(name) => seen_attribute(self.document, describe_attribute(name), name),
            Reference::Data(keys) => seen_in_body(self.document, describe_body(keys), &keys_of(keys)),
        }
    }
}

fn negated(came: Came, evaluated: bool) -> Came {
    let held = came.held.map(|held| !held);
    let part = came.part.map(|part| Part { what: What::Not(Box::new(part)), held, evaluated, note: None });
    Came { held, part }
}

/// What of the event a clause asks for, each once, the first [`EXPLAINED_PATHS_MAX`].
fn note_references<'e>(expr: &'e Expr, found: &mut Vec<&'e Reference>) {
    if let Kind::Reference(reference) | Kind::Exists(reference) = &expr.kind
        && found.len() < EXPLAINED_PATHS_MAX
        && !found.contains(&reference)
    {
        found.push(reference);
    }
    expr.children().for_each(|child| note_references(child, found));
}

impl Part {
    /// Evaluation does not come to it, nor to what it is made of.
    fn set_not_evaluated(&mut self) {
        self.evaluated = false;
        match &mut self.what {
            What::Clause(_) => {}
            What::All(parts) | What::Any(parts) | What::Xor(parts) => {
                parts.iter_mut().for_each(Part::set_not_evaluated);
            }
            What::Not(part) | What::Expression(part) => part.set_not_evaluated(),
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(EXPLAINED_VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
