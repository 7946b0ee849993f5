//! Values: what stands in the lists of a pattern.

use super::Dialect;
use super::place::Place;
use crate::error::FilterError;
use crate::fold::Case;
use crate::ir::{Bound, Glob, Range, TextTest, ValueSet, Wanted};
use crate::json::{Node, View};
use crate::limits::{EXPONENT_MAX, VALUES_MAX};
use crate::number::{Decimal, Operand};

const OPERATORS: &str = "prefix, suffix, equals-ignore-case, equals-ignore-ascii-case, wildcard, exactly, numeric, cidr, \
                         exists, anything-but, none-of";
const TEXT_OPERATORS: &str = "prefix, suffix, equals-ignore-case, equals-ignore-ascii-case, wildcard";

/// Reads values, and counts them.
#[derive(Default)]
pub(super) struct Values {
    count: usize,
    dialect: Dialect,
}

fn invalid_operand(place: &Place<'_>, message: impl Into<String>) -> FilterError {
    FilterError::new("filter_invalid_operand", place, message)
}

impl Values {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { count: 0, dialect }
    }

    /// Something that EventBridge does not have.
    pub(super) fn extension(&self, what: &str, place: &Place<'_>) -> Result<(), FilterError> {
        if self.dialect == Dialect::Extended {
            return Ok(());
        }
        let message =
            format!("{what} is not part of EventBridge patterns; use the language 'pattern' for it");
        Err(FilterError::new("filter_not_eventbridge", place, message))
    }

    /// A list, or one value that stands for a list of itself.
    pub(super) fn list(&mut self, node: Node<'_>, place: &Place<'_>) -> Result<Wanted, FilterError> {
        let mut wanted = Wanted::default();
        if node.view() != View::Array {
            self.extension("a value without a list", place)?;
            self.value(node, place, &mut wanted)?;
            return Ok(wanted);
        }
        if is_empty(node) {
            let message =
                "an empty list matches nothing; name a value, or write [{\"exists\": true}] for any";
            return Err(FilterError::new("filter_empty", place, message));
        }
        for (i, value) in node.elements().enumerate() {
            self.value(value, &Place::Index(place, i), &mut wanted)?;
        }
        Ok(wanted)
    }

    fn add(&mut self, place: &Place<'_>) -> Result<(), FilterError> {
        self.count += 1;
        if self.count > VALUES_MAX {
            let message =
                format!("the filter has more than {VALUES_MAX} values; use a prefix, a wildcard or a range");
            return Err(FilterError::new("filter_too_many_values", place, message));
        }
        Ok(())
    }

    fn value(&mut self, node: Node<'_>, place: &Place<'_>, wanted: &mut Wanted) -> Result<(), FilterError> {
        match node.view() {
            View::Object => self.operator(node, place, wanted),
            View::Array => {
                let message = "lists of values cannot be nested; list the values themselves, an event's lists are looked into";
                Err(FilterError::new("filter_invalid_value", place, message))
            }
            _ => self.scalar(node, place, &mut wanted.any_of),
        }
    }

    /// A string, number, `true`, `false` or `null`.
    fn scalar(&mut self, node: Node<'_>, place: &Place<'_>, set: &mut ValueSet) -> Result<(), FilterError> {
        self.add(place)?;
        match node.view() {
            View::Null => set.null = true,
            View::Bool(true) => set.yes = true,
            View::Bool(false) => set.no = true,
            View::Number(text) => set.add_number(number(text, place)?),
            View::Text(text) => set.add_string(text),
            View::Array | View::Object => {
                let message = "expected a string, a number, true, false or null";
                return Err(FilterError::new("filter_invalid_value", place, message));
            }
        }
        Ok(())
    }

    fn operator(
        &mut self,
        node: Node<'_>,
        place: &Place<'_>,
        wanted: &mut Wanted,
    ) -> Result<(), FilterError> {
        let (name, operand) = only_member(node, place)?;
        let place = &Place::Key(place, name);
        match name {
            "anything-but" => wanted.other_than.push(self.excluded(name, operand, place)?),
            "none-of" => {
                self.extension("'none-of'", place)?;
                wanted.none_of.push(self.excluded(name, operand, place)?);
            }
            "exists" => {
                self.add(place)?;
                match operand.view() {
                    View::Bool(true) => wanted.present = true,
                    View::Bool(false) => wanted.absent = true,
                    _ => return Err(invalid_operand(place, "'exists' takes true or false")),
                }
            }
            "numeric" => {
                self.add(place)?;
                wanted.any_of.add_range(range(operand, place)?);
            }
            "cidr" => {
                self.add(place)?;
                let network = operand.text().parse().map_err(|_| {
                    invalid_operand(
                        place,
                        "'cidr' takes a network as in \"10.0.0.0/8\"; a single address is \"10.0.0.1/32\"",
                    )
                })?;
                wanted.any_of.add_network(network);
            }
            "exactly" => {
                self.add(place)?;
                wanted.any_of.add_string(string(name, operand, place)?);
            }
            _ => match self.text_test(name, operand, place)? {
                Some(test) => {
                    self.add(place)?;
                    wanted.any_of.add_test(test);
                }
                None => return Err(unknown(name, place, OPERATORS)),
            },
        }
        Ok(())
    }

    /// A test of a text; `None` when there is none of that name.
    fn text_test(
        &self,
        name: &str,
        operand: Node<'_>,
        place: &Place<'_>,
    ) -> Result<Option<TextTest>, FilterError> {
        let test = text_test(name, operand, place)?;
        let ascii = |test: &TextTest| {
            matches!(
                test,
                TextTest::Equals(Case::FoldAscii, _)
                    | TextTest::Starts(Case::FoldAscii, _)
                    | TextTest::Ends(Case::FoldAscii, _)
            )
        };
        if test.as_ref().is_some_and(ascii) {
            self.extension("'equals-ignore-ascii-case'", place)?;
        }
        Ok(test)
    }

    /// The operand of `anything-but` and `none-of`.
    fn excluded(&mut self, name: &str, node: Node<'_>, place: &Place<'_>) -> Result<ValueSet, FilterError> {
        let mut set = ValueSet::default();
        match node.view() {
            View::Array if is_empty(node) => {
                return Err(invalid_operand(
                    place,
                    format!("'{name}' of an empty list is anything; write {{\"exists\": true}}"),
                ));
            }
            View::Array => {
                for (i, value) in node.elements().enumerate() {
                    self.scalar(value, &Place::Index(place, i), &mut set)?;
                }
            }
            View::Object => {
                let (inner, operand) = only_member(node, place)?;
                self.excluded_texts(inner, operand, &Place::Key(place, inner), &mut set)?;
            }
            _ => self.scalar(node, place, &mut set)?,
        }
        Ok(set)
    }

    fn excluded_texts(
        &mut self,
        name: &str,
        node: Node<'_>,
        place: &Place<'_>,
        set: &mut ValueSet,
    ) -> Result<(), FilterError> {
        if !TEXT_OPERATORS.split(", ").any(|known| known == name) {
            return Err(unknown(name, place, TEXT_OPERATORS));
        }
        if node.view() != View::Array {
            return self.excluded_text(name, node, place, set);
        }
        if is_empty(node) {
            return Err(invalid_operand(
                place,
                format!("'{name}' takes a string or a list of strings, not an empty list"),
            ));
        }
        node.elements()
            .enumerate()
            .try_for_each(|(i, operand)| self.excluded_text(name, operand, &Place::Index(place, i), set))
    }

    fn excluded_text(
        &mut self,
        name: &str,
        operand: Node<'_>,
        place: &Place<'_>,
        set: &mut ValueSet,
    ) -> Result<(), FilterError> {
        self.add(place)?;
        let test =
            self.text_test(name, operand, place)?.ok_or_else(|| unknown(name, place, TEXT_OPERATORS))?;
        if matches!(&test, TextTest::Starts(_, text) | TextTest::Ends(_, text) if text.is_empty()) {
            let message = format!(
                "every string has the empty {name}, so no string is left; write at least one character"
            );
            return Err(invalid_operand(place, message));
        }
        set.add_test(test);
        Ok(())
    }
}

