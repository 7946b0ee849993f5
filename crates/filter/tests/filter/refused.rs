//! Refusals: a stable code, the place, and what to change.

use mailrail_filter::FilterError;
use mailrail_filter::limits::{CLAUSES_MAX, PATH_STEPS_MAX, TEXT_MAX_CHARS, VALUES_MAX};

use crate::verdict::compile;

fn refusal(pattern: &str) -> FilterError {
    match compile(pattern) {
        Ok(_) => panic!("{pattern:.100} is accepted"),
        Err(e) => e,
    }
}

/// Patterns, and the code and place of each one's refusal.
const REFUSED: &[(&str, &str, &str)] = &[
    ("", "filter_not_json", "$"),
    (r#"{"a":[1,]}"#, "filter_not_json", "$"),
    (r#"{"a":[01]}"#, "filter_not_json", "$"),
    (r#"{"a":["\ud800"]}"#, "filter_not_json", "$"),
    ("[]", "filter_not_object", "$"),
    ("\"a\"", "filter_not_object", "$"),
    ("{}", "filter_empty", "$"),
    (r#"{"a":{}}"#, "filter_empty", "$.a"),
    (r#"{"a":{"b":[]}}"#, "filter_empty", "$.a.b"),
    (r#"{"$attributes":{}}"#, "filter_empty", "$.$attributes"),
    (r#"{"a":[1],"a":[2]}"#, "filter_duplicate_key", "$.a"),
    (r#"{"a":[1],"\u0061":[2]}"#, "filter_duplicate_key", "$.a"),
    (r#"{"a":[1],"$or":[{"a":[2]},{"b":[1]}]}"#, "filter_duplicate_path", "$.$or[0].a"),
    (r#"{"$or":[{"a":[2]},{"b":[1]}],"a":[1]}"#, "filter_duplicate_path", "$.a"),
    (r#"{"a":[1,[2]]}"#, "filter_invalid_value", "$.a[1]"),
    (r#"{"a":{"prefix":"x"}}"#, "filter_invalid_value", "$.a.prefix"),
    (r#"{"a":{"exists":true}}"#, "filter_invalid_value", "$.a.exists"),
    (r#"{"a":[{"anything-but":[["x"]]}]}"#, "filter_invalid_value", "$.a[0].anything-but[0]"),
    (r#"{"a.b":[{"prefx":"x"}]}"#, "filter_unknown_operator", "$['a.b'][0].prefx"),
    (
        r#"{"a":[{"anything-but":{"numeric":["<",1]}}]}"#,
        "filter_unknown_operator",
        "$.a[0].anything-but.numeric",
    ),
    (
        r#"{"a":[{"anything-but":{"anything-but":"x"}}]}"#,
        "filter_unknown_operator",
        "$.a[0].anything-but.anything-but",
    ),
    (r#"{"a":[{"prefix":{"suffix":"x"}}]}"#, "filter_unknown_operator", "$.a[0].prefix.suffix"),
    (r#"{"$and":[{"a":[1]},{"b":[2]}]}"#, "filter_unknown_operator", "$.$and"),
    (r#"{"a":[{}]}"#, "filter_invalid_operand", "$.a[0]"),
    (r#"{"a":[{"prefix":"x","suffix":"y"}]}"#, "filter_invalid_operand", "$.a[0]"),
    (r#"{"a":["y",{"prefix":1}]}"#, "filter_invalid_operand", "$.a[1].prefix"),
    (r#"{"a":[{"prefix":["x"]}]}"#, "filter_invalid_operand", "$.a[0].prefix"),
    (
        r#"{"a":[{"suffix":{"equals-ignore-case":1}}]}"#,
        "filter_invalid_operand",
        "$.a[0].suffix.equals-ignore-case",
    ),
    (r#"{"a":[{"equals-ignore-case":null}]}"#, "filter_invalid_operand", "$.a[0].equals-ignore-case"),
    (r#"{"a":[{"exactly":5}]}"#, "filter_invalid_operand", "$.a[0].exactly"),
    (r#"{"a":[{"exists":"true"}]}"#, "filter_invalid_operand", "$.a[0].exists"),
    (r#"{"a":[{"wildcard":"a**b"}]}"#, "filter_invalid_operand", "$.a[0].wildcard"),
    (r#"{"a":[{"wildcard":"a\\b"}]}"#, "filter_invalid_operand", "$.a[0].wildcard"),
    (r#"{"a":[{"wildcard":"a\\"}]}"#, "filter_invalid_operand", "$.a[0].wildcard"),
    (r#"{"a":[{"cidr":"10.0.0.1"}]}"#, "filter_invalid_operand", "$.a[0].cidr"),
    (r#"{"a":[{"cidr":"10.0.0.0/33"}]}"#, "filter_invalid_operand", "$.a[0].cidr"),
    (r#"{"a":[{"cidr":8}]}"#, "filter_invalid_operand", "$.a[0].cidr"),
    (r#"{"a":[{"anything-but":[]}]}"#, "filter_invalid_operand", "$.a[0].anything-but"),
    (r#"{"a":[{"anything-but":{"prefix":""}}]}"#, "filter_invalid_operand", "$.a[0].anything-but.prefix"),
    (r#"{"a":[{"none-of":{"suffix":["a",""]}}]}"#, "filter_invalid_operand", "$.a[0].none-of.suffix[1]"),
    (r#"{"a":[{"anything-but":{"prefix":[]}}]}"#, "filter_invalid_operand", "$.a[0].anything-but.prefix"),
    (r#"{"a":[1e1000000001]}"#, "filter_invalid_operand", "$.a[0]"),
    (r#"{"$or":{"a":[1]}}"#, "filter_invalid_or", "$.$or"),
    (r#"{"$or":[{"a":[1]}]}"#, "filter_invalid_or", "$.$or"),
    (r#"{"$or":[{"a":[1]},5]}"#, "filter_invalid_or", "$.$or[1]"),
    (r#"{"$or":[{"a":[1]},{}]}"#, "filter_empty", "$.$or[1]"),
    (r#"{"d":{"$or":[{"numeric":["<",5]},{"prefix":["x"]}]}}"#, "filter_invalid_or", "$.d.$or[0].numeric"),
    (r#"{"$attributes":["type"]}"#, "filter_invalid_attribute", "$.$attributes"),
    (r#"{"$attributes":{"type":{"prefix":["x"]}}}"#, "filter_invalid_attribute", "$.$attributes.type"),
    (r#"{"$attributes":{"Type":["x"]}}"#, "filter_invalid_attribute", "$.$attributes.Type"),
    (r#"{"$attributes":{"data":["x"]}}"#, "filter_invalid_attribute", "$.$attributes.data"),
];

#[test]
fn refusals_name_code_and_place() {
    for (pattern, code, path) in REFUSED {
        let e = refusal(pattern);
        assert_eq!((e.code, e.path.as_str()), (*code, *path), "{pattern}: {e}");
        assert!(FilterError::CODES.contains(&e.code));
        assert!(
            !e.message.ends_with('.') && e.message.starts_with(|c: char| !c.is_uppercase()),
            "{}",
            e.message
        );
    }
}

#[test]
fn numeric_has_one_form() {
    for list in [
        "[]",
        "[\">\"]",
        "[5]",
        "[5,\">\"]",
        "[\">\",\"5\"]",
        "[\"!=\",5]",
        "[\"==\",5]",
        "[\">\",0,\">\",1]",
        "[\"<\",0,\"<=\",1]",
        "[\"=\",0,\"<=\",1]",
        "[\"<\",9,\"=\",1]",
        "[\">\",5,\"<\",5]",
        "[\">=\",5,\"<\",5]",
        "[\">\",6,\"<\",5]",
        "[\">\",0,\"<\",5,\"<\",6]",
        "[\">\",0,\"<\"]",
        "[\">\",null]",
        "\">5\"",
        "5",
        "[\">\",1e-99999999999]",
    ] {
        let e = refusal(&format!(r#"{{"a":[{{"numeric":{list}}}]}}"#));
        assert_eq!(e.code, "filter_invalid_operand", "{list}");
        assert!(e.path.starts_with("$.a[0].numeric"), "{list}: {}", e.path);
    }
}

#[test]
fn syntax_errors_say_line_and_column() {
    let e = refusal("{\n  \"a\": [1,\n  tru]}");
    assert_eq!(e.to_string(), "the filter is not JSON: expected a value at line 3 column 3 (at $)");
}

/// A07, A08: a filter over any limit, 10,000 characters among them, is refused at registration, with a code and a place.
#[test]
fn a07_limits_refuse_at_the_first_over() {
    let wide = |n: usize| format!(r#"{{"a":["{}"]}}"#, "é".repeat(n - 10));
    assert!(compile(&wide(TEXT_MAX_CHARS)).is_ok());
    assert_eq!(refusal(&wide(TEXT_MAX_CHARS + 1)).code, "filter_too_long");

    let deep = |n: usize| format!("{}[1]{}", "{\"a\":".repeat(n), "}".repeat(n));
    assert!(compile(&deep(PATH_STEPS_MAX)).is_ok());
    let e = refusal(&deep(PATH_STEPS_MAX + 1));
    assert_eq!((e.code, e.path.len()), ("filter_too_deep", 1 + 2 * (PATH_STEPS_MAX + 1)));

    let clauses =
        |n: usize| format!("{{{}}}", (0..n).map(|i| format!("\"k{i}\":[1]")).collect::<Vec<_>>().join(","));
    assert!(compile(&clauses(CLAUSES_MAX)).is_ok());
    let e = refusal(&clauses(CLAUSES_MAX + 1));
    assert_eq!((e.code, e.path), ("filter_too_many_clauses", format!("$.k{CLAUSES_MAX}")));

    let values = |n: usize| format!(r#"{{"a":[{}]}}"#, vec!["1"; n].join(","));
    assert!(compile(&values(VALUES_MAX)).is_ok());
    let e = refusal(&values(VALUES_MAX + 1));
    assert_eq!((e.code, e.path), ("filter_too_many_values", format!("$.a[{VALUES_MAX}]")));

    let branches = |n: usize| {
        let or = |k: &str| {
            let branches: Vec<_> = (0..n).map(|i| format!("{{\"{k}{i}\":[1]}}")).collect();
            format!("\"$or\":[{}]", branches.join(","))
        };
        format!("{{{},\"x\":{{{}}}}}", or("a"), or("b"))
    };
    assert!(compile(&branches(31)).is_ok());
    let e = refusal(&branches(32));
    assert_eq!(e.code, "filter_too_many_alternatives");
    assert!(e.path.starts_with("$.x.$or["), "{}", e.path);
}

#[test]
fn the_strict_dialect_refuses_what_is_ours() {
    use mailrail_filter::Filter;
    for (text, place) in [
        (r#"{"a":1}"#, "$.a"),
        (r#"{"a":{"exists":[{"none-of":[1]}]}}"#, "$.a.exists[0].none-of"),
        (r#"{"a":[{"none-of":[1]}]}"#, "$.a[0].none-of"),
        (r#"{"a":[{"equals-ignore-ascii-case":"x"}]}"#, "$.a[0].equals-ignore-ascii-case"),
        (r#"{"a":[{"prefix":{"equals-ignore-ascii-case":"x"}}]}"#, "$.a[0].prefix"),
        (
            r#"{"a":[{"anything-but":{"equals-ignore-ascii-case":["x"]}}]}"#,
            "$.a[0].anything-but.equals-ignore-ascii-case[0]",
        ),
        (r#"{"$attributes":{"type":["x"]}}"#, "$.$attributes"),
    ] {
        let error = Filter::compile_eventbridge(text).expect_err(text);
        assert_eq!((error.code, error.path.as_str()), ("filter_not_eventbridge", place), "{text}");
        assert!(crate::verdict::compile(text).is_ok(), "{text} is fine otherwise");
    }
    for text in [
        r#"{"a":[1,null,{"prefix":{"equals-ignore-case":"x"}}],"b":{"$attributes":["x"]}}"#,
        r#"{"a":[{"anything-but":{"wildcard":"*x"}}],"$or":[{"b":[{"cidr":"10.0.0.0/8"}]},{"c":[{"numeric":[">",1]}]}]}"#,
    ] {
        assert!(Filter::compile_eventbridge(text).is_ok(), "{text}");
    }
}
