//! Expressions → alternatives: which clauses must hold for an expression to be true, or false.

use super::expression::{Binary, Expr, Kind, Literal, Reference};
use super::like::Like;
use crate::fold::Case;
use crate::ir::{Bound, Range, TextTest, ValueSet, Wanted};
use crate::number::{Decimal, Operand};
use crate::rule::{Alternatives, Drafting, Truth};

/// Attributes that every event has, and that are texts.
const REQUIRED: [&str; 4] = ["id", "source", "specversion", "type"];

/// Other attributes that are texts, when an event has them.
const TEXTS: [&str; 4] = ["subject", "time", "datacontenttype", "dataschema"];

/// What an expression may be. Recursion is as deep as the parser allows.
pub(crate) fn lower(drafting: &mut Drafting, expr: &Expr) -> Truth {
    match &expr.kind {
        Kind::Literal(Literal::Boolean(true)) => certain(Alternatives::always(), Alternatives::never()),
        Kind::Literal(Literal::Boolean(false)) => certain(Alternatives::never(), Alternatives::always()),
        Kind::Exists(reference) => exists(drafting, reference),
        // A number cannot be negated; what else it is, is a truth or cast to one.
        Kind::Not(inner) if !matches!(inner.kind, Kind::Literal(_)) => lower(drafting, inner).not(),
        Kind::Chain(first, rest) if rest.iter().all(|(op, _)| op.is_logic()) => {
            let mut truth = lower(drafting, first);
            for (op, operand) in rest {
                let right = lower(drafting, operand);
                truth = match op {
                    Binary::And => drafting.and_then(&truth, &right),
                    Binary::Or => drafting.or_else(&truth, &right),
                    _ => drafting.xor(&truth, &right),
                };
            }
            truth
        }
        Kind::Like { value, like, negated } => match &value.kind {
            Kind::Reference(reference) => turned(like_of(drafting, reference, like), *negated),
            _ => opaque(drafting, expr),
        },
        Kind::In { value, set, negated } => match (&value.kind, literals(set)) {
            (Kind::Reference(reference), Some(literals)) => {
                turned(in_of(drafting, reference, &literals), *negated)
            }
            _ => opaque(drafting, expr),
        },
        _ => comparison(drafting, expr).unwrap_or_else(|| opaque(drafting, expr)),
    }
}

fn certain(yes: Alternatives, no: Alternatives) -> Truth {
    Truth { yes, no, errorless: true, sure: true }
}

fn turned(truth: Truth, negated: bool) -> Truth {
    if negated { truth.not() } else { truth }
}

fn present() -> Wanted {
    Wanted { present: true, ..Wanted::default() }
}

fn any_of(set: ValueSet) -> Wanted {
    Wanted { any_of: set, ..Wanted::default() }
}

fn exists(drafting: &mut Drafting, reference: &Reference) -> Truth {
    let yes = drafting.clause(reference, present());
    let no = drafting.clause(reference, Wanted { absent: true, ..Wanted::default() });
    // Of a body that cannot be read nothing is known.
    Truth { yes, no, errorless: true, sure: matches!(reference, Reference::Attribute(_)) }
}

/// An expression of which only this is known: to give anything, it needs what it refers to.
fn opaque(drafting: &mut Drafting, expr: &Expr) -> Truth {
    let mut needed = Vec::new();
    needs(expr, &mut needed);
    let mut given = Alternatives::always();
    for reference in needed.into_iter().take(2) {
        let clause = drafting.clause(reference, present());
        given = drafting.and(&given, &clause);
    }
    Truth::opaque(&given)
}

/// What an expression cannot do without: not what stands behind AND, OR or in a set, where something else may decide.
fn needs<'e>(expr: &'e Expr, needed: &mut Vec<&'e Reference>) {
    match &expr.kind {
        Kind::Reference(reference) => needed.push(reference),
        Kind::In { value, .. } => needs(value, needed),
        Kind::Chain(_, rest) if rest.iter().any(|(op, _)| op.is_logic()) => {}
        _ => expr.children().for_each(|child| needs(child, needed)),
    }
}

/// A test of an attribute that is right whatever its type is: true and false exclude each other, absence is an error.
fn of_attribute(drafting: &mut Drafting, reference: &Reference, set: ValueSet) -> Truth {
    let yes = drafting.clause(reference, any_of(set.clone()));
    let no = drafting.clause(reference, Wanted { other_than: vec![set], ..Wanted::default() });
    let errorless = matches!(reference, Reference::Attribute(name) if REQUIRED.contains(&&**name));
    Truth { yes, no, errorless, sure: true }
}

/// A test of a path: some value is in the set, or there are values and none of them is.
fn of_data(drafting: &mut Drafting, reference: &Reference, set: ValueSet) -> Truth {
    let yes = drafting.clause(reference, any_of(set.clone()));
    // `none-of` looks at one list; below lists of objects there may be another one.
    let no = drafting.clause(reference, Wanted { none_of: vec![set], ..Wanted::default() }).vague();
    Truth { yes, no, errorless: true, sure: false }
}

/// A test whose casts depend on the event: `yes` is what may pass, to fail it must be there at all.
fn vague(drafting: &mut Drafting, reference: &Reference, yes: Wanted) -> Truth {
    let yes = drafting.clause(reference, yes).vague();
    let no = drafting.clause(reference, present()).vague();
    Truth { yes, no, errorless: false, sure: true }
}

