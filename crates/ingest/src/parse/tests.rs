//! The specification's edge cases as a table, and: no input panics.

use mailrail_types::{Attribute, AttributeValue};
use proptest::prelude::*;

use super::*;

const BATCH_MAX: usize = 3;
const STRUCTURED: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";
const MINIMAL: &str = r#""specversion":"1.0","id":"1","source":"/s","type":"t""#;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let value = http::HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
        map.append(http::HeaderName::from_bytes(name.as_bytes()).expect("a header name"), value);
    }
    map
}

fn single(parsed: Result<Parsed, Refusal>) -> Result<CloudEvent, Refusal> {
    match parsed? {
        Parsed::Single(event) => Ok(event),
        Parsed::Batch(_) => panic!("a batch"),
    }
}

fn structured_as(content_type: &str, json: impl Into<Vec<u8>>) -> Result<CloudEvent, Refusal> {
    single(parse(&headers(&[("content-type", content_type)]), &Bytes::from(json.into()), BATCH_MAX))
}

/// A structured event with these members beside the required ones.
fn with(members: &str) -> Result<CloudEvent, Refusal> {
    structured_as(STRUCTURED, format!("{{{MINIMAL},{members}}}"))
}

fn binary(extra: &[(&str, &str)]) -> Result<CloudEvent, Refusal> {
    let required = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")];
    single(parse(&headers(&[&required[..], extra].concat()), &Bytes::from_static(b"\xff{}"), BATCH_MAX))
}

fn code_and_field(result: &Result<CloudEvent, Refusal>) -> (&'static str, &str) {
    match result {
        Ok(event) => panic!("accepted: {event:?}"),
        Err(refusal) => (refusal.problem.code(), refusal.field.as_deref().unwrap_or_default()),
    }
}

fn text(name: &str, value: &str) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::String(value.to_owned()) }
}

/// N01: structured mode.
#[test]
fn n01_structured_attributes_keep_type_and_order() {
    let event = with(
        r#""zz":"s","aa":true,"mm":-7,"subject":"sub","time":"2018-04-05T17:31:00.123456789+02:00","dataschema":"/d",
           "unset":null,"datacontenttype":"Application/JSON; charset=UTF-8","tenant":"other","bb":"\u20ac""#,
    )
    .expect("valid");
    let kept = event.attributes;
    assert_eq!((kept.id.as_str(), kept.source.as_str(), kept.event_type.as_str()), ("1", "/s", "t"));
    assert_eq!(kept.subject.as_deref(), Some("sub"));
    assert_eq!(kept.time.as_deref(), Some("2018-04-05T17:31:00.123456789+02:00"));
    assert_eq!(kept.data_schema.as_deref(), Some("/d"));
    assert_eq!(kept.content_type.as_deref(), Some("Application/JSON; charset=UTF-8"));
    let boolean = Attribute { name: "aa".into(), value: AttributeValue::Boolean(true) };
    let integer = Attribute { name: "mm".into(), value: AttributeValue::Integer(-7) };
    assert_eq!(
        kept.extensions,
        [text("zz", "s"), boolean, integer, text("tenant", "other"), text("bb", "€")]
    );
}

#[test]
fn n05_structured_data_is_cut_out_and_never_rewritten() {
    for data in [
        "{ \"a\" : 123456789012345678901234567890 ,\r\n\t\"a\":1.50, \"a\":1e999 }",
        "[]",
        "\"I'm a string\"",
        "null",
        "true",
        "-0.0",
        r#"{"\u0061":"\ud800 \/"}"#,
    ] {
        for event in [
            with(&format!("\"data\": {data} ")),
            with(&format!("\"data\":{data},\"datacontenttype\":\"a/b+json\"")),
        ] {
            assert_eq!(event.expect(data).body, data.as_bytes());
        }
    }
}

