//! Values: what stands in the lists of a pattern.

use super::Dialect;
use super::place::Place;
use super::texts::text_test;
use crate::error::FilterError;
use crate::fold::Case;
use crate::ir::{Bound, Range, TextTest, ValueSet, Wanted};
use crate::json::{Node, View};
use crate::limits::EXPONENT_MAX;
use crate::moment::{Moments, read_moment};
use crate::number::{Decimal, Operand};

const OPERATORS: &str = "prefix, suffix, equals-ignore-case, equals-ignore-ascii-case, wildcard, exactly, numeric, cidr, \
                         date, exists, anything-but, none-of, all-of";
const TEXT_OPERATORS: &str = "prefix, suffix, equals-ignore-case, equals-ignore-ascii-case, wildcard";

/// Reads values, and counts them.
#[derive(Default)]
pub(super) struct Values {
    count: usize,
    most: usize,
    dialect: Dialect,
}

pub(super) fn invalid_operand(place: &Place<'_>, message: impl Into<String>) -> FilterError {
    FilterError::new("filter_invalid_operand", place, message)
}

impl Values {
    pub(super) fn new(dialect: Dialect, most: usize) -> Self {
        Self { count: 0, most, dialect }
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
        if self.count > self.most {
            let message =
                format!("the filter has more than {} values; use a prefix, a wildcard or a range", self.most);
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
            "all-of" => {
                self.extension("'all-of'", place)?;
                wanted.all_of.push(self.all_of(operand, place)?);
            }
            "exists" => {
                self.add(place)?;
                match operand.view() {
                    View::Bool(true) => wanted.present = true,
                    View::Bool(false) => wanted.absent = true,
                    _ => return Err(invalid_operand(place, "'exists' takes true or false")),
                }
            }
            _ => self.set_operator(name, operand, place, OPERATORS, &mut wanted.any_of)?,
        }
        Ok(())
    }

    /// An operator that stands for a set of values.
    fn set_operator(
        &mut self,
        name: &str,
        operand: Node<'_>,
        place: &Place<'_>,
        known: &str,
        set: &mut ValueSet,
    ) -> Result<(), FilterError> {
        self.add(place)?;
        match name {
            "numeric" => set.add_range(range(operand, place)?),
            "date" => {
                self.extension("'date'", place)?;
                set.add_moments(moments(operand, place)?);
            }
            "cidr" => {
                let network = operand.text().parse().map_err(|_| {
                    invalid_operand(
                        place,
                        "'cidr' takes a network as in \"10.0.0.0/8\"; a single address is \"10.0.0.1/32\"",
                    )
                })?;
                set.add_network(network);
            }
            "exactly" => set.add_string(string(name, operand, place)?),
            _ => match self.text_test(name, operand, place)? {
                Some(test) => set.add_test(test),
                None => return Err(unknown(name, place, known)),
            },
        }
        Ok(())
    }

    /// The operand of `all-of`: one set for each value that a list must have.
    fn all_of(&mut self, node: Node<'_>, place: &Place<'_>) -> Result<Vec<ValueSet>, FilterError> {
        if node.elements().nth(1).is_none() {
            let message = "'all-of' takes a list of at least two values; write one value without it";
            return Err(invalid_operand(place, message));
        }
        node.elements()
            .enumerate()
            .map(|(i, value)| {
                let place = &Place::Index(place, i);
                let mut set = ValueSet::default();
                if value.view() == View::Object {
                    let (name, operand) = only_member(value, place)?;
                    let known = "exactly, numeric, date, cidr, prefix, suffix, equals-ignore-case, equals-ignore-ascii-case, wildcard";
                    self.set_operator(name, operand, &Place::Key(place, name), known, &mut set)?;
                } else {
                    self.scalar(value, place, &mut set)?;
                }
                Ok(set)
            })
            .collect()
    }

