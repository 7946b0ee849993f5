//! What an index reads of an event, and what it leads to: counted, not timed.

use mailrail_filter::Filter;
use mailrail_filter::index::{
    Change, Effort, FilterId, Index, IndexError, IndexOptions, IndexSnapshot, Scratch,
};
use mailrail_filter::limits::{INDEX_PATHS_MAX, INDEX_POSTING_MAX};
use mailrail_types::Attributes;

use crate::verdict::filter;

fn index_of(texts: impl IntoIterator<Item = String>, prefilter: bool) -> Index {
    let filters: Vec<Filter> = texts.into_iter().map(|text| filter(&text)).collect();
    let changes: Vec<_> =
        filters.iter().zip(0..).map(|(filter, id)| Change::Put(FilterId(id), filter)).collect();
    let mut index = Index::new(IndexOptions { prefilter });
    assert_eq!(index.apply(&changes), []);
    index
}

fn matches(snapshot: &IndexSnapshot, event_type: &str, body: &str) -> (usize, Effort) {
    let mut scratch = Scratch::new();
    let attributes = Attributes { event_type: event_type.to_owned(), ..Attributes::default() };
    let found = snapshot.matches(&mut scratch, &attributes, body.as_bytes()).ids.len();
    (found, scratch.effort())
}

