//! Explanations: what a person reads in a dry run.

use mailrail_filter::{Document, Seen};
use mailrail_types::Attributes;
use serde_json::json;

use crate::verdict::filter;

#[test]
fn an_explanation_shows_every_clause_and_what_was_seen() {
    let filter = filter(
        r#"{"project":{"key":["FOO"]},"priority":[{"prefix":"Crit"}],"$attributes":{"type":["a.b"]},"x":[{"exists":false}]}"#,
    );
    let attributes = Attributes { event_type: "a.\"b".into(), ..Attributes::default() };
    let body = br#"{"project":[{"key":"BAR"},{"key":["FOO",5]}],"x":{}}"#;
    let explanation = filter.explain(&Document::new(&attributes, body));
    assert_eq!(
        serde_json::to_value(&explanation).expect("serialisable"),
        json!({
            "matched": false,
            "body": {"state": "json"},
            "alternatives": [{
                "matched": false,
                "clauses": [
                    {"path": "$.project.key", "clause": "[\"FOO\"]", "seen": {"values": ["\"BAR\"", "\"FOO\"", "5"]}, "matched": true},
                    {"path": "$.priority", "clause": "[{\"prefix\":\"Crit\"}]", "seen": "absent", "matched": false},
                    {"path": "$attributes.type", "clause": "[\"a.b\"]", "seen": {"values": ["\"a.\\\"b\""]}, "matched": false},
                    {"path": "$.x", "clause": "[{\"exists\":false}]", "seen": "absent", "matched": true},
                ],
            }],
        })
    );
}

#[test]
fn clauses_that_hold_apart_but_not_together_are_explained() {
    let filter = filter(r#"{"d":{"a":[1],"b":[2]}}"#);
    let attributes = Attributes::default();
    let explanation = filter.explain(&Document::new(&attributes, br#"{"d":[{"a":1},{"b":2}]}"#));
    let alternative = &explanation.alternatives[0];
    assert!(!alternative.matched && alternative.clauses.iter().all(|clause| clause.matched));
    assert!(alternative.note.is_some_and(|note| note.contains("one element of the same list")));
}

#[test]
fn unreadable_bodies_and_alternatives_are_explained() {
    let filter = filter(r#"{"$or":[{"a":[1]},{"b":[2]}]}"#);
    let attributes = Attributes::default();
    let explanation = filter.explain(&Document::new(&attributes, b"{\"b\":2"));
    assert_eq!(
        serde_json::to_value(&explanation.body).expect("serialisable"),
        json!({"state": "unreadable", "offset": 6, "problem": "the document ends early"})
    );
    let explanation = filter.explain(&Document::new(&attributes, b"{\"b\":2}"));
    let matched: Vec<_> = explanation.alternatives.iter().map(|alternative| alternative.matched).collect();
    assert_eq!((explanation.matched, matched), (true, vec![false, true]));
}

#[test]
fn long_values_and_lists_are_cut() {
    let attributes = Attributes::default();
    let body = format!(r#"{{"a":["{}",{}]}}"#, "é".repeat(500), vec!["1"; 50].join(","));
    let explanation = filter(r#"{"a":["x"]}"#).explain(&Document::new(&attributes, body.as_bytes()));
    let Seen::Values(values) = &explanation.alternatives[0].clauses[0].seen else { panic!("seen") };
    assert_eq!(values.len(), mailrail_filter::limits::EXPLAINED_VALUES_MAX);
    assert_eq!(values[0].chars().count(), mailrail_filter::limits::EXPLAINED_VALUE_CHARS_MAX + 1);
    let branches: Vec<_> = (0..100).map(|i| format!(r#"{{"k{i}":[1]}}"#)).collect();
    let many = filter(&format!(r#"{{"$or":[{}]}}"#, branches.join(",")));
    let explanation = many.explain(&Document::new(&attributes, br#"{"k99":1}"#));
    assert_eq!(
        (explanation.matched, explanation.alternatives.len(), explanation.alternatives_left_out),
        (true, 32, 68)
    );
}
