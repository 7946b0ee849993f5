//! The `cloudevents` language: lists of filters, as the CloudEvents Subscriptions API has them.
//!
//! ```json
//! [
//!   { "prefix": { "type": "com.example." } },
//!   { "any": [ { "exact": { "subject": "a" } }, { "not": { "suffix": { "source": "/b" } } } ] }
//! ]
//! ```
//!
//! An event must pass all filters of the list; an empty list lets every event pass. A filter is an object of one dialect:
//!
//! | dialect | passes when |
//! |---|---|
//! | `{"exact": {"type": "a", "source": "b"}}` | every attribute is there and equal, case-sensitive |
//! | `{"prefix": {…}}`, `{"suffix": {…}}` | every attribute is there and starts or ends so |
//! | `{"all": [ … ]}` | all filters of the list pass; at least one |
//! | `{"any": [ … ]}` | one filter of the list passes; at least one |
//! | `{"not": { … }}` | the filter does not pass; so it also passes when an attribute is absent |
//! | `{"sql": "…"}` | the expression is true without an error: see [`cesql`](crate::cesql), with its data extension |

use std::collections::HashSet;

use crate::cesql::Expression;
use crate::error::FilterError;
use crate::json::{Node, View};
use crate::limits::Limits;
use crate::pattern::{self, Place};
use crate::rule::{AttributeTest, How, Rule};

const DIALECTS: &str = "exact, prefix, suffix, all, any, not, sql";

/// Parses a list of filters.
pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Rule, FilterError> {
    let tape = pattern::read(text)?;
    let root = tape.root();
    if root.view() != View::Array {
        let message = "CloudEvents filters are a JSON list; write [{\"exact\": {\"type\": \"…\"}}]";
        return Err(FilterError::new("filter_not_list", "$", message));
    }
    let mut reading = Reading { limits, values: 0 };
    reading.list(root, &Place::Root, 0).map(Rule::All)
}

struct Reading<'l> {
    limits: &'l Limits,
    values: usize,
}

impl Reading<'_> {
    fn list(&mut self, list: Node<'_>, place: &Place<'_>, depth: usize) -> Result<Vec<Rule>, FilterError> {
        list.elements()
            .enumerate()
            .map(|(i, filter)| self.filter(filter, &Place::Index(place, i), depth))
            .collect()
    }

    fn filter(&mut self, node: Node<'_>, place: &Place<'_>, depth: usize) -> Result<Rule, FilterError> {
        if depth >= self.limits.depth {
            let message = format!("filters are nested more than {} deep; nest less", self.limits.depth);
            return Err(FilterError::new("filter_too_deep", place, message));
        }
        let mut members = node.members();
        let (Some((name, operand)), None) = (members.next(), members.next()) else {
            let message =
                format!("a filter is an object with exactly one dialect as its key; use one of {DIALECTS}");
            return Err(FilterError::new("filter_invalid_value", place, message));
        };
        let name = name.text();
        let place = &Place::Key(place, name);
        match name {
            "exact" => self.attributes(How::Exact, operand, place),
            "prefix" => self.attributes(How::Prefix, operand, place),
            "suffix" => self.attributes(How::Suffix, operand, place),
            "all" => self.nested(name, operand, place, depth).map(Rule::All),
            "any" => self.nested(name, operand, place, depth).map(Rule::Any),
            "not" => Ok(Rule::Not(Box::new(self.filter(operand, place, depth + 1)?))),
            "sql" => self.sql(operand, place),
            _ => {
                let message = format!("there is no dialect '{name}'; use one of {DIALECTS}");
                Err(FilterError::new("filter_unknown_operator", place, message))
            }
        }
    }

    fn nested(
        &mut self,
        name: &str,
        operand: Node<'_>,
        place: &Place<'_>,
        depth: usize,
    ) -> Result<Vec<Rule>, FilterError> {
        if operand.elements().next().is_none() {
            let message = format!("'{name}' takes a list of at least one filter");
            return Err(FilterError::new("filter_invalid_operand", place, message));
        }
        self.list(operand, place, depth + 1)
    }

    fn count(&mut self, place: &Place<'_>) -> Result<(), FilterError> {
        self.values += 1;
        if self.values > self.limits.values {
            let message =
                format!("the filter has more than {} values; split the subscription", self.limits.values);
            return Err(FilterError::new("filter_too_many_values", place, message));
        }
        Ok(())
    }

    fn attributes(&mut self, how: How, operand: Node<'_>, place: &Place<'_>) -> Result<Rule, FilterError> {
        let mut seen = HashSet::new();
        let mut tests = Vec::new();
        for (name, value) in operand.members() {
            let name = name.text();
            let place = &Place::Key(place, name);
            pattern::check_attribute_name(name, place)?;
            if !seen.insert(name) {
                let message =
                    format!("the attribute '{name}' stands twice in one filter; use two filters in 'all'");
                return Err(FilterError::new("filter_duplicate_key", place, message));
            }
            let View::Text(text) = value.view() else {
                let message = format!("'{}' compares with a string; write \"{name}\": \"…\"", how.name());
                return Err(FilterError::new("filter_invalid_operand", place, message));
            };
            if text.is_empty() {
                let message = "the string must not be empty; write at least one character";
                return Err(FilterError::new("filter_invalid_operand", place, message));
            }
            self.count(place)?;
            tests.push(Rule::Attribute(AttributeTest { name: name.into(), how, operand: text.into() }));
        }
        match (tests.len(), tests.pop()) {
            (1, Some(only)) => Ok(only),
            (_, Some(last)) => {
                tests.push(last);
                Ok(Rule::All(tests))
            }
            (_, None) => {
                let message =
                    format!("'{}' takes an object of attributes; write {{\"type\": \"…\"}}", how.name());
                Err(FilterError::new("filter_invalid_operand", place, message))
            }
        }
    }

    fn sql(&mut self, operand: Node<'_>, place: &Place<'_>) -> Result<Rule, FilterError> {
        let View::Text(text) = operand.view() else {
            return Err(FilterError::new(
                "filter_invalid_operand",
                place,
                "'sql' takes a string, an expression",
            ));
        };
        let left =
            Limits { values: self.limits.values - self.values.min(self.limits.values), ..*self.limits };
        let expression = Expression::filter(text, &left)
            .map_err(|error| FilterError { path: place.to_string(), ..error })?;
        self.values += expression.root.count_values();
        Ok(Rule::Sql(expression))
    }
}