fn like_of(drafting: &mut Drafting, reference: &Reference, like: &Like) -> Truth {
    let (glob, exact) = like.as_glob();
    let mut set = ValueSet::default();
    match glob.pieces.as_slice() {
        [only] => set.add_string(only),
        [start, end] if end.is_empty() => set.add_test(TextTest::Starts(Case::Sensitive, start.clone())),
        [start, end] if start.is_empty() => set.add_test(TextTest::Ends(Case::Sensitive, end.clone())),
        _ => set.add_test(TextTest::Like(glob)),
    }
    let truth = match reference {
        Reference::Attribute(_) => of_attribute(drafting, reference, set),
        Reference::Data(_) => of_data(drafting, reference, set),
    };
    if exact {
        return truth;
    }
    let no = drafting.clause(reference, present()).vague();
    Truth { yes: truth.yes.vague(), no, ..truth }
}

fn literals(set: &[Expr]) -> Option<Vec<&Literal>> {
    set.iter()
        .map(|element| match &element.kind {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        })
        .collect()
}

fn in_of(drafting: &mut Drafting, reference: &Reference, literals: &[&Literal]) -> Truth {
    let mut set = ValueSet::default();
    let Reference::Attribute(name) = reference else {
        literals.iter().for_each(|literal| add_typed(&mut set, literal));
        return of_data(drafting, reference, set);
    };
    literals.iter().for_each(|literal| add_casts(&mut set, literal));
    if REQUIRED.contains(&&**name) || TEXTS.contains(&&**name) {
        let mut texts = ValueSet::default();
        literals.iter().for_each(|literal| texts.add_string(&text_of(literal)));
        return of_attribute(drafting, reference, texts);
    }
    vague(drafting, reference, any_of(set))
}

fn text_of(literal: &Literal) -> String {
    match literal {
        Literal::Boolean(truth) => truth.to_string(),
        Literal::Integer(number) => number.to_string(),
        Literal::Text(text) => text.to_string(),
    }
}

fn operand(number: i32) -> Operand {
    Decimal::read(&number.to_string()).to_operand()
}

/// The value itself, and no other type.
fn add_typed(set: &mut ValueSet, literal: &Literal) {
    match literal {
        Literal::Boolean(true) => set.yes = true,
        Literal::Boolean(false) => set.no = true,
        Literal::Integer(number) => set.add_number(operand(*number)),
        Literal::Text(text) => set.add_string(text),
    }
}

/// The value, and what it may be cast to.
fn add_casts(set: &mut ValueSet, literal: &Literal) {
    let text = text_of(literal);
    set.add_string(&text);
    if let Ok(number) = text.parse::<i32>() {
        set.add_number(operand(number));
        // A truth reads as 1 or 0, a number other than 0 as true.
        set.yes |= number != 0;
        set.no |= number == 0;
    }
    let truth = [("true", 1), ("false", 0)].into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
    if let Some((word, number)) = truth {
        set.yes |= number == 1;
        set.no |= number == 0;
        set.add_number(operand(number));
        set.add_test(TextTest::Equals(Case::FoldAscii, word.into()));
    }
}

/// A path or attribute and a literal, in either order.
fn comparison(drafting: &mut Drafting, expr: &Expr) -> Option<Truth> {
    let (left, op, right) = expr.as_comparison()?;
    let (reference, op, literal, literal_first) = match (&left.kind, &right.kind) {
        (Kind::Reference(reference), Kind::Literal(literal)) => (reference, op, literal, false),
        (Kind::Literal(literal), Kind::Reference(reference)) => (reference, op.mirrored(), literal, true),
        _ => return None,
    };
    let negated = op == Binary::NotEqual;
    let is_equality = negated || op == Binary::Equal;
    let is_attribute = matches!(reference, Reference::Attribute(_));
    let mut set = ValueSet::default();
    let truth = match literal {
        literal if is_equality && !is_attribute => {
            add_typed(&mut set, literal);
            of_data(drafting, reference, set)
        }
        Literal::Text(text) if is_equality && !literal_first => {
            set.add_string(text);
            of_attribute(drafting, reference, set)
        }
        literal if is_equality && literal_first => {
            add_casts(&mut set, literal);
            vague(drafting, reference, any_of(set))
        }
        Literal::Integer(number) => {
            set.add_range(range(if is_equality { Binary::Equal } else { op }, *number));
            if is_attribute {
                vague(drafting, reference, any_of(with_other_spellings(set)))
            } else {
                of_data(drafting, reference, set)
            }
        }
        _ => return None,
    };
    Some(turned(truth, negated))
}

fn range(op: Binary, number: i32) -> Range {
    let bound = |inclusive| Some(Bound { number: operand(number), inclusive });
    match op {
        Binary::Less => Range { lower: None, upper: bound(false) },
        Binary::LessOrEqual => Range { lower: None, upper: bound(true) },
        Binary::Greater => Range { lower: bound(false), upper: None },
        Binary::GreaterOrEqual => Range { lower: bound(true), upper: None },
        _ => Range { lower: bound(true), upper: bound(true) },
    }
}

/// Texts that are cast to a number and are not written as one is, and truths.
fn with_other_spellings(mut set: ValueSet) -> ValueSet {
    for start in ["+", "0", "-0"] {
        set.add_test(TextTest::Starts(Case::Sensitive, start.into()));
    }
    ValueSet { yes: true, no: true, ..set }
}
