//! `$attributes`: CloudEvents context attributes beside the body.

use mailrail_filter::{Document, Filter};
use mailrail_types::{Attribute, AttributeValue, Attributes};

use crate::verdict::filter;

fn attributes() -> Attributes {
    let extension = |name: &str, value| Attribute { name: name.into(), value };
    Attributes {
        id: "42".into(),
        source: "/shop/eu".into(),
        event_type: "order.created".into(),
        subject: None,
        time: Some("2026-11-30T09:00:00Z".into()),
        content_type: Some("application/json".into()),
        data_schema: None,
        extensions: vec![
            extension("level", AttributeValue::Integer(5)),
            extension("levelheader", AttributeValue::String("5".into())),
            extension("urgent", AttributeValue::Boolean(true)),
            extension("partitionkey", AttributeValue::String("007".into())),
        ],
    }
}

fn judge(filter: &Filter, body: &[u8]) -> bool {
    filter.matches(&Document::new(&attributes(), body)).expect("small")
}

#[test]
fn every_attribute_can_be_matched() {
    for (list, expected) in [
        (r#""type":["order.created"]"#, true),
        (r#""type":"order.created""#, true),
        (r#""type":[{"prefix":"order."}]"#, true),
        (r#""type":["order.deleted"]"#, false),
        (r#""source":[{"suffix":"/eu"}],"id":["42"]"#, true),
        (r#""source":[{"suffix":"/us"}],"id":["42"]"#, false),
        (r#""time":[{"prefix":"2026-11-30"}]"#, true),
        (r#""datacontenttype":[{"wildcard":"*/json"}]"#, true),
        (r#""specversion":["1.0"]"#, true),
        (r#""subject":[{"exists":false}]"#, true),
        (r#""subject":[{"exists":true}]"#, false),
        (r#""subject":[{"anything-but":"x"}]"#, false),
        (r#""dataschema":[{"exists":false},"x"]"#, true),
        (r#""id":[{"exists":false}]"#, false),
        (r#""unknown":[{"exists":true}]"#, false),
        (r#""source":[{"none-of":["/shop/us"]}]"#, true),
        (r#""source":[{"none-of":["/shop/eu"]}]"#, false),
        (r#""source":[{"anything-but":{"prefix":"/shop"}}]"#, false),
        (r#""$or":[{"type":["x"]},{"source":["/shop/eu"]}]"#, true),
        // The same verdict whether a header or JSON brought the value.
        (r#""level":[5]"#, true),
        (r#""level":["5"]"#, true),
        (r#""levelheader":[5.0]"#, true),
        (r#""levelheader":["5"]"#, true),
        (r#""level":[{"numeric":[">",4]}],"levelheader":[{"numeric":["<",6]}]"#, true),
        (r#""level":[{"anything-but":5}]"#, false),
        (r#""levelheader":[{"anything-but":"5"}]"#, false),
        (r#""urgent":[true]"#, true),
        (r#""urgent":["true"]"#, true),
        (r#""urgent":[false]"#, false),
        (r#""partitionkey":[7]"#, false),
        (r#""partitionkey":["007"]"#, true),
        (r#""type":[null]"#, false),
    ] {
        let filter = filter(&format!(r#"{{"$attributes":{{{list}}}}}"#));
        assert!(filter.is_attribute_only());
        assert_eq!(judge(&filter, b"{}"), expected, "{list}");
        // Attributes do not care for the body.
        assert_eq!(judge(&filter, b"\xff not json"), expected, "{list} without a body");
    }
}

#[test]
fn attributes_and_body_are_joined() {
    let both = filter(r#"{"$attributes":{"type":["order.created"]},"total":[{"numeric":[">",10]}]}"#);
    assert!(!both.is_attribute_only());
    assert!(judge(&both, br#"{"total":11}"#));
    assert!(!judge(&both, br#"{"total":9}"#));
    assert!(!judge(&both, b"total=11"));
    let either = filter(r#"{"$or":[{"$attributes":{"type":["order.created"]}},{"total":[1]}]}"#);
    assert!(judge(&either, b"not json"));
    // Below the root it is a key like any other.
    let below = filter(r#"{"a":{"$attributes":{"type":["x"]}}}"#);
    assert!(judge(&below, br#"{"a":{"$attributes":{"type":"x"}}}"#));
    assert!(!judge(&filter(r#"{"type":["order.created"]}"#), b"{}"));
}

#[test]
fn filters_and_documents_can_be_shared() {
    fn shared<T: Send + Sync>(_: &T) {}
    let attributes = attributes();
    shared(&filter(r#"{"a":[1]}"#));
    shared(&Document::new(&attributes, b"{}"));
}
