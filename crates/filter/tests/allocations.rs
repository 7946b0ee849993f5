//! Events that lead to no candidate allocate nothing, once the scratch has grown. A binary of its own: it counts with an
//! allocator of its own.

use allocation_counter::measure;
use mailrail_filter::Filter;
use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, Scratch};
use mailrail_types::{Attribute, AttributeValue, Attributes, FilterLanguage, FilterSource};

fn index_of(texts: Vec<String>, prefilter: bool) -> Index {
    // Patterns begin with a brace, lists of CloudEvents filters with a bracket.
    let language = |text: &str| match text.as_bytes() {
        [b'{', ..] => FilterLanguage::Pattern,
        [b'[', ..] => FilterLanguage::CloudEvents,
        _ => FilterLanguage::Cesql,
    };
    let compile =
        |text: String| Filter::compile(&FilterSource { language: language(&text), text }).expect("a filter");
    let filters: Vec<Filter> = texts.into_iter().map(compile).collect();
    let changes: Vec<_> =
        filters.iter().zip(0..).map(|(filter, id)| Change::Put(FilterId(id), filter)).collect();
    let mut index = Index::new(IndexOptions { prefilter });
    assert_eq!(index.apply(&changes), []);
    index
}

#[test]
fn events_that_match_nothing_allocate_nothing() {
    let two = |n: usize| {
        (0..n).map(|i| format!(r#"{{"project":{{"key":["P{i}"]}},"priority":["Critical"]}}"#)).collect()
    };
    let mut every_kind = vec![
        r#"{"$attributes":{"type":["other"],"count":[7]}}"#.to_owned(),
        r#"{"$attributes":{"region":[{"prefix":"eu-"}]},"x":[1]}"#.to_owned(),
        r#"{"title":[{"prefix":"zz"}]}"#.to_owned(),
        r#"{"title":[{"suffix":{"equals-ignore-case":"zz"}}]}"#.to_owned(),
        r#"{"title":[{"equals-ignore-case":"nothing"}]}"#.to_owned(),
        r#"{"title":[{"wildcard":"*qqq*zzz*"}]}"#.to_owned(),
        r#"{"size":[{"numeric":[">",100,"<",200]}]}"#.to_owned(),
        r#"{"from":[{"cidr":"10.0.0.0/8"}]}"#.to_owned(),
        r#"{"gone":[{"anything-but":"x"}]}"#.to_owned(),
        r#"{"tags":["no","none",null,true]}"#.to_owned(),
        r#"{"tags":[{"all-of":["no","a"]}]}"#.to_owned(),
        r#"{"title":[{"date":[">","2026-01-01T00:00:00Z"]}]}"#.to_owned(),
        r#"{"title":[{"wildcard":{"equals-ignore-case":"qq*zz"}}]}"#.to_owned(),
        r#"[{"exact":{"type":"other"}},{"not":{"exact":{"region":"us"}}}]"#.to_owned(),
        "data.project.key = 'P' AND (data.priority = 'Minor' OR LOWER(data.title) = 'x')".to_owned(),
        "LOWER(data.gone) = 'x' OR type LIKE 'other%'".to_owned(),
    ];
    every_kind.extend((0..300).map(|i| format!(r#"{{"tags":["t{i}"],"title":["x"]}}"#)));
    let extension = |name: &str, value| Attribute { name: name.to_owned(), value };
    let attributes = Attributes {
        event_type: "issue.updated".to_owned(),
        extensions: vec![
            extension("count", AttributeValue::Integer(8)),
            extension("region", AttributeValue::String("us-1".to_owned())),
        ],
        ..Attributes::default()
    };
    let bodies = [
        r#"{"project":{"key":"Q"},"priority":"Critical","title":"The \"title\" \u00e9","size":12.5e1000,"from":"11.1.1.1","tags":["a","b",[1,false]]}"#,
        r#"{"pro\u006aect":{"key":"Q\n"},"title":"A long title that says nothing of interest to any of the filters, é","size":50,"tags":[]}"#,
        "no json",
        "",
    ];
    for (texts, prefilter) in [(two(5), true), (two(5), false), (two(2000), false), (every_kind, false)] {
        let index = index_of(texts, prefilter);
        let snapshot = index.snapshot();
        let mut scratch = Scratch::new();
        let mut all = |rounds: usize| {
            for _ in 0..rounds {
                for body in bodies {
                    let found = snapshot.matches(&mut scratch, &attributes, body.as_bytes());
                    assert!(found.ids.is_empty() && found.failed.is_empty());
                    assert_eq!(scratch.effort().noted, 0, "{body}");
                }
            }
        };
        all(3);
        let counted = measure(|| all(100));
        assert_eq!(counted.count_total, 0, "prefilter {prefilter}");
    }
}
