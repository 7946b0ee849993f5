//! Fields: objects of a pattern become paths, `$or` becomes alternatives.

use std::collections::{HashMap, HashSet};

use super::Dialect;
use super::operators::Values;
use super::place::{Place, write_step};
use crate::error::FilterError;
use crate::ir::{Clause, ClauseId, Conjunction, Keys, Program, StepId, Subject, next_id};
use crate::json::{Node, View};
use crate::limits::{EXPLAINED_VALUE_CHARS_MAX, Limits};

const OR: &str = "$or";
const ATTRIBUTES: &str = "$attributes";

/// Keys that people expect to be operators, and that would silently never match as fields.
const NO_OPERATORS: &[&str] = &["$and", "$not", "$nor"];

/// Names that, as a field inside `$or`, mean that a list of values was intended (EventBridge refuses them there,
/// too).
const OPERATOR_NAMES: &[&str] = &[
    "exactly",
    "prefix",
    "suffix",
    "equals-ignore-case",
    "equals-ignore-ascii-case",
    "wildcard",
    "numeric",
    "cidr",
    "exists",
    "anything-but",
    "none-of",
    "all-of",
    "date",
];

/// What the fields of an object are.
#[derive(Clone, Copy)]
enum Scope<'s> {
    /// Keys of the body below these; the root when there are none.
    Body(&'s [StepId]),
    /// Names of attributes.
    Attributes,
}

/// An alternative in the making.
type Draft = Vec<ClauseId>;

#[derive(Default)]
struct Lowering {
    limits: Limits,
    keys: Keys,
    clauses: Vec<Clause>,
    /// By clause: a number that equal subjects share.
    subject_of: Vec<usize>,
    subject_ids: HashMap<String, usize>,
    values: Values,
}

/// Lowers the root object of a pattern.
pub(super) fn lower(
    root: Node<'_>,
    place: &Place<'_>,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Program, FilterError> {
    let values = Values::new(dialect, limits.values);
    let mut lowering = Lowering { limits: *limits, values, ..Lowering::default() };
    let mut drafts = vec![Draft::new()];
    lowering.object(root, place, Scope::Body(&[]), false, &mut drafts)?;
    let Lowering { keys, clauses, .. } = lowering;
    let conjunctions = drafts.iter().map(|draft| Conjunction::of(draft, &clauses)).collect();
    Ok(Program {
        steps: keys.into_steps(),
        clauses,
        conjunctions,
        rule: None,
        exact: true,
        text: Box::default(),
    })
}

impl Lowering {
    /// Adds the fields of an object to every draft.
    fn object(
        &mut self,
        node: Node<'_>,
        place: &Place<'_>,
        scope: Scope<'_>,
        in_or: bool,
        drafts: &mut Vec<Draft>,
    ) -> Result<(), FilterError> {
        let mut seen = HashSet::new();
        for (key, value) in node.members() {
            let key = key.text();
            let place = &Place::Key(place, key);
            if !seen.insert(key) {
                let message =
                    format!("the key '{key}' stands twice in one object; write one list with all values");
                return Err(FilterError::new("filter_duplicate_key", place, message));
            }
            match (key, scope) {
                (OR, _) => self.or(value, place, scope, drafts)?,
                (ATTRIBUTES, Scope::Body([])) => {
                    self.values.extension(ATTRIBUTES, place)?;
                    self.attributes(value, place, in_or, drafts)?;
                }
                (_, Scope::Body(path)) => self.field(key, value, place, path, in_or, drafts)?,
                (_, Scope::Attributes) => {
                    check_attribute(key, value, place)?;
                    self.clause(Subject::Attribute(key.into()), value, place, drafts)?;
                }
            }
        }
        if seen.is_empty() {
            let message =
                "an object without fields matches nothing that can be meant; name a field or remove it";
            return Err(FilterError::new("filter_empty", place, message));
        }
        Ok(())
    }

