//! Any body against filters of every language: no panic, and the index agrees with the filters one by one.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, Scratch};
use mailrail_filter::{Document, Filter, Limits};
use mailrail_types::{Attributes, FilterLanguage};

const FILTERS: &[(FilterLanguage, &str)] = &[
    (FilterLanguage::Pattern, r#"{"a":[1,"x",null,true]}"#),
    (FilterLanguage::Pattern, r#"{"a":{"b":[{"numeric":[">",0]}],"c":[{"exists":false}]}}"#),
    (FilterLanguage::Pattern, r#"{"a":[{"anything-but":"x"}],"b":[{"none-of":{"prefix":["y","z"]}}]}"#),
    (FilterLanguage::Pattern, r#"{"a":[{"wildcard":"*x*y"},{"all-of":["p","q"]},{"cidr":"10.0.0.0/8"}]}"#),
    (FilterLanguage::Pattern, r#"{"a":[{"date":[">","2026-01-01T00:00:00Z"]},{"equals-ignore-case":"É"}]}"#),
    (FilterLanguage::Cesql, "data.a = 'x' OR NOT (data.b > 5) OR LOWER(data.c) LIKE 'x_%'"),
    (FilterLanguage::Cesql, "data.a + 1 > data.b XOR EXISTS data.c.d"),
    (FilterLanguage::CloudEvents, r#"[{"not":{"sql":"data.a IN (1, 'x', TRUE)"}}]"#),
];

static ALL: LazyLock<(Vec<Filter>, Index)> = LazyLock::new(|| {
    let parse = |(language, text): &(FilterLanguage, &str)| {
        Filter::parse(*language, text, &Limits::default()).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    let filters: Vec<Filter> = FILTERS.iter().map(parse).collect();
    let mut index = Index::new(IndexOptions { prefilter: false });
    let changes: Vec<_> = filters.iter().zip(0..).map(|(f, id)| Change::Put(FilterId(id), f)).collect();
    index.apply(&changes);
    (filters, index)
});

fuzz_target!(|body: &[u8]| {
    let (filters, index) = &*ALL;
    let attributes = Attributes::default();
    let document = Document::new(&attributes, body);
    let mut scratch = Scratch::new();
    let snapshot = index.snapshot();
    let found = snapshot.matches(&mut scratch, &attributes, body);
    for (filter, id) in filters.iter().zip(0..) {
        if let Ok(matched) = filter.matches(&document) {
            assert_eq!(found.ids.contains(&FilterId(id)), matched, "filter {id}");
        }
    }
});
