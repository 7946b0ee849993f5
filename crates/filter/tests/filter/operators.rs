//! Operators that are ours: several values of one list, times, wildcards in any case.

use mailrail_filter::Filter;

use crate::verdict::{check, compile};

#[test]
fn all_of_wants_several_values_in_one_list() {
    let both = r#"{"tags":[{"all-of":["a",{"prefix":"b"}]}]}"#;
    check(&[
        (both, r#"{"tags":["a","bc"]}"#, true),
        (both, r#"{"tags":["bc",["x",["a"]]]}"#, true),
        (both, r#"{"tags":["a","c"]}"#, false),
        (both, r#"{"tags":["bc"]}"#, false),
        (both, r#"{"tags":"a"}"#, false),
        (both, r#"{"tags":[]}"#, false),
        (both, "{}", false),
        (both, r#"{"tags":{"a":"a","b":"b"}}"#, false),
        // One value may be both.
        (r#"{"tags":[{"all-of":[{"prefix":"a"},{"suffix":"z"}]}]}"#, r#"{"tags":"a-z"}"#, true),
        // Beside it stand other values: one is enough.
        (r#"{"tags":[{"all-of":["a","b"]},"c"]}"#, r#"{"tags":["c"]}"#, true),
        (r#"{"tags":[{"all-of":["a","b"]},{"all-of":["c","d"]}]}"#, r#"{"tags":["d","a","c"]}"#, true),
        (r#"{"tags":[{"all-of":["a","b"]},{"all-of":["c","d"]}]}"#, r#"{"tags":["d","a"]}"#, false),
        (r#"{"n":[{"all-of":[1,{"numeric":[">",5]},null,true]}]}"#, r#"{"n":[1.0,9,null,true,false]}"#, true),
        (r#"{"n":[{"all-of":[1,{"numeric":[">",5]},null,true]}]}"#, r#"{"n":[1.0,9,null,false]}"#, false),
        // Of the element that the other fields match.
        (
            r#"{"d":{"k":["x"],"t":[{"all-of":["a","b"]}]}}"#,
            r#"{"d":[{"k":"x","t":["a"]},{"k":"y","t":["b"]}]}"#,
            false,
        ),
        (
            r#"{"d":{"k":["x"],"t":[{"all-of":["a","b"]}]}}"#,
            r#"{"d":[{"k":"y","t":["a"]},{"k":"x","t":["b","a"]}]}"#,
            true,
        ),
        (r#"{"a":[{"all-of":["x","y"]},{"exists":false}]}"#, "{}", true),
        (r#"{"a":[{"all-of":["x","y"]},{"exists":false}]}"#, r#"{"a":["y","x"]}"#, true),
        (r#"{"a":[{"all-of":["x","y"]},{"exists":false}]}"#, r#"{"a":["y"]}"#, false),
    ]);
}

#[test]
fn times_are_compared_as_moments() {
    let year = r#"{"at":[{"date":[">=","2026-01-01T00:00:00Z","<","2027-01-01T00:00:00Z"]}]}"#;
    let exactly = r#"{"at":[{"date":["=","2026-01-01T00:00:00Z"]}]}"#;
    let later = r#"{"at":[{"date":[">","2026-01-01T00:00:00Z"]}]}"#;
    let until = r#"{"at":[{"date":["<=","2026-01-01T00:00:00Z"]}]}"#;
    check(&[
        (year, r#"{"at":"2026-01-01T00:00:00Z"}"#, true),
        (year, r#"{"at":"2026-06-30T12:00:00.123456+02:00"}"#, true),
        (year, r#"{"at":"2026-12-31T23:59:59.999999999Z"}"#, true),
        (year, r#"{"at":"2027-01-01T00:00:00Z"}"#, false),
        (year, r#"{"at":"2027-01-01T00:30:00+01:00"}"#, true),
        (year, r#"{"at":"2025-12-31T23:30:00-01:00"}"#, true),
        (year, r#"{"at":"2026-01-01T00:30:00+01:00"}"#, false),
        (year, r#"{"at":["2020-01-01T00:00:00Z","2026-01-02T00:00:00Z"]}"#, true),
        (year, r#"{"at":"2026-06-30"}"#, false),
        (year, r#"{"at":"2026-06-30T12:00:00"}"#, false),
        (year, r#"{"at":1782820800}"#, false),
        (year, "{}", false),
        (exactly, r#"{"at":"2025-12-31T19:00:00-05:00"}"#, true),
        (exactly, r#"{"at":"2026-01-01T00:00:00.000000001Z"}"#, false),
        (later, r#"{"at":"2026-01-01T00:00:00Z"}"#, false),
        (later, r#"{"at":"2026-01-01T00:00:00.000000001Z"}"#, true),
        (until, r#"{"at":"2026-01-01T00:00:00Z"}"#, true),
        (until, r#"{"at":"2026-01-01T00:00:00.000000001Z"}"#, false),
        (until, r#"{"at":"0001-01-01T00:00:00Z"}"#, true),
    ]);
}

#[test]
fn wildcards_in_any_case() {
    let any = r#"{"a":[{"wildcard":{"equals-ignore-case":"*/LIB/É*"}}]}"#;
    let ascii = r#"{"a":[{"wildcard":{"equals-ignore-ascii-case":"*/LIB/É*"}}]}"#;
    check(&[
        (any, r#"{"a":"/usr/lib/ÉTÉ"}"#, true),
        (any, r#"{"a":"/usr/Lib/été"}"#, true),
        (any, r#"{"a":"/usr/lib/x"}"#, false),
        (ascii, r#"{"a":"/usr/lib/ÉTÉ"}"#, true),
        (ascii, r#"{"a":"/usr/lib/été"}"#, false),
        (r#"{"a":[{"wildcard":{"equals-ignore-case":"ab*"}}]}"#, r#"{"a":"ABc"}"#, true),
        (r#"{"a":[{"wildcard":{"equals-ignore-case":"*ab"}}]}"#, r#"{"a":"cAB"}"#, true),
        (r#"{"a":[{"wildcard":{"equals-ignore-case":"*"}}]}"#, r#"{"a":""}"#, true),
        (r#"{"a":[{"wildcard":{"equals-ignore-case":"a\\*b"}}]}"#, r#"{"a":"A*B"}"#, true),
        (r#"{"a":[{"wildcard":{"equals-ignore-case":"a\\*b"}}]}"#, r#"{"a":"AxB"}"#, false),
        (
            r#"{"a":[{"anything-but":{"wildcard":{"equals-ignore-case":"*LIB*"}}}]}"#,
            r#"{"a":"/lib/"}"#,
            false,
        ),
        (r#"{"a":[{"none-of":{"wildcard":[{"equals-ignore-case":"*LIB*"},"b"]}}]}"#, r#"{"a":["c"]}"#, true),
    ]);
}

#[test]
fn what_is_ours_is_refused_with_a_place() {
    for (pattern, code, path) in [
        (r#"{"a":[{"all-of":["x"]}]}"#, "filter_invalid_operand", "$.a[0].all-of"),
        (r#"{"a":[{"all-of":"x"}]}"#, "filter_invalid_operand", "$.a[0].all-of"),
        (r#"{"a":[{"all-of":["x",["y"]]}]}"#, "filter_invalid_value", "$.a[0].all-of[1]"),
        (r#"{"a":[{"all-of":["x",{"exists":true}]}]}"#, "filter_unknown_operator", "$.a[0].all-of[1].exists"),
        (
            r#"{"a":[{"all-of":["x",{"anything-but":"y"}]}]}"#,
            "filter_unknown_operator",
            "$.a[0].all-of[1].anything-but",
        ),
        (r#"{"a":[{"date":[]}]}"#, "filter_invalid_operand", "$.a[0].date"),
        (r#"{"a":[{"date":[">"]}]}"#, "filter_invalid_operand", "$.a[0].date"),
        (r#"{"a":[{"date":[">",5]}]}"#, "filter_invalid_operand", "$.a[0].date[0]"),
        (r#"{"a":[{"date":[">","2026-01-01"]}]}"#, "filter_invalid_operand", "$.a[0].date[0]"),
        (r#"{"a":[{"date":["~","2026-01-01T00:00:00Z"]}]}"#, "filter_invalid_operand", "$.a[0].date[0]"),
        (
            r#"{"a":[{"date":[">","2026-01-01T00:00:00Z","<","2026-01-01T00:00:00Z"]}]}"#,
            "filter_invalid_operand",
            "$.a[0].date",
        ),
        (
            r#"{"a":[{"date":[">","2026-01-01T00:00:00Z",">","2026-01-01T00:00:00Z"]}]}"#,
            "filter_invalid_operand",
            "$.a[0].date[2]",
        ),
        (r#"{"a":[{"wildcard":{"prefix":"a*"}}]}"#, "filter_unknown_operator", "$.a[0].wildcard.prefix"),
        (r#"{"a":[{"wildcard":{"equals-ignore-case":"a**"}}]}"#, "filter_invalid_operand", "$.a[0].wildcard"),
        (r#"{"$and":[{"a":[1]},{"b":[1]}]}"#, "filter_unknown_operator", "$.$and"),
    ] {
        let error = compile(pattern).expect_err(pattern);
        assert_eq!((error.code, error.path.as_str()), (code, path), "{pattern}: {error}");
    }
    for pattern in [
        r#"{"a":[{"all-of":["x","y"]}]}"#,
        r#"{"a":[{"date":[">","2026-01-01T00:00:00Z"]}]}"#,
        r#"{"a":[{"wildcard":{"equals-ignore-case":"a*"}}]}"#,
        r#"{"a":[{"anything-but":{"wildcard":{"equals-ignore-case":"a*"}}}]}"#,
    ] {
        compile(pattern).expect("ours");
        let error = Filter::compile_eventbridge(pattern).expect_err(pattern);
        assert_eq!(error.code, "filter_not_eventbridge", "{pattern}");
    }
}