    /// A test of a text; `None` when there is none of that name.
    fn text_test(
        &self,
        name: &str,
        operand: Node<'_>,
        place: &Place<'_>,
    ) -> Result<Option<TextTest>, FilterError> {
        let test = text_test(name, operand, place)?;
        match &test {
            Some(
                TextTest::Equals(Case::FoldAscii, _)
                | TextTest::Starts(Case::FoldAscii, _)
                | TextTest::Ends(Case::FoldAscii, _),
            ) => self.extension("'equals-ignore-ascii-case'", place)?,
            Some(TextTest::Like(glob)) if glob.case != Case::Sensitive => {
                self.extension("a wildcard in any case", place)?;
            }
            _ => {}
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

pub(super) fn unknown(name: &str, place: &Place<'_>, known: &str) -> FilterError {
    FilterError::new(
        "filter_unknown_operator",
        place,
        format!("there is no operator '{name}' here; use one of {known}"),
    )
}

pub(super) fn only_member<'t>(node: Node<'t>, place: &Place<'_>) -> Result<(&'t str, Node<'t>), FilterError> {
    let mut members = node.members();
    match (members.next(), members.next()) {
        (Some((key, value)), None) => Ok((key.text(), value)),
        _ => Err(invalid_operand(
            place,
            "an operator is an object with exactly one key; write one object per operator",
        )),
    }
}

pub(super) fn string<'t>(name: &str, node: Node<'t>, place: &Place<'_>) -> Result<&'t str, FilterError> {
    match node.view() {
        View::Text(text) => Ok(text),
        _ => Err(invalid_operand(place, format!("'{name}' takes a string"))),
    }
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

const DATE_FORM: &str = "'date' takes a list of comparisons as in [\">=\", \"2026-01-01T00:00:00Z\"]: one or two of = < <= > >= with an RFC 3339 timestamp";

/// The two ends of a range: a limit, and whether it belongs to the range.
struct Ends<L> {
    lower: Option<(L, bool)>,
    upper: Option<(L, bool)>,
}

/// Reads one or two comparisons.
fn ends<L: Clone>(
    node: Node<'_>,
    place: &Place<'_>,
    form: &str,
    read: impl Fn(Node<'_>, &Place<'_>) -> Result<L, FilterError>,
) -> Result<Ends<L>, FilterError> {
    let parts: Vec<_> = node.elements().take(5).collect();
    if parts.is_empty() || parts.len() > 4 || parts.len() % 2 == 1 {
        return Err(invalid_operand(place, form));
    }
    let mut ends = Ends { lower: None, upper: None };
    for (i, pair) in parts.chunks(2).enumerate() {
        let place = &Place::Index(place, 2 * i);
        let [comparison, limit] = pair else { return Err(invalid_operand(place, form)) };
        let limit = read(*limit, place)?;
        let comparison = comparison.text();
        let again = match comparison {
            ">" | ">=" => ends.lower.is_some(),
            "<" | "<=" => ends.upper.is_some(),
            "=" => parts.len() > 2,
            _ => return Err(invalid_operand(place, form)),
        };
        if again {
            let message = "there is at most one lower and one upper bound, and '=' only alone";
            return Err(invalid_operand(place, message));
        }
        if matches!(comparison, ">" | ">=" | "=") {
            ends.lower = Some((limit.clone(), comparison != ">"));
        }
        if matches!(comparison, "<" | "<=" | "=") {
            ends.upper = Some((limit, comparison != "<"));
        }
    }
    Ok(ends)
}

fn range(node: Node<'_>, place: &Place<'_>) -> Result<Range, FilterError> {
    let ends = ends(node, place, NUMERIC_FORM, |limit, place| match limit.view() {
        View::Number(text) => number(text, place),
        _ => Err(invalid_operand(place, NUMERIC_FORM)),
    })?;
    let bound = |(number, inclusive)| Bound { number, inclusive };
    let range = Range { lower: ends.lower.map(bound), upper: ends.upper.map(bound) };
    if range.is_possible() {
        Ok(range)
    } else {
        Err(invalid_operand(place, "no number is in this range; exchange the bounds"))
    }
}

fn moments(node: Node<'_>, place: &Place<'_>) -> Result<Moments, FilterError> {
    let ends = ends(node, place, DATE_FORM, |limit, place| {
        read_moment(limit.text()).ok_or_else(|| invalid_operand(place, DATE_FORM))
    })?;
    // Moments are whole nanoseconds: the next one is the first that is later.
    let moments = Moments {
        lower: ends.lower.map(|(at, inclusive)| at + i128::from(!inclusive)),
        upper: ends.upper.map(|(at, inclusive)| at - i128::from(!inclusive)),
    };
    match moments {
        Moments { lower: Some(lower), upper: Some(upper) } if lower > upper => {
            Err(invalid_operand(place, "no timestamp is in this time; exchange the bounds"))
        }
        possible => Ok(possible),
    }
}
