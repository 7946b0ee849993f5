//! The conformance tests of the specification, all of them.

use std::path::Path;

use mailrail_types::{Attribute, AttributeValue, Attributes};
use serde_yaml_ng::{Mapping, Value as Yaml};

use super::value::Problem;
use super::{Evaluator, Expression, Value};
use crate::document::Document;
use crate::evaluate::Budget;
use crate::limits::{Limits, STEPS_MAX};

/// Files and tests that there are.
const FILES: usize = 18;
const TESTS: usize = 275;

fn set(attributes: &mut Attributes, name: &str, value: &Yaml) {
    let text = || value.as_str().expect("a text").to_owned();
    match name {
        "specversion" => {}
        "id" => attributes.id = text(),
        "source" => attributes.source = text(),
        "type" => attributes.event_type = text(),
        "subject" => attributes.subject = Some(text()),
        "time" => attributes.time = Some(text()),
        "datacontenttype" => attributes.content_type = Some(text()),
        "dataschema" => attributes.data_schema = Some(text()),
        _ => {
            let value = match value {
                Yaml::Bool(truth) => AttributeValue::Boolean(*truth),
                Yaml::Number(number) => {
                    AttributeValue::Integer(number.as_i64().and_then(|n| n.try_into().ok()).expect("32 bits"))
                }
                _ => AttributeValue::String(text()),
            };
            attributes.extensions.push(Attribute { name: name.to_owned(), value });
        }
    }
}

fn event(test: &Yaml) -> Attributes {
    let mut attributes = Attributes {
        id: "myId".to_owned(),
        source: "localhost.localdomain".to_owned(),
        event_type: "myType".to_owned(),
        ..Attributes::default()
    };
    let none = Mapping::new();
    for part in ["event", "eventOverrides"] {
        for (name, value) in test[part].as_mapping().unwrap_or(&none) {
            set(&mut attributes, name.as_str().expect("a name"), value);
        }
    }
    attributes
}

fn expected(test: &Yaml) -> (Option<Value<'static>>, Option<&str>) {
    let value = match &test["result"] {
        Yaml::Null => None,
        Yaml::Bool(truth) => Some(Value::Boolean(*truth)),
        Yaml::Number(number) => {
            Some(Value::Integer(number.as_i64().and_then(|n| n.try_into().ok()).expect("32 bits")))
        }
        text => Some(Value::Text(text.as_str().expect("a text").to_owned().into())),
    };
    (value, test["error"].as_str())
}

fn name_of(problem: Problem) -> &'static str {
    match problem {
        Problem::MissingAttribute => "missingAttribute",
        Problem::Cast => "cast",
        Problem::Math => "math",
        Problem::MissingFunction => "missingFunction",
        Problem::FunctionEvaluation => "functionEvaluation",
    }
}

fn run(test: &Yaml) -> Result<(), String> {
    let (value, error) = expected(test);
    // Some are written without quotes, as YAML truths and numbers.
    let text = match &test["expression"] {
        Yaml::Bool(truth) => truth.to_string(),
        Yaml::Number(number) => number.to_string(),
        text => text.as_str().expect("an expression").to_owned(),
    };
    let expression = match Expression::parse(&text, &Limits::default()) {
        Ok(expression) if error != Some("parse") => expression,
        Ok(_) => return Err("it must not parse".to_owned()),
        Err(_) if error == Some("parse") => return Ok(()),
        Err(e) => return Err(e.to_string()),
    };
    let attributes = event(test);
    let document = Document::new(&attributes, b"");
    let mut budget = Budget::new(STEPS_MAX);
    let mut evaluator = Evaluator::new(&document, &mut budget);
    let values = evaluator.values(&expression.root).expect("within the budget");
    let problem = evaluator.problem.map(name_of);
    // Nothing around it asked for a type: the specification then assumes a truth.
    let found = values.as_slice().first().cloned().unwrap_or(Value::Boolean(false));
    let found = match found {
        Value::Attribute(text) => Value::Text(text),
        other => other,
    };
    if problem != error {
        return Err(format!("error {problem:?} instead of {error:?}"));
    }
    if value.as_ref().is_some_and(|value| *value != found) {
        return Err(format!("{found:?} instead of {value:?}"));
    }
    Ok(())
}

#[test]
fn every_conformance_test_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cesql-tck");
    let (mut files, mut tests, mut failed) = (0, 0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let suite: Yaml =
            serde_yaml_ng::from_str(&std::fs::read_to_string(&path).expect("readable")).expect("YAML");
        files += 1;
        for test in suite["tests"].as_sequence().expect("a list") {
            tests += 1;
            if let Err(reason) = run(test) {
                failed.push(format!("{path:?}: {}: {reason}", test["name"].as_str().unwrap_or_default()));
            }
        }
    }
    assert_eq!((files, tests, failed), (FILES, TESTS, Vec::<String>::new()));
}
