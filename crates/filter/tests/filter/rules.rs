//! Expressions and lists of CloudEvents filters: the evaluator, the index and an evaluator of another make agree.

use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, Scratch};
use mailrail_filter::{BodyState, Document, Filter, Limits};
use mailrail_types::{Attribute, AttributeValue, Attributes, FilterLanguage};

use crate::explained::agrees;
use crate::expressions::Generated;
use crate::generate::{Dice, attributes, body};
use crate::indexed::setting;
use crate::second::Event;
use crate::verdict::check_indexed;

/// Filters of each round, and events that each of them meets.
const FILTERS: usize = 60;
const EVENTS: usize = 60;

/// Pairs of one filter and one event that are tried when `MAILRAIL_FILTER_PAIRS` says nothing else.
const PAIRS: usize = 144_000;

/// Bodies that `serde_json` reads as the crate does: it is the second evaluator's reader, and rounds numbers.
fn readable(dice: &mut Dice) -> Vec<u8> {
    loop {
        let body = body(dice);
        let text = String::from_utf8_lossy(&body);
        let rounded = ["90071992547409", "e400", "-0.0"].iter().any(|number| text.contains(number));
        let attributes = Attributes::default();
        let read = Document::new(&attributes, &body).body_state() == BodyState::Json;
        if !rounded && read == serde_json::from_slice::<serde_json::Value>(&body).is_ok() {
            return body;
        }
    }
}

/// Lists of objects with the keys that paths ask for, so that one element satisfies what another does not.
fn listed(dice: &mut Dice) -> Vec<u8> {
    let members = |dice: &mut Dice| {
        let member = |dice: &mut Dice| {
            let value = dice.pick(&["1", "2", "\"a\"", "\"ab\"", "\"1\"", "true", "null", "10"]);
            format!("\"{}\":{value}", dice.pick(&["a", "b", "c"]))
        };
        let members: Vec<String> = (0..1 + dice.roll(3)).map(|_| member(dice)).collect();
        format!("{{{}}}", members.join(","))
    };
    let list = |dice: &mut Dice| {
        let elements: Vec<String> = (0..1 + dice.roll(3)).map(|_| members(dice)).collect();
        format!("[{}]", elements.join(","))
    };
    format!("{{\"a\":{},\"b\":{},\"c\":{}}}", list(dice), list(dice), members(dice)).into_bytes()
}

#[test]
fn every_evaluator_agrees() {
    let (mut matched, mut tried) = (0, 0);
    let rounds = setting("MAILRAIL_FILTER_PAIRS", PAIRS).div_ceil(FILTERS * EVENTS);
    for round in 0..rounds as u64 {
        let mut dice = Dice::new(7000 + setting("MAILRAIL_FILTER_SEED", 0) as u64 + round);
        let generated: Vec<Generated> = (0..FILTERS).map(|_| Generated::new(&mut dice)).collect();
        let filters: Vec<Filter> = generated
            .iter()
            .map(|g| {
                Filter::parse(g.language, &g.text, &Limits::default())
                    .unwrap_or_else(|e| panic!("{} is refused: {e}", g.text))
            })
            .collect();
        let mut index = Index::new(IndexOptions { prefilter: round % 2 == 0 });
        for half in [0..FILTERS / 2, FILTERS / 2..FILTERS] {
            let changes: Vec<_> =
                half.map(|i| Change::Put(FilterId(u32::try_from(i).expect("small")), &filters[i])).collect();
            assert_eq!(index.apply(&changes), []);
        }
        if round % 3 == 0 {
            index.compact();
        }
        let snapshot = index.snapshot();
        let mut scratch = Scratch::new();
        for _ in 0..EVENTS {
            let body = if dice.one_in(3) { listed(&mut dice) } else { readable(&mut dice) };
            let attributes = attributes(&mut dice);
            let document = Document::new(&attributes, &body);
            let event = Event::new(&attributes, &body);
            let found = snapshot.matches(&mut scratch, &attributes, &body);
            assert_eq!(found.failed, []);
            for (i, (g, filter)) in generated.iter().zip(&filters).enumerate() {
                let on = format!("{} on {attributes:?} {}", g.text, String::from_utf8_lossy(&body));
                let expected = g.holds(&event);
                assert_eq!(filter.matches(&document), Ok(expected), "{on}");
                let indexed = found.ids.contains(&FilterId(u32::try_from(i).expect("small")));
                assert_eq!(indexed, expected, "indexed: {on}");
                assert_eq!(agrees(filter, &document, &on).matched, expected, "explained: {on}");
                matched += usize::from(expected);
                tried += 1;
            }
        }
    }
    assert!(matched * 20 > tried && matched * 2 < tried, "{matched} of {tried} matched: one-sided");
}

