//! Hostile events and filters against an index: bounded in counted work, and never a panic or an overflow of the stack.

use mailrail_filter::Filter;
use mailrail_filter::index::{Change, Effort, FilterId, Index, IndexOptions, Scratch};
use mailrail_filter::limits::{CANDIDATES_NOTED_MAX, EVENT_STEPS_MAX, STEPS_MAX};
use mailrail_types::Attributes;

use crate::verdict::filter;

const MB: usize = 1024 * 1024;

fn index_of(texts: &[String]) -> Index {
    let filters: Vec<Filter> = texts.iter().map(|text| filter(text)).collect();
    let changes: Vec<_> =
        filters.iter().zip(0..).map(|(filter, id)| Change::Put(FilterId(id), filter)).collect();
    let mut index = Index::new(IndexOptions::default());
    assert_eq!(index.apply(&changes), []);
    index
}

/// How many match, how many have no verdict, and what that cost: always within the bounds.
fn run(index: &Index, body: &[u8]) -> (usize, usize, Effort) {
    let mut scratch = Scratch::new();
    let snapshot = index.snapshot();
    let found = snapshot.matches(&mut scratch, &Attributes::default(), body);
    let (matched, failed) = (found.ids.len(), found.failed.len());
    let effort = scratch.effort();
    assert!(effort.leaves <= body.len() as u64, "{effort:?}");
    assert!(effort.noted <= CANDIDATES_NOTED_MAX + 100_000, "{effort:?}");
    assert!(effort.steps <= EVENT_STEPS_MAX + u64::from(STEPS_MAX), "{effort:?}");
    (matched, failed, effort)
}

#[test]
fn deep_nesting_ends_the_scan() {
    let index = index_of(
        &[r#"{"a":[1]}"#, r#"{"a":{"a":{"a":[{"exists":true}]}}}"#, r#"{"b":[1]}"#].map(str::to_owned),
    );
    for (open, close) in
        [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]"), ("[", ""), ("{\"a\":", ""), ("{\"x\":[", "]}")]
    {
        let nested = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for body in
            [nested.clone(), format!("{{\"a\":{nested},\"b\":1}}"), format!("{{\"x\":{nested},\"b\":1}}")]
        {
            assert_eq!(run(&index, body.as_bytes()).0, 0);
        }
    }
}

#[test]
fn long_strings_are_looked_at_once() {
    let stars = format!("{}b", "*a".repeat(400));
    let mut texts: Vec<String> =
        (0..200).map(|i| format!(r#"{{"a":[{{"wildcard":"*aaa*{i}*"}}]}}"#)).collect();
    texts.push(format!(r#"{{"a":[{{"wildcard":"{stars}"}}]}}"#));
    texts.extend((1..200).map(|i| format!(r#"{{"a":[{{"prefix":"{}b"}}]}}"#, "a".repeat(i))));
    texts.push(r#"{"a":[{"suffix":{"equals-ignore-case":"AAB"}}]}"#.to_owned());
    let index = index_of(&texts);
    let body = format!(r#"{{"a":"{}"}}"#, "a".repeat(5 * MB));
    let (matched, failed, effort) = run(&index, body.as_bytes());
    assert_eq!((matched, failed, effort.leaves), (0, 0, 1));
    let escaped = format!(r#"{{"a":"{}b"}}"#, "\\u0061".repeat(MB));
    assert_eq!(run(&index, escaped.as_bytes()).0, 2);
    let backslashes = format!(r#"{{"x":"{}","a":"ab"}}"#, "\\\\".repeat(2 * MB));
    assert_eq!(run(&index, backslashes.as_bytes()).0, 1);
}

#[test]
fn a_million_keys_are_one_pass() {
    let index = index_of(&[r#"{"k7":[7],"a":{"b":["x"]}}"#.to_owned(), r#"{"none":["x"]}"#.to_owned()]);
    let members: Vec<String> = (0..1_000_000).map(|i| format!("\"k{i}\":{i}")).collect();
    let body = format!(r#"{{{},"a":{{"b":"x"}}}}"#, members.join(","));
    assert_eq!(run(&index, body.as_bytes()).0, 1);
    let same = format!("{{{}}}", vec!["\"\\u0061\":{\"b\":\"x\"}"; 200_000].join(","));
    let (matched, _, effort) = run(&index, same.as_bytes());
    assert!(matched == 0 && effort.leaves <= 200_000, "{effort:?}");
}

#[test]
fn long_arrays_do_not_multiply_with_filters() {
    // Broad filters, ranges and long lists, all led to by every element.
    let mut texts: Vec<String> = (0..2000)
        .map(|i| format!(r#"{{"a":[{{"numeric":["<",{}]}}],"b":["n{i}"]}}"#, 2_000_000 + i))
        .collect();
    texts.extend(
        (0..500).map(|i| format!(r#"{{"a":[{{"anything-but":["y{i}"]}}],"c":[{{"exists":true}}]}}"#)),
    );
    texts.extend((0..500).map(|i| format!(r#"{{"a":[5],"d":[{{"numeric":[">",{i}]}}]}}"#)));
    let index = index_of(&texts);
    let numbers: Vec<String> = (0..200_000).map(|i| i.to_string()).collect();
    let (matched, _, _) = run(&index, format!(r#"{{"a":[{}]}}"#, numbers.join(",")).as_bytes());
    assert_eq!(matched, 0);
    let fives = vec!["5"; 500_000].join(",");
    let (matched, _, _) = run(&index, format!(r#"{{"a":[{fives}],"d":1000}}"#).as_bytes());
    assert_eq!(matched, 500, "the filters with d are met before any budget ends");
}

#[test]
fn filters_of_ten_thousand_clauses_are_indexed() {
    // The largest filter there may be: a thousand alternatives, of ten clauses each.
    let pair = |i| format!(r#""k{i}":{{"$or":[{{"a":[1]}},{{"b":[1]}}]}}"#);
    let nine: Vec<String> = (0..9).map(pair).collect();
    let index = index_of(&[format!(r#"{{{},"last":["x"]}}"#, nine.join(","))]);
    let stats = index.stats();
    assert_eq!(stats.conjunctions, 512);
    let body = |last: &str| {
        let members: Vec<_> = (0..9).map(|i| format!(r#""k{i}":{{"b":1}}"#)).collect();
        format!(r#"{{{},"last":"{last}"}}"#, members.join(","))
    };
    assert_eq!(run(&index, body("x").as_bytes()).0, 1);
    let (matched, failed, effort) = run(&index, body("y").as_bytes());
    assert_eq!((matched, failed, effort.evaluated), (0, 0, 0));
}

#[test]
fn one_filter_without_a_verdict_leaves_the_others_alone() {
    let index =
        index_of(&[r#"{"a":[{"none-of":["x"]}]}"#, r#"{"a":[7]}"#, r#"{"b":["y"]}"#].map(str::to_owned));
    let numbers: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    let (matched, failed, _) = run(&index, format!(r#"{{"a":[{}],"b":"y"}}"#, numbers.join(",")).as_bytes());
    assert_eq!((matched, failed), (2, 1));
}