fn is_empty(list: Node<'_>) -> bool {
    list.elements().next().is_none()
}

fn unknown(name: &str, place: &Place<'_>, known: &str) -> FilterError {
    FilterError::new(
        "filter_unknown_operator",
        place,
        format!("there is no operator '{name}' here; use one of {known}"),
    )
}

fn only_member<'t>(node: Node<'t>, place: &Place<'_>) -> Result<(&'t str, Node<'t>), FilterError> {
    let mut members = node.members();
    match (members.next(), members.next()) {
        (Some((key, value)), None) => Ok((key.text(), value)),
        _ => Err(invalid_operand(
            place,
            "an operator is an object with exactly one key; write one object per operator",
        )),
    }
}

fn string<'t>(name: &str, node: Node<'t>, place: &Place<'_>) -> Result<&'t str, FilterError> {
    match node.view() {
        View::Text(text) => Ok(text),
        _ => Err(invalid_operand(place, format!("'{name}' takes a string"))),
    }
}

fn case_of(name: &str) -> Option<Case> {
    match name {
        "equals-ignore-case" => Some(Case::Fold),
        "equals-ignore-ascii-case" => Some(Case::FoldAscii),
        _ => None,
    }
}

/// A test of a text; `None` when there is none of that name.
fn text_test(name: &str, operand: Node<'_>, place: &Place<'_>) -> Result<Option<TextTest>, FilterError> {
    if let Some(case) = case_of(name) {
        let folded = case.fold_text(string(name, operand, place)?);
        return Ok(Some(TextTest::Equals(case, folded.into())));
    }
    let (case, operand) = match (name, operand.view()) {
        ("prefix" | "suffix", View::Object) => {
            let (inner, operand) = only_member(operand, place)?;
            let place = &Place::Key(place, inner);
            let known = "equals-ignore-case, equals-ignore-ascii-case";
            let case = case_of(inner).ok_or_else(|| unknown(inner, place, known))?;
            (case, string(inner, operand, place)?)
        }
        ("prefix" | "suffix" | "wildcard", _) => (Case::Sensitive, string(name, operand, place)?),
        _ => return Ok(None),
    };
    Ok(Some(match name {
        "prefix" => TextTest::Starts(case, case.fold_text(operand).into()),
        "suffix" => TextTest::Ends(case, case.fold_text(operand).into()),
        _ => TextTest::Like(glob(operand, place)?),
    }))
}

