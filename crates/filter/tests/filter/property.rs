//! Generated patterns and events: the crate agrees with the naive evaluator.

use std::cell::Cell;

use mailrail_filter::{Document, Filter, What};
use mailrail_types::{Attributes, FilterLanguage, FilterSource};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::explained::agrees;
use crate::naive;
use crate::verdict::compile;

fn select(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

/// Numbers that `f64` holds exactly, in several spellings, so that the naive evaluator is right about them.
const SCALARS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0.0",
    "1",
    "1.0",
    "10e-1",
    "1.5",
    "15e-1",
    "2",
    "-2",
    "1e1",
    "10",
    "\"\"",
    "\"a\"",
    "\"A\"",
    "\"ab\"",
    "\"aB\"",
    "\"abab\"",
    "\"ba\"",
    "\"\\u0061\"",
    "\"1\"",
    "\"null\"",
];

fn scalar() -> impl Strategy<Value = String> {
    select(SCALARS)
}

const KEYS: &[&str] = &["a", "b", "c"];

fn event() -> impl Strategy<Value = String> {
    let value = scalar().prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            3 => object(inner),
        ]
    });
    object(value)
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::vec((prop::sample::select(KEYS), value), 0..5).prop_map(|members| {
        let members: Vec<_> = members.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
        format!("{{{}}}", members.join(", "))
    })
}

