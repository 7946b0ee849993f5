//! A tree of values → [`SetupFile`], with every structural problem and not only the first.
//!
//! Serde stops at the first error. Here the place of an error is noted and repaired with the least that lets reading go
//! on (an unknown field is taken out, a missing one gets a stand-in), until the document reads. What was repaired is
//! reported; the stand-ins are never used, because a document with a problem is refused whole.

use serde_json::{Map, Value, json};

use super::entries::SetupFile;
use super::path::{Path, Step};
use super::problem::{PROBLEMS_MAX, SetupProblem, code};

/// Problems, at most one per place: what follows from an earlier problem at the same place is left out.
#[derive(Debug, Default)]
pub(super) struct Problems {
    places: Vec<Path>,
    list: Vec<SetupProblem>,
}

impl Problems {
    /// Notes a problem unless its place, or a place around it, has one already.
    pub(super) fn add(&mut self, code: &str, path: &Path, detail: impl Into<String>) {
        if !self.covers(path) {
            self.places.push(path.clone());
            self.list.push(SetupProblem::new(code, path, detail));
        }
    }

    pub(super) fn covers(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.is_within(place))
    }

    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= PROBLEMS_MAX
    }

    pub(super) fn into_list(mut self) -> Vec<SetupProblem> {
        self.list.truncate(PROBLEMS_MAX);
        self.list
    }
}

/// Reads a document. `None` when it is so far off that nothing can be checked further.
pub(super) fn read(mut document: Value, problems: &mut Problems) -> Option<SetupFile> {
    // Each turn repairs one place or makes a second, blunter repair of it; a document cannot need more turns than that.
    for _ in 0..PROBLEMS_MAX * 4 {
        let error = match serde_path_to_error::deserialize::<_, SetupFile>(&document) {
            Ok(file) => return Some(file),
            Err(error) => error,
        };
        let mut path = Path::from(error.path());
        let message = error.into_inner().to_string();
        let fault = Fault::from_message(&message);
        if let Some(field) = fault.field()
            && path.steps().last() != Some(&Step::Key(field.to_owned()))
        {
            path = path.key(field);
        }
        let again = problems.covers(&path);
        problems.add(fault.code(), &path, fault.detail(&message, path.get(&document)));
        if problems.is_full() || !repair(&mut document, &path, &fault, again) {
            return None;
        }
    }
    None
}

/// What serde said.
enum Fault {
    Unknown { field: String, known: String },
    Missing { field: String },
    Other,
}

impl Fault {
    fn from_message(message: &str) -> Self {
        let named = |rest: &str| rest.split_once('`').map(|(name, rest)| (name.to_owned(), rest.to_owned()));
        if let Some((field, rest)) = message.strip_prefix("unknown field `").and_then(named) {
            let known = rest.trim_start_matches(", expected ").replace("one of ", "").replace('`', "");
            return Fault::Unknown { field, known };
        }
        match message.strip_prefix("missing field `").and_then(named) {
            Some((field, _)) => Fault::Missing { field },
            None => Fault::Other,
        }
    }

    fn field(&self) -> Option<&str> {
        match self {
            Fault::Unknown { field, .. } | Fault::Missing { field } => Some(field),
            Fault::Other => None,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Fault::Unknown { .. } => code::UNKNOWN_FIELD,
            Fault::Missing { .. } => code::MISSING_FIELD,
            Fault::Other => code::WRONG_TYPE,
        }
    }

    /// Names what was found by its kind only: the value may be a secret.
    fn detail(&self, message: &str, found: Option<&Value>) -> String {
        match self {
            Fault::Unknown { field, known } => format!("unknown field '{field}'; known here: {known}"),
            Fault::Missing { field } => format!("field '{field}' is missing; add it"),
            Fault::Other => match (message.rsplit_once(", expected "), found) {
                (Some((_, expected)), Some(found)) => format!("expected {expected}, found {}", kind(found)),
                (Some((_, expected)), None) => format!("expected {expected}"),
                (None, _) => message.to_owned(),
            },
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number; put a text in quotes",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Makes the place readable. `again`: the first repair of it was not enough.
fn repair(document: &mut Value, path: &Path, fault: &Fault, again: bool) -> bool {
    let Some((around, last)) = path.split_last() else { return false };
    match (around.get_mut(document), last) {
        (Some(Value::Object(object)), Step::Key(key)) if matches!(fault, Fault::Missing { .. }) => {
            object.insert(key.clone(), stand_in(key)).is_none()
        }
        (Some(Value::Object(object)), Step::Key(key)) => object.remove(key).is_some(),
        // Elements keep their place, or the paths of later problems would be wrong.
        (Some(Value::Array(list)), Step::Index(index)) => match list.get_mut(*index) {
            Some(element) if !again => replace(element, Value::Object(Map::new())),
            Some(element) => replace(element, Value::String(String::new())),
            None => false,
        },
        _ => false,
    }
}

fn replace(element: &mut Value, by: Value) -> bool {
    let differs = *element != by;
    *element = by;
    differs
}

/// A value that a required field takes.
fn stand_in(field: &str) -> Value {
    match field {
        "version" => json!(1),
        "tenants" | "event_types" | "cells" => json!([]),
        "tolerates_reordering" => json!(false),
        "pattern" => json!({}),
        _ => json!(""),
    }
}