    fn or(
        &mut self,
        node: Node<'_>,
        place: &Place<'_>,
        scope: Scope<'_>,
        drafts: &mut Vec<Draft>,
    ) -> Result<(), FilterError> {
        let refuse = |place: &Place<'_>| {
            let message =
                "'$or' takes a list of at least two objects; write \"$or\": [{\"a\": [1]}, {\"b\": [2]}]";
            FilterError::new("filter_invalid_or", place, message)
        };
        if node.view() != View::Array || node.elements().count() < 2 {
            return Err(refuse(place));
        }
        let mut expanded = Vec::new();
        for (i, branch) in node.elements().enumerate() {
            let place = &Place::Index(place, i);
            if branch.view() != View::Object {
                return Err(refuse(place));
            }
            let mut drafts = drafts.clone();
            self.object(branch, place, scope, true, &mut drafts)?;
            expanded.append(&mut drafts);
            if expanded.len() > self.limits.conjunctions {
                let message = format!(
                    "'$or' stands for more than {} alternatives; use lists of values, or fewer '$or' side by side",
                    self.limits.conjunctions
                );
                return Err(FilterError::new("filter_too_many_alternatives", place, message));
            }
        }
        *drafts = expanded;
        Ok(())
    }

    fn attributes(
        &mut self,
        node: Node<'_>,
        place: &Place<'_>,
        in_or: bool,
        drafts: &mut Vec<Draft>,
    ) -> Result<(), FilterError> {
        if node.view() != View::Object {
            let message = "'$attributes' takes an object of attribute names; write {\"source\": [\"…\"]}";
            return Err(FilterError::new("filter_invalid_attribute", place, message));
        }
        self.object(node, place, Scope::Attributes, in_or, drafts)
    }

    fn field(
        &mut self,
        key: &str,
        value: Node<'_>,
        place: &Place<'_>,
        path: &[StepId],
        in_or: bool,
        drafts: &mut Vec<Draft>,
    ) -> Result<(), FilterError> {
        if NO_OPERATORS.contains(&key) {
            let message = format!(
                "'{key}' is not an operator; fields stand for 'and', 'all-of' for several values of one list, 'anything-but' and 'none-of' for 'not'"
            );
            return Err(FilterError::new("filter_unknown_operator", place, message));
        }
        let is_operator = OPERATOR_NAMES.contains(&key);
        if is_operator && in_or {
            let message = format!(
                "'{key}' is an operator and cannot be a field inside '$or'; put it into a list of values"
            );
            return Err(FilterError::new("filter_invalid_or", place, message));
        }
        if is_operator && !matches!(value.view(), View::Array | View::Object) {
            let message = format!("the operator '{key}' must stand in a list; write [{{\"{key}\": …}}]");
            return Err(FilterError::new("filter_invalid_value", place, message));
        }
        if path.len() >= self.limits.path_steps {
            let message =
                format!("the path has more than {} keys; match a value higher up", self.limits.path_steps);
            return Err(FilterError::new("filter_too_deep", place, message));
        }
        let mut path = path.to_vec();
        path.push(self.keys.id(key));
        if value.view() == View::Object {
            self.object(value, place, Scope::Body(&path), in_or, drafts)
        } else {
            self.clause(Subject::Body(path.into()), value, place, drafts)
        }
    }

    fn clause(
        &mut self,
        subject: Subject,
        value: Node<'_>,
        place: &Place<'_>,
        drafts: &mut [Draft],
    ) -> Result<(), FilterError> {
        let wanted = self.values.list(value, place)?;
        let path = self.describe(&subject);
        let subject_id = self.subject_ids.len();
        let subject_id = *self.subject_ids.entry(path.clone()).or_insert(subject_id);
        let id = next_id(self.clauses.len());
        let text = value.written(EXPLAINED_VALUE_CHARS_MAX).into();
        self.clauses.push(Clause { subject, wanted, path: path.into(), text });
        self.subject_of.push(subject_id);
        for draft in drafts {
            if draft.iter().any(|other| self.subject_of[*other as usize] == subject_id) {
                let message = "two lists for the same path in one alternative; write one list that says both";
                return Err(FilterError::new("filter_duplicate_path", place, message));
            }
            if draft.len() >= self.limits.clauses {
                let message = format!(
                    "more than {} fields must match together; leave the least telling ones out",
                    self.limits.clauses
                );
                return Err(FilterError::new("filter_too_many_clauses", place, message));
            }
            draft.push(id);
        }
        Ok(())
    }

    fn describe(&self, subject: &Subject) -> String {
        match subject {
            Subject::Attribute(name) => describe_attribute(name),
            Subject::Body(steps) => describe_body(steps.iter().map(|step| self.keys.key(*step))),
        }
    }
}

/// The path of an attribute, for people.
pub(crate) fn describe_attribute(name: &str) -> String {
    let mut text = ATTRIBUTES.to_owned();
    let written = write_step(&mut text, name);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
    text
}

/// The path of a value of the body, for people. Keys are quoted where they must be, so different paths have different texts.
pub(crate) fn describe_body(keys: impl IntoIterator<Item: AsRef<str>>) -> String {
    let mut text = "$".to_owned();
    let written = keys.into_iter().try_for_each(|key| write_step(&mut text, key.as_ref()));
    debug_assert!(written.is_ok(), "writing to a string does not fail");
    text
}

/// CloudEvents names are lower-case letters and digits.
pub(crate) fn check_attribute_name(name: &str, place: &Place<'_>) -> Result<(), FilterError> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        let message = format!(
            "'{name}' is not the name of an attribute; use lower-case letters and digits, as in 'type'"
        );
        return Err(FilterError::new("filter_invalid_attribute", place, message));
    }
    if name == "data" {
        let message = "'data' is the body and not an attribute; a 'pattern' has its fields beside '$attributes', an expression as data.field";
        return Err(FilterError::new("filter_invalid_attribute", place, message));
    }
    Ok(())
}

/// Attributes have no inner structure.
fn check_attribute(name: &str, value: Node<'_>, place: &Place<'_>) -> Result<(), FilterError> {
    check_attribute_name(name, place)?;
    if value.view() == View::Object {
        let message = format!("an attribute has no fields; write a list of values: \"{name}\": [{{…}}]");
        return Err(FilterError::new("filter_invalid_attribute", place, message));
    }
    Ok(())
}