fn attributes_of(extensions: &[(&str, AttributeValue)]) -> Attributes {
    Attributes {
        id: "42".to_owned(),
        source: "/shop/eu".to_owned(),
        event_type: "order.created".to_owned(),
        extensions: extensions
            .iter()
            .map(|(name, value)| Attribute { name: (*name).to_owned(), value: value.clone() })
            .collect(),
        ..Attributes::default()
    }
}

fn check(language: FilterLanguage, attributes: &Attributes, body: &str, table: &[(&str, bool)]) {
    for (text, expected) in table {
        let filter = Filter::parse(language, text, &Limits::default())
            .unwrap_or_else(|e| panic!("{text} is refused: {e}"));
        let document = Document::new(attributes, body.as_bytes());
        assert_eq!(filter.matches(&document), Ok(*expected), "{text}");
        check_indexed(text, &filter, attributes, body.as_bytes(), Ok(*expected));
    }
}

#[test]
fn every_dialect_of_cloudevents_filters() {
    let attributes = attributes_of(&[
        ("count", AttributeValue::Integer(5)),
        ("urgent", AttributeValue::Boolean(true)),
        ("region", AttributeValue::String("eu-1".to_owned())),
    ]);
    check(
        FilterLanguage::CloudEvents,
        &attributes,
        r#"{"project":{"key":"FOO"},"priority":"Critical"}"#,
        &[
            ("[]", true),
            (r#"[{"exact":{"type":"order.created"}}]"#, true),
            (r#"[{"exact":{"type":"Order.created"}}]"#, false),
            (r#"[{"exact":{"type":"order.created","source":"/shop/eu"}}]"#, true),
            (r#"[{"exact":{"type":"order.created","source":"/shop/us"}}]"#, false),
            (r#"[{"exact":{"subject":"x"}}]"#, false),
            (r#"[{"exact":{"count":"5","urgent":"true"}}]"#, true),
            (r#"[{"exact":{"specversion":"1.0"}}]"#, true),
            (r#"[{"prefix":{"type":"order.","region":"eu"}}]"#, true),
            (r#"[{"prefix":{"type":"created"}}]"#, false),
            (r#"[{"suffix":{"type":".created"}}]"#, true),
            (r#"[{"suffix":{"subject":"x"}}]"#, false),
            (r#"[{"exact":{"id":"42"}},{"suffix":{"source":"/us"}}]"#, false),
            (r#"[{"all":[{"exact":{"id":"42"}},{"suffix":{"source":"/eu"}}]}]"#, true),
            (r#"[{"any":[{"exact":{"id":"43"}},{"suffix":{"source":"/eu"}}]}]"#, true),
            (r#"[{"any":[{"exact":{"id":"43"}},{"suffix":{"source":"/us"}}]}]"#, false),
            (r#"[{"not":{"exact":{"id":"43"}}}]"#, true),
            (r#"[{"not":{"exact":{"subject":"x"}}}]"#, true),
            (r#"[{"not":{"not":{"exact":{"subject":"x"}}}}]"#, false),
            (r#"[{"not":{"all":[{"exact":{"id":"42"}},{"exact":{"source":"y"}}]}}]"#, true),
            (r#"[{"not":{"any":[{"exact":{"id":"42"}},{"exact":{"source":"y"}}]}}]"#, false),
            (r#"[{"sql":"source LIKE '%shop%'"}]"#, true),
            (r#"[{"sql":"urgent"}]"#, true),
            (r#"[{"sql":"nothing = 'x'"}]"#, false),
            // An error is no match, and the opposite of that is one.
            (r#"[{"not":{"sql":"nothing = 'x'"}}]"#, true),
            (r#"[{"not":{"sql":"data.nothing = 'x'"}}]"#, true),
            (r#"[{"not":{"sql":"type = 'order.created'"}}]"#, false),
            (r#"[{"sql":"data.project.key = 'FOO' AND data.priority = 'Critical'"}]"#, true),
            (r#"[{"exact":{"id":"42"}},{"sql":"data.priority = 'Minor'"}]"#, false),
        ],
    );
}

#[test]
fn what_is_refused_and_where() {
    let deep = format!("[{}{{}}{}]", r#"{"not":"#.repeat(60), "}".repeat(60));
    let deeper = format!("[{}{{}}{}]", r#"{"not":"#.repeat(100), "}".repeat(100));
    let many = format!("[{}]", vec![r#"{"exact":{"id":"1"}}"#; 500].join(","));
    let sql = format!(r#"[{{"sql":"1 IN ({})"}},{many}]"#, vec!["1"; 600].join(","));
    let sql = sql.replace(",[", ",").replace("]]", "]");
    for (text, code, path) in [
        ("", "filter_not_json", "$"),
        ("{}", "filter_not_list", "$"),
        (r#"{"exact":{"type":"x"}}"#, "filter_not_list", "$"),
        ("[1]", "filter_invalid_value", "$[0]"),
        ("[{}]", "filter_invalid_value", "$[0]"),
        (r#"[{"exact":{"id":"1"},"prefix":{"id":"1"}}]"#, "filter_invalid_value", "$[0]"),
        (r#"[{"exact":{"id":"1"}},{"regex":{"id":"1"}}]"#, "filter_unknown_operator", "$[1].regex"),
        (r#"[{"exact":{}}]"#, "filter_invalid_operand", "$[0].exact"),
        (r#"[{"exact":[]}]"#, "filter_invalid_operand", "$[0].exact"),
        (r#"[{"exact":{"id":1}}]"#, "filter_invalid_operand", "$[0].exact.id"),
        (r#"[{"exact":{"id":""}}]"#, "filter_invalid_operand", "$[0].exact.id"),
        (r#"[{"exact":{"id":"1","id":"2"}}]"#, "filter_duplicate_key", "$[0].exact.id"),
        (r#"[{"exact":{"Id":"1"}}]"#, "filter_invalid_attribute", "$[0].exact.Id"),
        (r#"[{"exact":{"data":"1"}}]"#, "filter_invalid_attribute", "$[0].exact.data"),
        (r#"[{"all":[]}]"#, "filter_invalid_operand", "$[0].all"),
        (r#"[{"any":{}}]"#, "filter_invalid_operand", "$[0].any"),
        (r#"[{"any":[{"not":[]}]}]"#, "filter_invalid_value", "$[0].any[0].not"),
        (r#"[{"sql":1}]"#, "filter_invalid_operand", "$[0].sql"),
        (r#"[{"sql":"type ="}]"#, "filter_syntax", "$[0].sql"),
        (r#"[{"sql":"1"}]"#, "filter_not_boolean", "$[0].sql"),
        (&deep, "filter_invalid_value", &format!("$[0]{}", ".not".repeat(60))),
        (&deeper, "filter_too_deep", &format!("$[0]{}", ".not".repeat(64))),
        (&sql, "filter_too_long", "$"),
    ] {
        let error = Filter::parse(FilterLanguage::CloudEvents, text, &Limits::default()).expect_err(text);
        assert_eq!((error.code, error.path.as_str()), (code, path), "{error}");
    }
    let few = Limits { values: 3, ..Limits::default() };
    for text in [
        r#"[{"exact":{"id":"1","type":"2"}},{"prefix":{"id":"1","source":"2"}}]"#,
        r#"[{"exact":{"id":"1","type":"2"}},{"sql":"id = '1'"}]"#,
    ] {
        let error = Filter::parse(FilterLanguage::CloudEvents, text, &few).expect_err(text);
        assert_eq!(error.code, "filter_too_many_values", "{text}");
    }
}

#[test]
fn filters_on_attributes_do_not_look_at_the_body() {
    for (language, text, expected) in [
        (FilterLanguage::Cesql, "type = 'x' AND source LIKE '%y'", true),
        (FilterLanguage::Cesql, "LOWER(type) = 'x'", true),
        (FilterLanguage::Cesql, "LOWER(type) = data.x", false),
        (FilterLanguage::Cesql, "EXISTS data.x", false),
        (FilterLanguage::CloudEvents, r#"[{"not":{"exact":{"type":"x"}}}]"#, true),
        (FilterLanguage::CloudEvents, r#"[{"sql":"data.x = 1"}]"#, false),
        (FilterLanguage::EventBridge, r#"{"x":[1]}"#, false),
    ] {
        let filter = Filter::parse(language, text, &Limits::default()).expect("a filter");
        assert_eq!(filter.is_attribute_only(), expected, "{text}");
        let mut index = Index::new(IndexOptions::default());
        index.apply(&[Change::Put(FilterId(1), &filter)]);
        assert_eq!(index.snapshot().is_attribute_only(), expected, "indexed: {text}");
    }
}

#[test]
fn equal_filters_share_one_entry_across_languages() {
    let parse = |language, text: &str| Filter::parse(language, text, &Limits::default()).expect("a filter");
    let same = [
        parse(FilterLanguage::Pattern, r#"{"$attributes":{"type":["x"]}}"#),
        parse(FilterLanguage::Cesql, "type = 'x'"),
        parse(FilterLanguage::CloudEvents, r#"[{"exact":{"type":"x"}}]"#),
        // What its rule decides is shared with what is written the same.
        parse(FilterLanguage::Cesql, "LOWER(type) = 'x'"),
        parse(FilterLanguage::Cesql, "LOWER(type) = 'x'"),
        parse(FilterLanguage::Cesql, "lower(type) = 'x'"),
    ];
    let mut index = Index::new(IndexOptions::default());
    let changes: Vec<_> = same.iter().zip(0..).map(|(f, id)| Change::Put(FilterId(id), f)).collect();
    index.apply(&changes);
    assert_eq!((index.stats().filters, index.stats().entries), (6, 3));
}

#[test]
fn a_rule_is_led_to_by_what_it_needs() {
    let texts: Vec<String> = (0..500)
        .map(|i| format!("data.project.key = 'P{i}' AND (data.priority = 'Critical' OR LOWER(data.title) LIKE '%urgent%')"))
        .collect();
    let filters: Vec<Filter> = texts
        .iter()
        .map(|text| Filter::parse(FilterLanguage::Cesql, text, &Limits::default()).expect("a filter"))
        .collect();
    let mut index = Index::new(IndexOptions::default());
    let changes: Vec<_> = filters.iter().zip(0..).map(|(f, id)| Change::Put(FilterId(id), f)).collect();
    index.apply(&changes);
    assert_eq!((index.stats().always, index.stats().broad), (0, 0));
    let mut scratch = Scratch::new();
    let snapshot = index.snapshot();
    let attributes = Attributes::default();
    let body = br#"{"project":{"key":"P77"},"priority":"Minor","title":"URGENT: help"}"#;
    assert_eq!(snapshot.matches(&mut scratch, &attributes, body).ids, [FilterId(77)]);
    assert!(scratch.effort().evaluated <= 2, "{:?}", scratch.effort());
}