fn glob(text: &str, place: &Place<'_>) -> Result<Glob, FilterError> {
    let mut pieces = vec![String::new()];
    let mut after_star = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let literal = match c {
            '*' if after_star => {
                return Err(invalid_operand(
                    place,
                    "'**' is the same as '*'; write one, or '\\*' for the character",
                ));
            }
            '*' => {
                pieces.push(String::new());
                after_star = true;
                continue;
            }
            '\\' => match chars.next() {
                Some(c @ ('*' | '\\')) => c,
                _ => {
                    return Err(invalid_operand(
                        place,
                        "a backslash stands only before '*' or '\\'; write '\\\\' for one",
                    ));
                }
            },
            c => c,
        };
        after_star = false;
        if let Some(piece) = pieces.last_mut() {
            piece.push(literal);
        }
    }
    Ok(Glob { pieces: pieces.into_iter().map(String::into_boxed_str).collect() })
}

fn number(text: &str, place: &Place<'_>) -> Result<Operand, FilterError> {
    let number = Decimal::read(text);
    if number.magnitude().abs() > EXPONENT_MAX {
        return Err(invalid_operand(
            place,
            format!("the number is out of range; its exponent may be at most {EXPONENT_MAX}"),
        ));
    }
    Ok(number.to_operand())
}

const NUMERIC_FORM: &str = "'numeric' takes a list of comparisons as in [\">\", 0, \"<=\", 5]: one or two of = < <= > >= with a number";

fn range(node: Node<'_>, place: &Place<'_>) -> Result<Range, FilterError> {
    let parts: Vec<_> = node.elements().take(5).collect();
    if parts.is_empty() || parts.len() > 4 || parts.len() % 2 == 1 {
        return Err(invalid_operand(place, NUMERIC_FORM));
    }
    let mut range = Range::default();
    for (i, pair) in parts.chunks(2).enumerate() {
        let place = &Place::Index(place, 2 * i);
        let [comparison, limit] = pair else { return Err(invalid_operand(place, NUMERIC_FORM)) };
        let View::Number(text) = limit.view() else { return Err(invalid_operand(place, NUMERIC_FORM)) };
        let limit = |inclusive| Ok::<_, FilterError>(Some(Bound { number: number(text, place)?, inclusive }));
        let comparison = comparison.text();
        let again = match comparison {
            ">" | ">=" => range.lower.is_some(),
            "<" | "<=" => range.upper.is_some(),
            "=" => parts.len() > 2,
            _ => return Err(invalid_operand(place, NUMERIC_FORM)),
        };
        if again {
            return Err(invalid_operand(
                place,
                "'numeric' takes at most one lower and one upper bound, and '=' only alone",
            ));
        }
        if matches!(comparison, ">" | ">=" | "=") {
            range.lower = limit(comparison != ">")?;
        }
        if matches!(comparison, "<" | "<=" | "=") {
            range.upper = limit(comparison != "<")?;
        }
    }
    if range.is_possible() {
        Ok(range)
    } else {
        Err(invalid_operand(place, "no number is in this range; exchange the bounds"))
    }
}
