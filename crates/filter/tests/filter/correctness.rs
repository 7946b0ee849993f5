//! The public correctness cases of event-ruler (`tests/fixtures`). The file has no verdicts; they stand here.

use std::path::Path;

use mailrail_filter::{Document, Filter};
use mailrail_types::Attributes;
use serde_json::Value;

use crate::naive;
use crate::verdict::{check_indexed, filter, judge};

/// Case by case in file order: y matches, n does not.
const VERDICTS: &str = "ynynyyy ynyynynyn yyn ynnyyn yn yn nn yyyy yyn yyyyyynyn yyyn";

fn data() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/event-ruler"))
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("the file is readable")
}

#[test]
fn event_ruler_correctness_cases() {
    let folder = data();
    let cases: Vec<Value> =
        serde_json::from_str(&read(folder, "correctness-cases.json")).expect("a list of cases");
    let verdicts: Vec<bool> = VERDICTS.chars().filter(|c| *c != ' ').map(|c| c == 'y').collect();
    assert_eq!((cases.len(), verdicts.len()), (51, 51));
    let mut wrong = Vec::new();
    for (case, expected) in cases.iter().zip(verdicts) {
        let (name, rule, event) = (&case["name"], &case["rule"], &case["event"]);
        if judge(&rule.to_string(), event.to_string().as_bytes()) != Ok(expected) {
            wrong.push(format!("{name}: expected {expected}"));
        }
        // The strict dialect takes all of them, and means the same.
        let (text, body) = (rule.to_string(), event.to_string());
        let strict = Filter::compile_eventbridge(&text).unwrap_or_else(|e| panic!("{name} is refused: {e}"));
        let attributes = Attributes::default();
        let verdict = strict.matches(&Document::new(&attributes, body.as_bytes()));
        assert_eq!(verdict, Ok(expected), "strict: {name}");
        check_indexed(&text, &strict, &attributes, body.as_bytes(), verdict);
        assert_eq!(naive::matches(rule, event), expected, "the naive evaluator on {name}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn event_ruler_array_examples() {
    let folder = data();
    for (rule, event, expected) in [
        (1, 1, true),
        (1, 2, false),
        (2, 1, true),
        (2, 2, false),
        (3, 3, false),
        (3, 4, true),
        (4, 3, true),
        (4, 4, true),
    ] {
        let rule_text = read(folder, &format!("arrayRule{rule}.json"));
        let event_text = read(folder, &format!("arrayEvent{event}.json"));
        assert_eq!(judge(&rule_text, event_text.as_bytes()), Ok(expected), "rule {rule}, event {event}");
    }
}

#[test]
fn event_ruler_big_event() {
    let folder = data();
    let (rule, event) = (read(folder, "bigEventRule.json"), read(folder, "bigEvent.json"));
    let expected = naive::matches(
        &serde_json::from_str(&rule).expect("valid"),
        &serde_json::from_str(&event).expect("valid"),
    );
    assert_eq!(judge(&rule, event.as_bytes()), Ok(expected));
}

#[test]
fn event_ruler_performance_rules_compile() {
    let folder = data();
    let scenarios: Vec<Value> = serde_json::from_str(&read(folder, "perf-scenarios.json")).expect("a list");
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        filter(&scenario["rule"].to_string());
    }
}