#[test]
fn attributes_alone_never_read_the_body() {
    let index = index_of(
        (0..50).map(|i| format!(r#"{{"$attributes":{{"type":["t{i}"],"source":[{{"exists":true}}]}}}}"#)),
        true,
    );
    let snapshot = index.snapshot();
    assert!(snapshot.is_attribute_only());
    let (found, effort) = matches(&snapshot, "t7", "not json at all \u{0}");
    assert_eq!((found, effort.body_read, effort.evaluated), (1, false, 1));
    assert_eq!(matches(&snapshot, "other", "{").1.evaluated, 0);
    let mixed = index_of([r#"{"$attributes":{"type":["t"]},"a":[1]}"#.to_owned()], true);
    assert!(!mixed.snapshot().is_attribute_only());
}

#[test]
fn two_equal_values_rule_out_without_evaluation() {
    let index = index_of(
        (0..1000).map(|i| format!(r#"{{"project":{{"key":["P{i}"]}},"priority":["Critical"]}}"#)),
        true,
    );
    let snapshot = index.snapshot();
    for (body, found, evaluated) in [
        (r#"{"project":{"key":"P7"},"priority":"Critical"}"#, 1, 1),
        (r#"{"project":{"key":"P7"},"priority":"Low"}"#, 0, 0),
        (r#"{"project":{"key":"Q"},"priority":"Critical"}"#, 0, 0),
        (r#"{"priority":"Critical","other":{"project":{"key":"P7"}}}"#, 0, 0),
    ] {
        let (matched, effort) = matches(&snapshot, "t", body);
        assert_eq!((matched, effort.evaluated), (found, evaluated), "{body}");
    }
}

#[test]
fn values_that_many_filters_share_are_told_apart_by_a_second_one() {
    let many = 20 * INDEX_POSTING_MAX;
    // Every value is shared by at least a hundred filters, so whichever is chosen has a long list.
    let text = |i: usize| {
        format!(r#"{{"a":["x{}"],"b":["y{}"],"c":[{{"numeric":[">",{i}]}}]}}"#, i % 10, i / 10 % 10)
    };
    let index = index_of((0..many).map(text), true);
    let snapshot = index.snapshot();
    let (found, effort) = matches(&snapshot, "t", r#"{"a":"x3","b":"y4","c":1000000}"#);
    assert_eq!(found, (0..many).filter(|i| i % 10 == 3 && i / 10 % 10 == 4).count());
    assert!(effort.noted <= 2 * found as u64, "{effort:?}");
    let (found, effort) = matches(&snapshot, "t", r#"{"a":"x3","b":"z","c":1000000}"#);
    assert_eq!((found, effort.noted), (0, 0));
    // With more values than are remembered nothing is lost.
    let others: Vec<String> = (0..2000).map(|i| format!("\"o{i}\"")).collect();
    let body = format!(r#"{{"a":["x3",{}],"b":"y4","c":1000000}}"#, others.join(","));
    assert_eq!(
        matches(&snapshot, "t", &body).0,
        (0..many).filter(|i| i % 10 == 3 && i / 10 % 10 == 4).count()
    );
}

#[test]
fn literals_rule_bodies_out() {
    let index = index_of(
        [
            r#"{"a":["FOO"]}"#,
            r#"{"b":{"c":[{"prefix":"http"}]}}"#,
            r#"{"d":[{"wildcard":"*needle*"}],"e":[{"exists":true}]}"#,
        ]
        .map(str::to_owned),
        true,
    );
    let snapshot = index.snapshot();
    for (body, ruled_out) in [
        (r#"{"a":"BAR","b":{"c":"ftp"},"d":"hay"}"#, true),
        (r#"{"a":"BAR","x":"FOO"}"#, false),
        (r#"{"a":"F\u004fO"}"#, false),
        (r#"{"a":"FOOD"}"#, true),
    ] {
        let effort = matches(&snapshot, "t", body).1;
        assert_eq!((effort.ruled_out, effort.body_read), (ruled_out, !ruled_out), "{body}");
    }
    assert_eq!(matches(&snapshot, "t", r#"{"a":"F\u004fO"}"#).0, 1);
    // Of two literals of a filter the one that fewer filters need is looked for.
    let two = |i: usize| format!(r#"{{"project":{{"key":["P{i}"]}},"priority":["Critical"]}}"#);
    let index = index_of((0..5).map(two), true);
    assert!(matches(&index.snapshot(), "t", r#"{"project":{"key":"Q"},"priority":"Critical"}"#).1.ruled_out);
    // A filter that needs no literal: nothing can be ruled out.
    let index = index_of([r#"{"a":["FOO"]}"#, r#"{"n":[1]}"#].map(str::to_owned), true);
    assert!(!matches(&index.snapshot(), "t", r#"{"a":"BAR"}"#).1.ruled_out);
}

#[test]
fn what_nothing_leads_to_is_counted() {
    let index = index_of(
        [
            r#"{"a":[{"exists":false}]}"#,
            r#"{"a":[{"anything-but":"x"}]}"#,
            r#"{"a":[{"exists":false}],"b":[1]}"#,
        ]
        .map(str::to_owned),
        true,
    );
    let stats = index.stats();
    assert_eq!((stats.always, stats.broad, stats.conjunctions), (1, 1, 3));
}

#[test]
fn too_many_paths_are_refused_and_compacting_makes_room() {
    let mut index = Index::new(IndexOptions::default());
    let filters: Vec<Filter> = (0..=INDEX_PATHS_MAX).map(|i| filter(&format!(r#"{{"k{i}":[1]}}"#))).collect();
    let changes: Vec<_> =
        filters[..INDEX_PATHS_MAX].iter().zip(0..).map(|(f, id)| Change::Put(FilterId(id), f)).collect();
    assert_eq!(index.apply(&changes), []);
    let last = &filters[INDEX_PATHS_MAX];
    // What was under the id stays.
    assert_eq!(index.apply(&[Change::Put(FilterId(0), last)]), [(FilterId(0), IndexError::TooManyPaths)]);
    assert_eq!(matches(&index.snapshot(), "t", r#"{"k0":1}"#).0, 1);
    assert_eq!(IndexError::TooManyPaths.code(), "index_too_many_paths");
    index.apply(&[Change::Remove(FilterId(1))]);
    index.compact();
    assert_eq!(index.apply(&[Change::Put(FilterId(0), last)]), []);
    assert_eq!(matches(&index.snapshot(), "t", &format!(r#"{{"k0":1,"k{INDEX_PATHS_MAX}":1,"k9":1}}"#)).0, 2);
}