fn operator() -> impl Strategy<Value = String> {
    prop_oneof![
           4 => scalar(),
           2 => select(&[r#"{"exists":true}"#]),
           4 => select(&[
    r#"{"exists":false}"#, r#"{"prefix":"a"}"#, r#"{"suffix":"b"}"#, r#"{"prefix":""}"#,
               r#"{"equals-ignore-case":"AB"}"#, r#"{"wildcard":"a*"}"#, r#"{"wildcard":"*b*b"}"#, r#"{"wildcard":"a*ab"}"#,
               r#"{"numeric":[">",0]}"#, r#"{"numeric":[">=",1,"<",10]}"#, r#"{"numeric":["<=",1.5]}"#, r#"{"numeric":["=",1e0]}"#,
               r#"{"anything-but":{"prefix":"a"}}"#, r#"{"anything-but":{"suffix":["a","b"]}}"#,
               r#"{"anything-but":{"equals-ignore-case":["a","AB"]}}"#, r#"{"anything-but":{"wildcard":"*a"}}"#,
           ]),
           1 => scalar().prop_map(|value| format!(r#"{{"anything-but":{value}}}"#)),
           1 => prop::collection::vec(scalar(), 1..4).prop_map(|list| format!(r#"{{"anything-but":[{}]}}"#, list.join(","))),
       ]
}

fn pattern() -> impl Strategy<Value = String> {
    let list = prop_oneof![
        4 => prop::collection::vec(operator(), 1..3).prop_map(|values| format!("[{}]", values.join(","))),
        1 => scalar(),
    ];
    let fields = |value: BoxedStrategy<String>| {
        prop::collection::btree_map(prop::sample::select(KEYS), value, 1..3).prop_map(|fields| {
            let fields: Vec<_> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
            fields.join(",")
        })
    };
    let leaf = fields(list.clone().boxed()).prop_map(|fields| format!("{{{fields}}}")).boxed();
    leaf.prop_recursive(3, 20, 3, move |inner| {
        let fields = fields(prop_oneof![1 => list.clone(), 2 => inner.clone()].boxed()).boxed();
        let or = prop::collection::vec(inner, 2..4)
            .prop_map(|branches| format!("\"$or\":[{}]", branches.join(",")));
        prop_oneof![
            3 => fields.clone().prop_map(|fields| format!("{{{fields}}}")),
            1 => or.clone().prop_map(|or| format!("{{{or}}}")),
            1 => (fields, or).prop_map(|(fields, or)| format!("{{{fields},{or}}}")),
        ]
    })
}

/// A leaf that the list names, mostly, so that it matches.
fn leaf(list: &Value, picks: &mut dyn Iterator<Item = u8>) -> String {
    let (at, other) = (usize::from(picks.next().unwrap_or(0)), usize::from(picks.next().unwrap_or(0)));
    let named = list.as_array().map_or(Some(list), |list| list.get(at % list.len()));
    match named {
        Some(scalar) if !scalar.is_object() && other % 4 > 0 => scalar.to_string(),
        _ => SCALARS[other % SCALARS.len()].to_owned(),
    }
}

/// Members of an object in the shape of a pattern, so that matches and near misses are common. `picks` decides everything.
fn members(pattern: &Value, picks: &mut dyn Iterator<Item = u8>) -> Vec<String> {
    let mut grown = Vec::new();
    for (key, value) in pattern.as_object().expect("an object") {
        if let (true, Some(branches)) = (key == "$or", value.as_array()) {
            let branch = usize::from(picks.next().unwrap_or(0)) % branches.len();
            grown.extend(members(&branches[branch], picks));
            continue;
        }
        let shape = picks.next().unwrap_or(0) % 8;
        let mut values = || match value {
            Value::Object(_) => members(value, picks),
            _ => vec![leaf(value, picks)],
        };
        let whole = |values: Vec<String>| {
            if value.is_object() { format!("{{{}}}", values.join(",")) } else { values.concat() }
        };
        match shape {
            0 => {}
            1 | 2 => grown.push(format!("\"{key}\":[{},{}]", whole(values()), whole(values()))),
            3 | 4 => {
                // One member per element: each clause holds somewhere, but not together.
                let apart: Vec<_> = values().into_iter().map(|one| whole(vec![one])).collect();
                grown.push(format!("\"{key}\":[[{}]]", apart.join(",")));
            }
            _ => grown.push(format!("\"{key}\":{}", whole(values()))),
        }
    }
    grown
}

/// Not a `proptest!`, so that it can check that every kind of verdict was met often.
#[test]
fn agrees_with_the_naive_evaluator() {
    let [matched, unmatched, apart, refused] = [const { Cell::new(0_u32) }; 4];
    let count = |cell: &Cell<u32>| cell.set(cell.get() + 1);
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let picks = prop::collection::vec(any::<u8>(), 64);
    let result = runner.run(&(pattern(), event(), picks), |(pattern, unrelated, picks)| {
        let parsed = serde_json::from_str(&pattern).expect("patterns are JSON");
        let filter = match compile(&pattern) {
            Ok(filter) => filter,
            Err(e) => {
                prop_assert_eq!(e.code, "filter_duplicate_path", "{}: {}", pattern, e);
                prop_assert!(naive::has_duplicate_path(&parsed));
                count(&refused);
                return Ok(());
            }
        };
        let alike = format!("{{{}}}", members(&parsed, &mut picks.into_iter()).join(","));
        for event in [unrelated, alike] {
            let expected = naive::matches(&parsed, &serde_json::from_str(&event).expect("events are JSON"));
            let attributes = Attributes::default();
            let document = Document::new(&attributes, event.as_bytes());
            prop_assert_eq!(filter.matches(&document), Ok(expected), "{} on {}", pattern, event);
            let explanation = agrees(&filter, &document, &pattern);
            prop_assert_eq!(explanation.matched, expected);
            let alternatives = match &explanation.root.what {
                What::Any(alternatives) => alternatives.as_slice(),
                _ => std::slice::from_ref(&explanation.root),
            };
            let held_apart = alternatives.iter().any(|alternative| alternative.note.is_some());
            count(if expected {
                &matched
            } else if held_apart {
                &apart
            } else {
                &unmatched
            });
        }
        Ok(())
    });
    if let Err(e) = result {
        panic!("{e}");
    }
    let counts = (matched.get(), unmatched.get(), apart.get(), refused.get());
    assert!(
        counts.0 > 500 && counts.1 > 500 && counts.2 > 25 && counts.3 < 1500,
        "the generators are one-sided: {counts:?}"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_compiler_panic(text in "\\PC{0,60}|[\\[\\]{}\":,a$or0-9*\\\\ -]{0,60}") {
        if let Err(e) = Filter::compile(&FilterSource { language: FilterLanguage::Pattern, text }) {
            prop_assert!(e.path.starts_with('$') && mailrail_filter::FilterError::CODES.contains(&e.code));
        }
    }

    #[test]
    fn damaged_patterns_are_refused_with_a_place(text in pattern(), at: prop::sample::Index, c: char) {
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        chars[at] = c;
        if let Err(e) = compile(&chars.into_iter().collect::<String>()) {
            prop_assert!(e.path.starts_with('$') && !e.message.is_empty());
        }
    }

    #[test]
    fn no_body_makes_evaluation_panic(text in pattern(), body: Vec<u8>, json in event(), at: prop::sample::Index) {
        let Ok(filter) = compile(&text) else { return Ok(()) };
        let attributes = Attributes::default();
        let cut = &json.as_bytes()[..at.index(json.len())];
        for body in [body.as_slice(), cut] {
            let document = Document::new(&attributes, body);
            let verdict = filter.matches(&document);
            prop_assert_eq!(verdict, Ok(agrees(&filter, &document, &text).matched));
        }
    }
}
