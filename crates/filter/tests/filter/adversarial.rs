//! Hostile bodies and patterns: bounded, and never a panic or an overflow of the stack.

use mailrail_filter::limits::{BODY_DEPTH_MAX, CONJUNCTIONS_MAX, STEPS_MAX};
use mailrail_filter::{BodyState, Document, EvalError};
use mailrail_types::Attributes;

use crate::verdict::{compile, filter, judge};

const MB: usize = 1024 * 1024;

#[test]
fn deep_nesting_is_not_read() {
    let any = r#"{"a":[{"exists":true},{"exists":false}]}"#;
    for (open, leaf, close) in
        [("[", "1", "]"), ("{\"a\":", "1", "}"), ("[{\"a\":", "1", "}]"), ("[", "", ""), ("{\"a\":", "", "")]
    {
        let body = format!("{}{leaf}{}", open.repeat(100_000), close.repeat(100_000));
        let attributes = Attributes::default();
        let document = Document::new(&attributes, body.as_bytes());
        assert!(matches!(document.body_state(), BodyState::Unreadable { .. }));
        assert_eq!(filter(any).matches(&document), Ok(false));
        assert!(!filter(any).explain(&document).matched);
    }
    let nested = |depth| format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(judge(r#"{"a":[1]}"#, nested(BODY_DEPTH_MAX - 1).as_bytes()), Ok(true));
    assert_eq!(judge(r#"{"a":[1]}"#, nested(BODY_DEPTH_MAX).as_bytes()), Ok(false));
}

#[test]
fn long_strings_are_read_in_linear_time() {
    let body = format!(r#"{{"a":"{}","b":"{}é"}}"#, "a".repeat(5 * MB), "\\u0061".repeat(MB));
    // Patterns on which backtracking matchers take quadratic time or worse.
    let stars = format!("{}b", "*a".repeat(400));
    for (operator, expected) in [
        (format!(r#"{{"wildcard":"{stars}"}}"#), false),
        (r#"{"wildcard":"*a*a*a*a*a*a"}"#.to_owned(), true),
        (format!(r#"{{"wildcard":"*{}b*"}}"#, "a".repeat(5000)), false),
        (format!(r#"{{"prefix":"{}"}}"#, "a".repeat(5000)), true),
        (format!(r#"{{"suffix":{{"equals-ignore-case":"{}"}}}}"#, "A".repeat(5000)), true),
        (r#"{"equals-ignore-case":"AAAA"}"#.to_owned(), false),
        (r#"{"numeric":[">",0]}"#.to_owned(), false),
        (r#"{"cidr":"10.0.0.0/8"}"#.to_owned(), false),
        (r#"{"anything-but":{"wildcard":"*b*"}}"#.to_owned(), true),
        ("\"aaa\"".to_owned(), false),
    ] {
        let pattern = format!(r#"{{"a":[{operator}]}}"#);
        assert_eq!(judge(&pattern, body.as_bytes()), Ok(expected), "{pattern:.60}");
    }
    assert_eq!(judge(r#"{"b":[{"suffix":"aé"}]}"#, body.as_bytes()), Ok(true));
    // Many operators on a long text are too much: the budget says so.
    let many = vec![r#"{"wildcard":"*x*"}"#; 50].join(",");
    assert_eq!(judge(&format!(r#"{{"a":[{many}]}}"#), body.as_bytes()), Err(EvalError::TooManySteps));
}

#[test]
fn long_numbers_are_compared_exactly() {
    let digits = "9".repeat(5 * MB);
    for (number, pattern, expected) in [
        (digits.clone(), r#"{"a":[{"numeric":[">",1e1000000]}]}"#, true),
        (format!("0.{}1", "0".repeat(5 * MB)), r#"{"a":[{"numeric":[">",0,"<",1e-1000000]}]}"#, true),
        (format!("1.{}", "0".repeat(5 * MB)), r#"{"a":[1]}"#, true),
        (format!("1{}e-{}", "0".repeat(MB), MB), r#"{"a":[1]}"#, true),
        (format!("1e{digits}"), r#"{"a":[{"numeric":[">",1e999999999]}]}"#, true),
        (format!("1e-{digits}"), r#"{"a":[0]}"#, false),
    ] {
        let body = format!(r#"{{"a":{number}}}"#);
        assert_eq!(judge(pattern, body.as_bytes()), Ok(expected), "{pattern}");
    }
}

#[test]
fn objects_with_many_keys_are_looked_up_in_an_index() {
    let prefix = "k".repeat(40);
    let members: Vec<_> = (0..100_000).map(|i| format!("\"{prefix}{i}\":{i}")).collect();
    let body = format!(r#"{{{},"{prefix}7":"last"}}"#, members.join(","));
    for (key, value, expected) in
        [(0, "0", true), (99_999, "99999", true), (7, "7", false), (7, "\"last\"", true)]
    {
        let pattern = format!(r#"{{"{prefix}{key}":[{value}]}}"#);
        assert_eq!(judge(&pattern, body.as_bytes()), Ok(expected), "{pattern}");
    }
    // 64 clauses and 1,000 values on it stay within the budget.
    let clauses: Vec<_> = (100..164).map(|i| format!("\"{prefix}{i}\":[{i},-1,-2,-3]")).collect();
    assert_eq!(judge(&format!("{{{}}}", clauses.join(",")), body.as_bytes()), Ok(true));
    let same = vec!["\"a\":1"; 100_000].join(",");
    assert_eq!(judge(r#"{"a":[1]}"#, format!("{{{same}}}").as_bytes()), Ok(true));
}

/// A07: an evaluation that would take more than its steps ends there, with an error of its own that touches no other filter.
#[test]
fn a07_long_arrays_end_by_the_budget() {
    let numbers: Vec<_> = (0..100_000).map(|i| i.to_string()).collect();
    let body = format!(r#"{{"a":[{}]}}"#, numbers.join(","));
    assert_eq!(judge(r#"{"a":[10000]}"#, body.as_bytes()), Ok(true));
    assert_eq!(judge(r#"{"a":["x"]}"#, body.as_bytes()), Err(EvalError::TooManySteps));
    assert_eq!(judge(r#"{"a":{"b":[{"exists":false}]}}"#, body.as_bytes()), Err(EvalError::TooManySteps));
    assert_eq!(judge(r#"{"a":[{"none-of":["x"]}]}"#, body.as_bytes()), Err(EvalError::TooManySteps));
    let attributes = Attributes::default();
    let document = Document::new(&attributes, body.as_bytes());
    let explanation = filter(r#"{"a":["x"]}"#).explain(&document);
    assert_eq!((explanation.matched, explanation.error), (false, Some("too_many_steps")));
    // The document itself is fine: another filter is not affected.
    assert_eq!(filter(r#"{"a":[0]}"#).matches(&document), Ok(true));
}

/// A07: the shapes on which event-ruler was quadratic, at its largest sizes: one pass each.
#[test]
fn a07_array_shapes_cost_one_pass() {
    let elements = |n: usize, each: &dyn Fn(usize) -> String| (0..n).map(each).collect::<Vec<_>>().join(",");
    let both = r#"{"d":{"a":[{"exists":true}],"b":[{"exists":true}]}}"#;
    let partial = elements(8_000, &|i| if i % 2 == 0 { r#"{"a":1}"#.into() } else { r#"{"b":1}"#.into() });
    assert_eq!(judge(both, format!(r#"{{"d":[{partial}]}}"#).as_bytes()), Ok(false));
    assert_eq!(judge(both, format!(r#"{{"d":[{partial},{{"a":1,"b":1}}]}}"#).as_bytes()), Ok(true));
    let tags = elements(12_000, &|i| format!("\"t{i}\""));
    let two = r#"{"d":{"tags":[{"prefix":"x"},{"suffix":"9999"}],"type":[{"exists":true}]}}"#;
    assert_eq!(judge(two, format!(r#"{{"d":{{"tags":[{tags}],"type":"G"}}}}"#).as_bytes()), Ok(true));
    let inner = elements(10, &|_| r#"{"x":1}"#.into());
    let outer = elements(500, &|_| format!(r#"{{"b":[{inner}]}}"#));
    let deep = r#"{"a":{"b":{"x":[1],"y":[1]}}}"#;
    assert_eq!(judge(deep, format!(r#"{{"a":[{outer}]}}"#).as_bytes()), Ok(false));
}

#[test]
fn hostile_patterns_are_refused_or_bounded() {
    for text in ["[".repeat(9_999), "{\"a\":".repeat(1_999), "{\"$or\":[".repeat(1_000)] {
        assert!(compile(&text).is_err());
    }
    let pair = |i| format!(r#""k{i}":{{"$or":[{{"a":[1]}},{{"b":[1]}}]}}"#);
    let side_by_side = |n: usize| format!("{{{}}}", (0..n).map(pair).collect::<Vec<_>>().join(","));
    assert_eq!(
        compile(&side_by_side(10)).expect_err("1,024 alternatives").code,
        "filter_too_many_alternatives"
    );
    // The largest that is accepted is evaluated within the budget on an event that matches its last alternative only.
    assert!(2usize.pow(9) <= CONJUNCTIONS_MAX && STEPS_MAX >= 50_000);
    let body: Vec<_> = (0..9).map(|i| format!(r#""k{i}":{{"b":1}}"#)).collect();
    assert_eq!(judge(&side_by_side(9), format!("{{{}}}", body.join(",")).as_bytes()), Ok(true));
    let mut nested = r#"{"a":[1]}"#.to_owned();
    for i in 0..40 {
        nested = format!(r#"{{"$or":[{{"k{i}":[1]}},{nested}]}}"#);
    }
    assert_eq!(judge(&nested, br#"{"a":1}"#), Ok(true));
}
