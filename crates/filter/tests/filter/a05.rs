//! Acceptance A05: the literal example, on payloads with missing fields, null, wrong types, case and arrays.

use mailrail_filter::{Document, Filter, Limits};
use mailrail_types::{Attributes, FilterLanguage};

use crate::explained::{agrees, clauses};
use crate::verdict::{check, check_indexed};

const EXAMPLE: &str = r#"{"project": {"key": ["FOO"]}, "priority": ["Critical"]}"#;

/// A05: the literal example, on a table of payloads with missing fields, null, wrong types, case and arrays.
#[test]
fn a05_the_literal_example_matches_exactly_the_right_events() {
    let payloads: &[(&str, bool)] = &[
        (r#"{"project":{"key":"FOO"},"priority":"Critical"}"#, true),
        (r#"{"priority":"Critical","project":{"key":"FOO"}}"#, true),
        (r#" { "project" : { "key" : "FOO" , "id" : 1 } , "priority" : "Critical" , "x" : [ ] } "#, true),
        (r#"{"project":{"name":"Foo","key":"FOO","lead":{"key":"BAR"}},"priority":"Critical"}"#, true),
        (r#"{"\u0070roject":{"ke\u0079":"\u0046OO"},"priority":"Critic\u0061l"}"#, true),
        (r#"{"project":{"key":"BAR"},"priority":"Critical"}"#, false),
        (r#"{"project":{"key":"FOO"},"priority":"Minor"}"#, false),
        (r#"{"project":{"key":"BAR"},"priority":"Minor"}"#, false),
        // Missing.
        (r#"{"project":{"key":"FOO"}}"#, false),
        (r#"{"priority":"Critical"}"#, false),
        (r#"{"project":{},"priority":"Critical"}"#, false),
        ("{}", false),
        ("[]", false),
        ("null", false),
        ("", false),
        // Null and wrong types.
        (r#"{"project":{"key":null},"priority":"Critical"}"#, false),
        (r#"{"project":null,"priority":"Critical"}"#, false),
        (r#"{"project":{"key":"FOO"},"priority":null}"#, false),
        (r#"{"project":"FOO","priority":"Critical"}"#, false),
        (r#"{"project":{"key":{"key":"FOO"}},"priority":"Critical"}"#, false),
        (r#"{"project":{"key":1},"priority":true}"#, false),
        (r#"{"project":{"key":"FOO"},"priority":{"name":"Critical"}}"#, false),
        // Case, whitespace, look-alikes.
        (r#"{"project":{"key":"foo"},"priority":"Critical"}"#, false),
        (r#"{"project":{"key":"FOO"},"priority":"critical"}"#, false),
        (r#"{"Project":{"key":"FOO"},"priority":"Critical"}"#, false),
        (r#"{"project":{"KEY":"FOO"},"priority":"Critical"}"#, false),
        (r#"{"project":{"key":" FOO"},"priority":"Critical"}"#, false),
        (r#"{"project":{"key":"FOOD"},"priority":"Critical"}"#, false),
        (r#"{"project":{"key":""},"priority":"Critical"}"#, false),
        (r#"{"project.key":"FOO","priority":"Critical"}"#, false),
        (r#"{"key":"FOO","priority":"Critical"}"#, false),
        (r#"{"issue":{"project":{"key":"FOO"},"priority":"Critical"}}"#, false),
        // Arrays: some element.
        (r#"{"project":{"key":["BAR","FOO"]},"priority":["Minor","Critical"]}"#, true),
        (r#"{"project":{"key":["BAR"]},"priority":"Critical"}"#, false),
        (r#"{"project":{"key":[]},"priority":"Critical"}"#, false),
        (r#"{"project":[{"key":"BAR"},{"key":"FOO"}],"priority":"Critical"}"#, true),
        (r#"[{"project":{"key":"FOO"},"priority":"Critical"}]"#, true),
        (r#"[{"project":{"key":"FOO"}},{"priority":"Critical"}]"#, false),
        // Duplicate keys: the last wins.
        (r#"{"project":{"key":"FOO"},"priority":"Minor","priority":"Critical"}"#, true),
        (r#"{"project":{"key":"FOO"},"priority":"Critical","priority":"Minor"}"#, false),
        // Not JSON.
        (r#"{"project":{"key":"FOO"},"priority":"Critical"} trailing"#, false),
        (r#"{"project":{"key":"FOO"},"priority":"Critical""#, false),
        ("project.key = FOO and priority = Critical", false),
    ];
    assert!(payloads.len() >= 30);
    let table: Vec<_> = payloads.iter().map(|(body, expected)| (EXAMPLE, *body, *expected)).collect();
    check(&table);
    let sugar = r#"{"project": {"key": "FOO"}, "priority": "Critical"}"#;
    let table: Vec<_> = payloads.iter().map(|(body, expected)| (sugar, *body, *expected)).collect();
    check(&table);
    in_other_languages(payloads);
}

/// The same example as an expression, and as a list of CloudEvents filters.
fn in_other_languages(payloads: &[(&str, bool)]) {
    const EXPRESSION: &str = "data.project.key = 'FOO' AND data.priority = 'Critical'";
    let listed = format!("[{{\"sql\": \"{EXPRESSION}\"}}]");
    for (language, text) in
        [(FilterLanguage::Cesql, EXPRESSION), (FilterLanguage::CloudEvents, listed.as_str())]
    {
        let filter = Filter::parse(language, text, &Limits::default()).expect("a filter");
        for (body, expected) in payloads {
            // Comparisons of an expression may be satisfied by two elements of a list.
            let apart = *body == r#"[{"project":{"key":"FOO"}},{"priority":"Critical"}]"#;
            let expected = Ok(*expected || apart);
            let attributes = Attributes::default();
            let document = Document::new(&attributes, body.as_bytes());
            assert_eq!(filter.matches(&document), expected, "{text} on {body}");
            check_indexed(text, &filter, &attributes, body.as_bytes(), expected);
            let explanation = agrees(&filter, &document, body);
            assert_eq!((Ok(explanation.matched), clauses(&explanation).len()), (expected, 2));
        }
    }
}
