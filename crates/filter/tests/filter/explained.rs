//! Explanations: what a person reads in a dry run.

use mailrail_filter::{Document, Filter, Limits, Seen};
use mailrail_types::{Attributes, FilterLanguage};
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

fn explained(language: FilterLanguage, text: &str, body: &str) -> serde_json::Value {
    let filter = Filter::parse(language, text, &Limits::default()).expect("a filter");
    let attributes = Attributes { event_type: "a.b".into(), ..Attributes::default() };
    let explanation = filter.explain(&Document::new(&attributes, body.as_bytes()));
    serde_json::to_value(&explanation).expect("serialisable")
}

#[test]
fn every_comparison_of_an_expression_is_explained() {
    let text = "data.project.key = 'FOO' AND data.priority LIKE 'Crit%' AND type IN ('x', 'a.b')";
    assert_eq!(
        explained(FilterLanguage::Cesql, text, r#"{"project":[{"key":"BAR"},{"key":["FOO",5]}]}"#),
        json!({
            "matched": false,
            "body": {"state": "json"},
            "alternatives": [{
                "matched": false,
                "clauses": [
                    {"path": "$.project.key", "clause": "data.project.key = 'FOO'", "seen": {"values": ["\"BAR\"", "\"FOO\"", "5"]}, "matched": true},
                    {"path": "$.priority", "clause": "data.priority LIKE 'Crit%'", "seen": "absent", "matched": false},
                    {"path": "$attributes.type", "clause": "type IN ('x', 'a.b')", "seen": {"values": ["\"a.b\""]}, "matched": true},
                ],
            }],
        })
    );
    let mixed =
        explained(FilterLanguage::Cesql, "NOT (type = 'a.b') OR INT(type) = 5 OR nothing = 'x'", "{}");
    let alternative = &mixed["alternatives"][0];
    assert!(alternative["note"].as_str().is_some_and(|note| note.contains("combines them as it is written")));
    let clauses: Vec<_> = alternative["clauses"].as_array().expect("a list").iter().collect();
    let shown = |i: usize| {
        (clauses[i]["clause"].as_str(), clauses[i]["matched"].as_bool(), clauses[i]["problem"].as_str())
    };
    assert_eq!(clauses.len(), 3);
    assert_eq!(shown(0), (Some("type = 'a.b'"), Some(true), None));
    assert_eq!(shown(1), (Some("INT(type) = 5"), Some(false), Some("cast")));
    assert_eq!(shown(2), (Some("nothing = 'x'"), Some(false), Some("missing_attribute")));
}

#[test]
fn every_filter_of_a_list_is_explained() {
    let text = r#"[{"exact":{"type":"a.b","subject":"s"}},{"any":[{"not":{"prefix":{"type":"a"}}},{"sql":"data.n > 5"}]}]"#;
    let explanation = explained(FilterLanguage::CloudEvents, text, r#"{"n":7}"#);
    let clause = |i: usize| {
        let clause = &explanation["alternatives"][0]["clauses"][i];
        (clause["path"].clone(), clause["clause"].clone(), clause["seen"].clone(), clause["matched"].clone())
    };
    assert_eq!(explanation["matched"], json!(false));
    let seen = json!({"values": ["\"a.b\""]});
    assert_eq!(clause(0), (json!("$attributes.type"), json!("exact \"a.b\""), seen.clone(), json!(true)));
    assert_eq!(
        clause(1),
        (json!("$attributes.subject"), json!("exact \"s\""), json!("absent"), json!(false))
    );
    assert_eq!(clause(2), (json!("$attributes.type"), json!("prefix \"a\""), seen, json!(true)));
    assert_eq!(clause(3), (json!("$.n"), json!("data.n > 5"), json!({"values": ["7"]}), json!(true)));
    assert_eq!(explained(FilterLanguage::CloudEvents, "[]", "{}")["matched"], json!(true));
}

#[test]
fn an_expression_that_takes_too_long_is_explained() {
    let list = vec!["7"; 3_000].join(",");
    let text = "data.l - data.l = 1 AND type = 'a.b'";
    let explanation = explained(FilterLanguage::Cesql, text, &format!("{{\"l\":[{list}]}}"));
    assert_eq!((&explanation["matched"], &explanation["error"]), (&json!(false), &json!("too_many_steps")));
    assert_eq!(explanation["alternatives"][0]["clauses"][0]["problem"], json!("too_many_steps"));
}