#[test]
fn n01_data_in_its_forms() {
    let body = |members: &str| with(members).map(|e| (e.body.to_vec(), e.attributes.content_type));
    let some = |bytes: &[u8], content_type: &str| Ok((bytes.to_vec(), Some(content_type.to_owned())));
    assert_eq!(body(r#""subject":"x""#), Ok((vec![], None)), "no data has no content type");
    assert_eq!(body(r#""data":{}"#), some(b"{}", "application/json"), "the implied type is written out");
    assert_eq!(body(r#""data_base64":"/wA=","data":null"#).expect_err("both").problem, Problem::DataConflict);
    assert_eq!(body(r#""data_base64":"\/wA=""#), some(b"\xff\0", "application/json"));
    assert_eq!(body(r#""data_base64":null"#), Ok((vec![], None)));
    assert_eq!(body(r#""data_base64":null,"data":1"#), some(b"1", "application/json"));
    assert_eq!(
        body(r#""data":"<a b=\"c\"/>\u00e9","datacontenttype":"text/xml""#),
        some("<a b=\"c\"/>é".as_bytes(), "text/xml")
    );
    assert_eq!(
        body(r#""datacontenttype":"text/plain; charset=latin1","data_base64":"6Q==""#),
        some(b"\xe9", "text/plain; charset=latin1")
    );
}

#[test]
fn n01_structured_refusals_name_code_and_field() {
    for (members, code, field) in [
        (r#""data":1,"data_base64":"AA==""#, "data_conflict", "data_base64"),
        (r#""data_base64":"AA""#, "invalid_base64", "data_base64"),
        (r#""data_base64":"_-8=""#, "invalid_base64", "data_base64"),
        (r#""data_base64":7"#, "invalid_base64", "data_base64"),
        (r#""data":1,"data":1"#, "duplicate_attribute", "data"),
        (r#""id":"2""#, "duplicate_attribute", "id"),
        (r#""\u0069d":"2""#, "duplicate_attribute", "id"),
        (r#""ext":null,"ext":1"#, "duplicate_attribute", "ext"),
        (r#""data":{},"datacontenttype":"text/plain""#, "invalid_attribute", "data"),
        (r#""data":"\ud800","datacontenttype":"text/plain""#, "invalid_attribute", "data"),
        (r#""data":"é","datacontenttype":"text/plain;charset=iso-8859-1""#, "invalid_attribute", "data"),
        (r#""datacontenttype":"json""#, "invalid_attribute", "datacontenttype"),
        (r#""time":"yesterday""#, "invalid_attribute", "time"),
        (r#""time":"2018-02-30T00:00:00Z""#, "invalid_attribute", "time"),
        (r#""time":"2018-04-05T17:31:00""#, "invalid_attribute", "time"),
        (r#""subject":"""#, "invalid_attribute", "subject"),
        (r#""subject":5"#, "invalid_attribute", "subject"),
        (r#""Upper":"x""#, "invalid_attribute", "Upper"),
        (r#""a_b":"x""#, "invalid_attribute", "a_b"),
        (r#""":"x""#, "invalid_attribute", ""),
        (r#""a":2147483648"#, "invalid_attribute", "a"),
        (r#""a":1.0"#, "invalid_attribute", "a"),
        (r#""a":1e2"#, "invalid_attribute", "a"),
        (r#""a":{}"#, "invalid_attribute", "a"),
        (r#""a":[]"#, "invalid_attribute", "a"),
        (r#""a":"\ud800""#, "invalid_attribute", "a"),
        (r#""a":"\u0000""#, "invalid_attribute", "a"),
        (r#""a":"x\r\ny""#, "invalid_attribute", "a"),
        (r#""a":"\u0085""#, "invalid_attribute", "a"),
        (r#""a":"\uffff""#, "invalid_attribute", "a"),
        (r#""partitionkey":"""#, "invalid_attribute", "partitionkey"),
    ] {
        assert_eq!(code_and_field(&with(members)), (code, field), "{members}");
    }
}

#[test]
fn n01_required_attributes_and_version() {
    let event = |json: &str| structured_as(STRUCTURED, json);
    assert_eq!(code_and_field(&event("{}")), ("missing_attribute", "specversion"));
    let missing = event(r#"{"specversion":"1.0","id":"1","source":null}"#);
    assert_eq!(code_and_field(&missing), ("missing_attribute", "source"));
    assert!(missing.expect_err("refused").detail.ends_with("source, type"), "all that is missing is named");
    let version = |v: &str| event(&format!(r#"{{"specversion":{v},"id":"1","source":"/s","type":"t"}}"#));
    assert_eq!(code_and_field(&version("\"0.3\"")), ("unsupported_specversion", "specversion"));
    assert_eq!(code_and_field(&version("\"1.0.2\"")), ("unsupported_specversion", "specversion"));
    assert_eq!(code_and_field(&version("1")), ("invalid_attribute", "specversion"));
    assert_eq!(code_and_field(&version("1.0")), ("invalid_attribute", "specversion"));
    for id in ["\"\"", "5", "{}"] {
        let json = format!(r#"{{"specversion":"1.0","id":{id},"source":"/s","type":"t"}}"#);
        assert_eq!(code_and_field(&event(&json)), ("invalid_attribute", "id"), "{id}");
    }
}

#[test]
fn n01_lengths_have_limits() {
    for (name, max) in [
        ("id", 256),
        ("source", 2048),
        ("type", 1024),
        ("subject", 2048),
        ("ext", 4096),
        ("partitionkey", 512),
    ] {
        let event = |length: usize| {
            let mut members: Vec<String> =
                [("specversion", "1.0"), ("id", "1"), ("source", "/s"), ("type", "t")]
                    .iter()
                    .filter(|(required, _)| *required != name)
                    .map(|(required, value)| format!("\"{required}\":\"{value}\""))
                    .collect();
            members.push(format!("\"{name}\":\"{}\"", "x".repeat(length)));
            structured_as(STRUCTURED, format!("{{{}}}", members.join(",")))
        };
        assert!(event(max).is_ok(), "{name} of {max}");
        assert_eq!(code_and_field(&event(max + 1)), ("invalid_attribute", name));
    }
    let extensions = |count: usize| (0..count).map(|n| format!("\"e{n}\":1")).collect::<Vec<_>>().join(",");
    assert!(with(&extensions(64)).is_ok());
    assert_eq!(code_and_field(&with(&extensions(65))), ("invalid_attribute", "e64"));
    assert_eq!(code_and_field(&with(&extensions(5000))).0, "invalid_attribute");
    assert_eq!(code_and_field(&with(&format!("\"{}\":1", "x".repeat(65)))).0, "invalid_attribute");
}

#[test]
fn malformed_json_is_said_without_repeating_it() {
    for json in
        ["", " ", "{", "[]", "5", "\"canary\"", "nul", "{\"a\":1}x", "{\"a\":1,}", "{canary:1}", "\u{feff}{}"]
    {
        let refusal = structured_as(STRUCTURED, json).expect_err(json);
        assert_eq!(refusal.problem, Problem::MalformedJson, "{json}");
        assert!(!refusal.detail.contains("canary"));
    }
    let latin1 = structured_as(STRUCTURED, [&b"{\"data\":\"\xe9\"}"[..]].concat());
    assert_eq!(code_and_field(&latin1), ("malformed_json", ""));
    let deep = format!("\"data\":{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(with(&deep).expect("depth of data is not ours to judge").body.len(), 400_000);
    let deep_extension = format!("\"a\":{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(code_and_field(&with(&deep_extension)), ("invalid_attribute", "a"));
}

/// N01: the content type chooses the mode.
#[test]
fn n01_content_types_choose_the_mode() {
    let json = format!("{{{MINIMAL}}}");
    for content_type in [
        "application/cloudevents+json",
        "Application/CloudEvents+JSON;charset=utf-8",
        "application/cloudevents+json ; charset=\"UTF-8\"; x=y",
    ] {
        assert!(structured_as(content_type, json.as_str()).is_ok(), "{content_type}");
    }
    for content_type in [
        "application/cloudevents+xml",
        "application/cloudevents",
        "application/cloudevents-batch+avro",
        "application/cloudevents+json; charset=utf-16",
    ] {
        let refused = structured_as(content_type, json.as_str());
        assert_eq!(code_and_field(&refused), ("unsupported_media_type", "content-type"), "{content_type}");
    }
    let plain = structured_as("application/json", json.as_str());
    assert_eq!(code_and_field(&plain), ("missing_attribute", "ce-id"));
    let detail = plain.expect_err("refused").detail;
    assert!(detail.contains("ce-id, ce-source, ce-type") && detail.contains(STRUCTURED), "{detail}");
}

/// N01: binary mode.
#[test]
fn n01_binary_headers() {
    let event = binary(&[
        ("content-type", "application/json; charset=utf-8"),
        ("ce-zz", "Euro%20%E2%82%AC"),
        ("CE-AA", "\"q \\\" x\""),
        ("ce-time", "2018-04-05T03:56:24Z"),
        ("ce-subject", "a%2Fb"),
        ("x-other", "y"),
    ])
    .expect("valid");
    assert_eq!(event.attributes.content_type.as_deref(), Some("application/json; charset=utf-8"));
    assert_eq!(event.attributes.subject.as_deref(), Some("a/b"));
    assert_eq!(event.attributes.extensions, [text("zz", "Euro €"), text("aa", "q \" x")]);
    assert_eq!(event.body, b"\xff{}"[..]);
    assert_eq!(binary(&[]).expect("no content type is fine").attributes.content_type, None);
    for (extra, code, field) in [
        (("ce-id", "2"), "duplicate_attribute", "ce-id"),
        (("ce-datacontenttype", "text/plain"), "invalid_attribute", "content-type"),
        (("ce-data", "x"), "invalid_attribute", "ce-data"),
        (("ce-a-b", "x"), "invalid_attribute", "ce-a-b"),
        (("ce-", "x"), "invalid_attribute", "ce-"),
        (("ce-subject", ""), "invalid_attribute", "ce-subject"),
        (("ce-subject", "\"\""), "invalid_attribute", "ce-subject"),
        (("ce-subject", "a%0Ab"), "invalid_attribute", "ce-subject"),
        (("ce-subject", "%C0%A0"), "invalid_attribute", "ce-subject"),
        (("ce-time", "now"), "invalid_attribute", "ce-time"),
        (("content-type", "json"), "invalid_attribute", "content-type"),
        (("content-type", ""), "invalid_attribute", "content-type"),
        (("content-type", "text/plain; x=é"), "invalid_attribute", "content-type"),
    ] {
        assert_eq!(code_and_field(&binary(&[extra])), (code, field), "{extra:?}");
    }
    let two = binary(&[("content-type", "a/b"), ("content-type", "a/b")]);
    assert_eq!(code_and_field(&two), ("duplicate_attribute", "content-type"));
}

/// N01: plain JSON with headers.
#[test]
fn n01_plain_json_with_headers_needs_no_specversion() {
    let required =
        [("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t"), ("content-type", "application/json")];
    let plain =
        |pairs: &[(&str, &str)]| single(parse(&headers(pairs), &Bytes::from_static(b"{}"), BATCH_MAX));
    assert!(plain(&required).is_ok());
    let other = [&required[..], &[("ce-specversion", "0.3")]].concat();
    assert_eq!(code_and_field(&plain(&other)), ("unsupported_specversion", "ce-specversion"));
    assert_eq!(code_and_field(&plain(&required[1..])), ("missing_attribute", "ce-id"));
}

/// N01: batch mode, item by item.
#[test]
fn n01_a_batch_is_read_item_by_item() {
    let batch =
        |json: &str| parse(&headers(&[("content-type", BATCH)]), &Bytes::from(json.to_owned()), BATCH_MAX);
    let event = format!("{{{MINIMAL},\"data\": [1 ] }}");
    let Ok(Parsed::Batch(items)) = batch(&format!(" [ {event} , 5, {{}} ] ")) else { panic!("a batch") };
    assert_eq!(items[0].as_ref().map(|e| e.body.as_ref()), Ok(&b"[1 ]"[..]));
    assert_eq!(code_and_field(&items[1]), ("malformed_json", ""));
    assert_eq!(code_and_field(&items[2]), ("missing_attribute", "specversion"));
    for (json, problem) in [
        ("[]", Problem::BatchEmpty),
        ("{}", Problem::MalformedJson),
        ("[", Problem::MalformedJson),
        ("[{}", Problem::MalformedJson),
        ("[{}] x", Problem::MalformedJson),
        ("[{},{},{},{},{}]", Problem::BatchTooLarge),
        ("[{},{},{},{},", Problem::MalformedJson),
    ] {
        let refusal = batch(json).expect_err(json);
        assert_eq!(refusal.problem, problem, "{json}");
        assert!(problem != Problem::BatchTooLarge || refusal.detail.contains("5 events; send at most 3"));
    }
}

/// Text near enough to an event to come past the first checks.
fn almost_json() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\u",
        "d800",
        "null",
        "true",
        "-",
        "1",
        "e",
        ".",
        "\"id\"",
        "\"data\"",
        "\"data_base64\"",
        "\"specversion\":\"1.0\"",
        MINIMAL,
        "\"datacontenttype\":\"text/x\"",
        " ",
        "\u{0}",
        "é",
        "AA==",
    ]);
    let text = prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat().into_bytes());
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        text.clone(),
        text.prop_map(|t| [b"{", &t[..], b"}"].concat())
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_input_panics(
        content_type in prop_oneof![Just(STRUCTURED.to_owned()), Just(BATCH.to_owned()), "[a-z/+;= \"-]{0,24}"],
        names in prop::collection::vec("(ce-)?[a-z0-9-]{1,8}|ce-(id|source|type|time|specversion)", 0..8),
        values in prop::collection::vec(prop::collection::vec(0x20u8..=0xff, 0..16), 8),
        body in almost_json(),
    ) {
        let mut map = HeaderMap::new();
        for (name, value) in names.iter().zip(&values) {
            if let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), http::HeaderValue::from_bytes(value)) {
                map.append(name, value);
            }
        }
        if let Ok(value) = content_type.parse::<http::HeaderValue>() {
            map.append("content-type", value);
        }
        let body = Bytes::from(body);
        if let Err(refusal) = parse(&map, &body, BATCH_MAX) {
            prop_assert!(refusal.detail.len() < 1_000 && refusal.field.is_none_or(|f| f.len() < 400));
        }
        let _ = crate::trace::from_headers(&map);
        let _ = crate::ordering_key::ordering_key(&Attributes::default(), &body, Some(&"a.0".parse().expect("path")));
    }
}
